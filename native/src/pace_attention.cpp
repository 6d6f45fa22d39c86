#include "pace_attention.h"

#include "pace_cache.h"
#include "pace_plan.h"
#include "pace_status.h"

#include <algorithm>
#include <cmath>
#include <limits>

// Rows that wait on the device before they are added up: few enough to be small, and enough that adding them
// up, for which the device must have finished, costs nothing.
static const int64_t n_waiting = 64;

// Query rows whose weights are computed at a time.
static const int64_t most_rows = 64;

// The inputs of a graph that observes.
class pace_attention_input : public llm_graph_input_i {
  public:
    pace_attention_input(pace_attention & attention, ggml_tensor * weights, ggml_tensor * row) :
        attention(attention),
        weights(weights),
        row(row) {}

    void set_input(const llama_ubatch * ubatch) override { attention.begin_step(*ubatch, weights, row); }

    // A graph is as good for another micro-batch of the same size over as many cells.
    bool can_reuse(const llm_graph_params & params) override {
        const auto * memory = static_cast<const llama_kv_cache_context *>(params.mctx);
        return weights->ne[0] == memory->get_n_kv() && weights->ne[1] == attention.n_queries(params.ubatch.n_tokens);
    }

  private:
    pace_attention & attention;
    ggml_tensor *    weights;
    ggml_tensor *    row;
};

pace_attention::pace_attention(llama_context & ctx, llama_kv_cache & kv, const pace_attention_options & options) :
    ctx(ctx),
    kv(kv),
    most_queries(options.n_queries),
    min_distance(options.min_distance),
    decay(options.decay),
    window(options.window),
    observes(pace_access::hparams(kv).n_layer(), false),
    occupants(kv.get_size()) {
    const auto & layers     = pace_access::layers(kv);
    int          last_layer = -1;
    for (uint32_t i = 0; i < (options.n_layers ? options.n_layers : layers.size()); ++i) {
        const auto layer = options.n_layers ? options.layers[i] : i;
        const auto il    = (int) layers[layer].il;
        observes.resize(std::max<size_t>(observes.size(), il + 1));
        observes[il] = true;
        last_layer   = std::max(last_layer, il);
    }
    awaited.resize(observes.size());
    const ggml_init_params params = { ggml_tensor_overhead(), nullptr, true };
    context.reset(ggml_init(params));
    waiting = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, kv.get_size(), n_waiting);
    ggml_set_name(waiting, "pace_attention");
    const auto last =
        std::find_if(layers.begin(), layers.end(), [&](const auto & l) { return (int) l.il == last_layer; });
    const auto type = ggml_backend_buffer_get_type(last->k->buffer);
    buffer.reset(ggml_backend_alloc_ctx_tensors_from_buft(context.get(), type));
    if (!buffer) {
        pace_fail(PACE_NO_MEMORY, "%s cannot hold the attention masses", ggml_backend_buft_name(type));
    }
    for (int64_t row = 0; row < n_waiting; ++row) {
        mark_unstored(row);
    }
}

// Not a number: a row that was never stored, because its graph failed, can be told from one that was. Written as a
// float, since not every device can fill memory with a byte.
void pace_attention::mark_unstored(int64_t row) {
    const float mark = std::numeric_limits<float>::quiet_NaN();
    ggml_backend_tensor_set(waiting, &mark, row * waiting->nb[1], sizeof(mark));
}

uint32_t pace_attention::n_queries(uint32_t n_tokens) const {
    return most_queries == 0 ? n_tokens : std::min(most_queries, n_tokens);
}

// Views count as nodes.
uint32_t pace_attention::n_nodes(uint32_t n_tokens) const {
    const auto n_chunks = (n_queries(n_tokens) + most_rows - 1) / most_rows;
    const auto n_layers = std::count(observes.begin(), observes.end(), true);
    return (uint32_t) (n_layers * (1 + n_chunks * 10) + n_chunks * 10 + 16);
}

void pace_attention::begin_graph(const llm_graph_context & graph) {
    const auto * memory = static_cast<const llama_kv_cache_context *>(graph.mctx);
    awaited             = observes;
    partial_sums.clear();
    weights = ggml_new_tensor_2d(graph.ctx0, GGML_TYPE_F32, memory->get_n_kv(), n_queries(graph.n_tokens));
    row     = ggml_new_tensor_1d(graph.ctx0, GGML_TYPE_I64, 1);
    ggml_set_input(weights);
    ggml_set_input(row);
    graph.cb(weights, "pace_weights", -1);
    graph.cb(row, "pace_row", -1);
    graph.res->add_input(std::make_unique<pace_attention_input>(*this, weights, row));
}

void pace_attention::build(const llm_graph_context & graph,
                           ggml_tensor *             q,
                           ggml_tensor *             k,
                           ggml_tensor *             mask,
                           ggml_tensor *             sinks,
                           float                     scale,
                           int                       il) {
    if (il < 0 || (size_t) il >= observes.size() || !observes[il]) {
        return;
    }
    if (!awaited[il]) {
        begin_graph(graph);
    }
    awaited[il]      = false;
    auto *     ctx0  = graph.ctx0;
    const auto n     = (int64_t) graph.n_tokens;
    const auto first = n - weights->ne[1];
    const auto cap   = graph.hparams.attn_soft_cap ? graph.hparams.f_attn_logit_softcapping : 0.0f;
    auto *     keys  = ggml_permute(ctx0, k, 0, 2, 1, 3);
    for (int64_t at = first; at < n; at += most_rows) {
        const auto rows    = std::min(most_rows, n - at);
        auto *     part    = ggml_view_3d(ctx0, q, q->ne[0], q->ne[1], rows, q->nb[1], q->nb[2], at * q->nb[2]);
        auto *     queries = ggml_permute(ctx0, part, 0, 2, 1, 3);
        auto *     allowed = ggml_view_2d(ctx0, mask, mask->ne[0], rows, mask->nb[1], at * mask->nb[1]);
        auto *     mass    = ggml_mul_mat(ctx0, keys, queries);
        ggml_prec_set_acc(mass, GGML_PREC_F32);
        if (cap != 0.0f) {
            mass = ggml_scale(ctx0, ggml_tanh(ctx0, ggml_scale(ctx0, mass, 1.0f / cap)), cap);
        }
        mass = ggml_soft_max_ext(ctx0, mass, allowed, scale, graph.hparams.f_max_alibi_bias);
        ggml_soft_max_add_sinks(mass, sinks);
        graph.cb(mass, "pace_mass", il);
        add(graph, at - first, mass);
    }
    if (std::find(awaited.begin(), awaited.end(), true) == awaited.end()) {
        finish_graph(graph);
    }
}

void pace_attention::add(const llm_graph_context & graph, int64_t first_query, ggml_tensor * mass) {
    for (auto & partial : partial_sums) {
        if (partial.first_query == first_query && ggml_are_same_shape(partial.sum, mass)) {
            partial.sum = ggml_add(graph.ctx0, partial.sum, mass);
            ggml_build_forward_expand(graph.gf, partial.sum);
            return;
        }
    }
    ggml_build_forward_expand(graph.gf, mass);
    partial_sums.push_back({ first_query, mass });
}

// Weighs the rows, sums them over queries and heads, and stores the sum.
void pace_attention::finish_graph(const llm_graph_context & graph) {
    auto *        ctx0 = graph.ctx0;
    ggml_tensor * sum  = nullptr;
    for (const auto & partial : partial_sums) {
        const auto n_cells = partial.sum->ne[0];
        const auto rows    = partial.sum->ne[1];
        auto *     factors =
            ggml_view_2d(ctx0, weights, n_cells, rows, weights->nb[1], partial.first_query * weights->nb[1]);
        auto * weighed = ggml_mul(ctx0, partial.sum, factors);
        auto * flat    = ggml_reshape_2d(ctx0, weighed, n_cells, rows * partial.sum->ne[2]);
        auto * by_cell = ggml_sum_rows(ctx0, ggml_cont(ctx0, ggml_transpose(ctx0, flat)));
        auto * mass    = ggml_reshape_2d(ctx0, by_cell, n_cells, 1);
        sum            = sum ? ggml_add(ctx0, sum, mass) : mass;
    }
    auto * to = ggml_view_2d(ctx0, waiting, sum->ne[0], n_waiting, waiting->nb[1], 0);
    ggml_build_forward_expand(graph.gf, ggml_set_rows(ctx0, to, sum, row));
    partial_sums.clear();
}

void pace_attention::void_if_cut_short() {
    if (cut_short.exchange(false) && !steps.empty()) {
        steps.back().is_void = true;
    }
}

// Cells whose occupant is not the one that was observed.
void pace_attention::forget_strangers() {
    const auto & cells = pace_access::cells(kv);
    for (uint32_t cell = 0; cell < occupants.size(); ++cell) {
        if (cells.is_empty(cell) || cells.stamp_get(cell) != occupants[cell].stamp) {
            occupants[cell] = {};
        }
    }
}

void pace_attention::begin_step(const llama_ubatch & ubatch, ggml_tensor * weights, ggml_tensor * row) {
    if (!weights->buffer || !row->buffer) {
        return;  // the graph ends before the last observed layer
    }
    void_if_cut_short();
    if (!steps.empty() && steps.back().row + 1 == n_waiting) {
        collect();
    }
    const pace_attention_step step = { ++n_steps,
                                       steps.empty() ? 0 : steps.back().row + 1,
                                       (uint32_t) weights->ne[0],
                                       ubatch.n_tokens,
                                       (uint32_t) weights->ne[1],
                                       false };
    steps.push_back(step);
    ggml_backend_tensor_set(row, &step.row, 0, sizeof(step.row));
    set_weights(ubatch, weights);
    const auto & cells = pace_access::cells(kv);
    for (uint32_t cell = 0; cell < step.n_cells; ++cell) {
        if (!cells.is_empty(cell) && cells.stamp_get(cell) != occupants[cell].stamp) {
            occupants[cell] = { cells.stamp_get(cell), step.number, 0.0 };
        }
    }
}

// What a weight of each query row counts for each cell: nothing if the cell is too near, and less the more
// tokens of the micro-batch come after the row.
void pace_attention::set_weights(const llama_ubatch & ubatch, ggml_tensor * weights) const {
    const auto & cells   = pace_access::cells(kv);
    const auto   n_cells = weights->ne[0];
    const auto   n_rows  = weights->ne[1];

    std::vector<float> factors(n_cells * n_rows);
    for (int64_t i = 0; i < n_rows; ++i) {
        const auto token  = (int64_t) ubatch.n_tokens - n_rows + i;
        const auto factor = (float) std::pow(decay, (double) (ubatch.n_tokens - 1 - token));
        std::fill_n(factors.begin() + i * n_cells, n_cells, factor);
        for (int64_t cell = 0; min_distance > 0 && cell < n_cells; ++cell) {
            const auto c = (uint32_t) cell;
            if (!cells.is_empty(c) && ubatch.pos[token] - cells.pos_get(c) < min_distance) {
                factors[i * n_cells + cell] = 0.0f;
            }
        }
    }
    ggml_backend_tensor_set(weights, factors.data(), 0, factors.size() * sizeof(float));
}

void pace_attention::collect() {
    llama_synchronize(&ctx);
    void_if_cut_short();
    forget_strangers();
    for (const auto & step : steps) {
        std::vector<float> mass(kv.get_size(), 0.0f);
        ggml_backend_tensor_get(waiting, mass.data(), step.row * waiting->nb[1], step.n_cells * sizeof(float));
        if (step.is_void || std::isnan(mass[0])) {
            continue;
        }
        const double left = std::pow(decay, (double) step.n_tokens);
        for (uint32_t cell = 0; cell < occupants.size(); ++cell) {
            auto & occupant = occupants[cell];
            if (step.number >= occupant.since) {
                occupant.total = occupant.total * left + mass[cell];
            }
        }
        past.push_back({ step.number, step.n_queries, std::move(mass) });
        if (past.size() > window) {
            past.pop_front();
        }
    }
    for (const auto & step : steps) {
        mark_unstored(step.row);
    }
    steps.clear();
}

void pace_attention::follow(const llama_kv_cells & cells, const std::vector<uint32_t> & sources) {
    std::vector<occupant> moved(occupants.size());
    for (uint32_t i = 0; i < sources.size(); ++i) {
        moved[i] = occupants[sources[i]];
        if (moved[i].stamp) {
            moved[i].stamp = cells.stamp_get(i);
        }
    }
    occupants = std::move(moved);
    for (auto & step : past) {
        std::vector<float> mass(step.mass.size(), 0.0f);
        for (uint32_t i = 0; i < sources.size(); ++i) {
            mass[i] = step.mass[sources[i]];
        }
        step.mass = std::move(mass);
    }
}

void pace_attention::set_total(uint32_t cell, double total) {
    const auto stamp    = pace_access::cells(kv).stamp_get(cell);
    auto &     occupant = occupants[cell];
    if (occupant.stamp != stamp) {
        occupant = { stamp, n_steps + 1, 0.0 };
    }
    occupant.total = total;
}

std::vector<double> pace_attention::masses(pace_attention_part part, uint32_t n) const {
    const auto &        cells = pace_access::cells(kv);
    std::vector<double> sums(occupants.size(), 0.0);
    uint32_t            n_counted = 0;
    // step by step, so that memory is read in order
    for (auto step = past.rbegin(); part != PACE_ATTENTION_TOTAL && step != past.rend() && n_counted < n; ++step) {
        for (uint32_t cell = 0; cell < sums.size(); ++cell) {
            sums[cell] += step->number >= occupants[cell].since ? step->mass[cell] : 0.0;
        }
        n_counted += part == PACE_ATTENTION_STEPS ? 1 : step->n_queries;
    }
    for (uint32_t cell = 0; cell < sums.size(); ++cell) {
        const bool is_known = occupants[cell].stamp == cells.stamp_get(cell);  // else it came in by another way
        sums[cell]          = !is_known ? 0.0 : part == PACE_ATTENTION_TOTAL ? occupants[cell].total : sums[cell];
    }
    return sums;
}

static void check_options(const pace_cache & cache, const pace_attention_options & options) {
    const auto n_layers = pace_access::layers(*cache.kv).size();
    if (pace_access::model(*cache.kv).arch == LLM_ARCH_GROK) {
        pace_fail(PACE_UNSUPPORTED, "the attention of this architecture cannot be observed");
    }
    if (options.min_distance < 0) {
        pace_fail(PACE_INVALID_ARGUMENT, "minimum distance %d is below 0", options.min_distance);
    }
    if (!(options.decay >= 0.0 && options.decay <= 1.0)) {
        pace_fail(PACE_INVALID_ARGUMENT, "decay %g is out of range; use 0 to 1", options.decay);
    }
    if (options.window < 1 || options.window > 4096) {
        pace_fail(PACE_INVALID_ARGUMENT, "a window of %u steps is out of range; use 1 to 4096", options.window);
    }
    if (options.n_layers > 0 && !options.layers) {
        pace_fail(PACE_INVALID_ARGUMENT, "layers is NULL");
    }
    for (uint32_t i = 0; i < options.n_layers; ++i) {
        if (options.layers[i] >= n_layers || (i > 0 && options.layers[i] <= options.layers[i - 1])) {
            pace_fail(PACE_INVALID_ARGUMENT, "layers must increase strictly and stay under %zu; number %u is %u",
                      n_layers, i, options.layers[i]);
        }
    }
}

int32_t pace_observe(struct pace_cache * cache, const struct pace_attention_options * options) {
    return pace_guard([&] {
        if (!cache) {
            pace_fail(PACE_INVALID_ARGUMENT, "pace_observe: cache is NULL");
        }
        std::unique_ptr<pace_attention> attention;
        if (options) {
            check_options(*cache, *options);
            attention = std::make_unique<pace_attention>(*cache->ctx, *cache->kv, *options);
        }
        llama_synchronize(cache->ctx);
        cache->attention = std::move(attention);
        pace_attach(*cache);
    });
}

int32_t pace_write_attention(struct pace_cache * cache, llama_seq_id seq, const double * totals, uint32_t n_residents) {
    return pace_guard([&] {
        if (!cache || (!totals && n_residents > 0)) {
            pace_fail(PACE_INVALID_ARGUMENT, "pace_write_attention: an argument is NULL");
        }
        pace_check_ranks(*cache, seq, nullptr, 0, n_residents);
        if (!cache->attention) {
            pace_fail(PACE_INVALID_ARGUMENT, "attention is not observed; call pace_observe() first");
        }
        for (uint32_t i = 0; i < n_residents; ++i) {
            if (!(totals[i] >= 0.0 && std::isfinite(totals[i]))) {
                pace_fail(PACE_INVALID_ARGUMENT, "total number %u is %g; use 0 or more", i, totals[i]);
            }
        }
        cache->attention->collect();
        for (const auto & resident : cache->cells().seq_pos_get(seq)) {
            cache->attention->set_total(resident.second, *totals++);
        }
    });
}

int32_t pace_read_attention(struct pace_cache * cache,
                            llama_seq_id        seq,
                            int32_t             part,
                            uint32_t            n,
                            double *            out,
                            uint32_t            capacity,
                            uint32_t *          n_out) {
    return pace_guard([&] {
        if (!cache || !n_out || (!out && capacity > 0)) {
            pace_fail(PACE_INVALID_ARGUMENT, "pace_read_attention: an argument is NULL");
        }
        pace_check_sequence(*cache, seq);
        if (part < PACE_ATTENTION_TOTAL || part > PACE_ATTENTION_QUERIES) {
            pace_fail(PACE_INVALID_ARGUMENT, "part %d: totals are 0, steps 1, queries 2", part);
        }
        if (!cache->attention) {
            pace_fail(PACE_INVALID_ARGUMENT, "attention is not observed; call pace_observe() first");
        }
        const auto & residents = cache->cells().seq_pos_get(seq);
        *n_out                 = (uint32_t) residents.size();
        if (capacity < residents.size()) {
            pace_fail(PACE_BUFFER_TOO_SMALL, "%zu residents do not fit in %u", residents.size(), capacity);
        }
        cache->attention->collect();
        const auto masses = cache->attention->masses((pace_attention_part) part, n);
        for (const auto & resident : residents) {
            *out++ = masses[resident.second];
        }
    });
}
