// One graph over all layers that moves K, V and reference rows and rotates keys from their references.
//
// What is gathered from a tensor comes before what is stored into it, and ggml runs a graph's nodes in
// order; so a row may be overwritten by another as soon as both were gathered. Only operations that every
// backend has: get_rows (to F32), rope, set_rows, and cont, transpose and cpy for V without flash attention.
#include "pace_plan.h"
#include "pace_status.h"

#include <algorithm>
#include <cmath>
#include <memory>

size_t pace_graph_size(const pace_cache & cache) {
    // At most 20 nodes a layer and 16 a group are built below.
    return 64 + 40 * pace_access::layers(*cache.kv).size();
}

namespace {

// A list of rows as the graph's inputs.
struct rows_inputs {
    size_t        n           = 0;        // rows
    size_t        n_stay      = 0;        // of these, the first so many keep their cell
    ggml_tensor * source      = nullptr;  // I32 [n]: cells now
    ggml_tensor * destination = nullptr;  // I64 [n]: cells then
    ggml_tensor * stored      = nullptr;  // I32 [n - n_stay]: the destinations of those that do not stay
    ggml_tensor * delta       = nullptr;  // I32 [n]: positions to rotate by
};

class move_graph {
  public:
    move_graph(pace_cache & cache, const pace_plan & plan);

    void run();

  private:
    pace_cache &      cache;
    const pace_plan & plan;
    ggml_context_ptr  ctx;
    ggml_cgraph *     graph = nullptr;

    rows_inputs   rotate, capture, values;
    ggml_tensor * hadamard = nullptr;  // upstream turns heads by it where K is quantised

    rows_inputs   make_inputs(const pace_rows_plan & rows);
    void          set_inputs(const rows_inputs & inputs, const pace_rows_plan & rows);
    void          add_keys(const pace_layer_group & group);
    void          add_values(ggml_tensor * v);
    void          add_transposed_values(ggml_tensor * v);
    ggml_tensor * keys_of(uint32_t layer);
    ggml_tensor * part_of(const pace_layer_group & group, ggml_tensor * rows, size_t index);
    ggml_tensor * plain_heads(ggml_tensor * rows);
    ggml_tensor * turned(const pace_layer_group & group, ggml_tensor * rows, ggml_tensor * delta);
    void store_keys(const pace_layer_group & group, ggml_tensor * rows, ggml_tensor * delta, ggml_tensor * destination);
    bool is_supported() const;

    void do_next(ggml_tensor * tensor) { ggml_build_forward_expand(graph, tensor); }
};

// Rows i0 ... of a matrix.
ggml_tensor * rows_from(ggml_context * ctx, ggml_tensor * rows, size_t i0) {
    return i0 == 0 ? rows : ggml_view_2d(ctx, rows, rows->ne[0], rows->ne[1] - i0, rows->nb[1], i0 * rows->nb[1]);
}

ggml_tensor * elements_from(ggml_context * ctx, ggml_tensor * list, size_t i0) {
    return i0 == 0 ? list : ggml_view_1d(ctx, list, list->ne[0] - i0, i0 * list->nb[0]);
}

move_graph::move_graph(pace_cache & cache, const pace_plan & plan) : cache(cache), plan(plan) {
    const size_t           n_nodes = pace_graph_size(cache);
    const ggml_init_params params = { 2 * n_nodes * ggml_tensor_overhead() + ggml_graph_overhead_custom(n_nodes, false),
                                      nullptr, true };
    ctx.reset(ggml_init(params));
    if (!ctx) {
        pace_fail(PACE_NO_MEMORY, "no memory for a graph of %zu nodes", n_nodes);
    }
    graph   = ggml_new_graph_custom(ctx.get(), n_nodes, false);
    rotate  = make_inputs(plan.rotate);
    capture = make_inputs(plan.capture);
    values  = make_inputs(plan.values);
    if (ggml_is_quantized(cache.kv->type_k())) {
        hadamard = cache.kv->build_input_k_rot(ctx.get());
    }
    for (const auto & group : cache.groups) {
        add_keys(group);
    }
    for (const auto & layer : pace_access::layers(*cache.kv)) {
        if (values.n > 0) {
            pace_access::v_transposed(*cache.kv) ? add_transposed_values(layer.v) : add_values(layer.v);
        }
    }
}

rows_inputs move_graph::make_inputs(const pace_rows_plan & rows) {
    rows_inputs inputs;
    inputs.n      = rows.size();
    inputs.n_stay = rows.n_stay;
    if (inputs.n > 0) {
        const auto n       = (int64_t) inputs.n;
        inputs.source      = ggml_new_tensor_1d(ctx.get(), GGML_TYPE_I32, n);
        inputs.destination = ggml_new_tensor_1d(ctx.get(), GGML_TYPE_I64, n);
        inputs.delta       = ggml_new_tensor_1d(ctx.get(), GGML_TYPE_I32, n);
        if (rows.n_move() > 0) {
            inputs.stored = ggml_new_tensor_1d(ctx.get(), GGML_TYPE_I32, (int64_t) rows.n_move());
        }
    }
    for (auto * tensor : { inputs.source, inputs.destination, inputs.delta, inputs.stored }) {
        if (tensor) {
            ggml_set_input(tensor);
        }
    }
    return inputs;
}

void move_graph::set_inputs(const rows_inputs & inputs, const pace_rows_plan & rows) {
    // A tensor that no node reads has no buffer.
    const auto set = [](ggml_tensor * tensor, const void * data) {
        if (tensor && tensor->buffer) {
            ggml_backend_tensor_set(tensor, data, 0, ggml_nbytes(tensor));
        }
    };
    const std::vector<int32_t> stored(rows.destination.begin() + rows.n_stay, rows.destination.end());
    set(inputs.source, rows.source.data());
    set(inputs.destination, rows.destination.data());
    set(inputs.delta, rows.delta.data());
    set(inputs.stored, stored.data());
}

ggml_tensor * move_graph::keys_of(uint32_t layer) {
    auto * k = pace_access::layers(*cache.kv)[layer].k;
    return ggml_view_2d(ctx.get(), k, k->ne[0], k->ne[1], k->nb[1], 0);
}

// The columns of a group's rows that belong to one layer.
ggml_tensor * move_graph::part_of(const pace_layer_group & group, ggml_tensor * rows, size_t index) {
    return ggml_view_2d(ctx.get(), rows, group.n_embd, rows->ne[1], rows->nb[1],
                        index * ggml_row_size(rows->type, group.n_embd));
}

// Undoes (or does: it is its own inverse) the turn that upstream gives to quantised keys.
ggml_tensor * move_graph::plain_heads(ggml_tensor * rows) {
    return hadamard ? llama_mul_mat_hadamard(ctx.get(), rows, hadamard) : rows;
}

// Rotates rows of a group by their deltas, with magnitudes unchanged.
ggml_tensor * move_graph::turned(const pace_layer_group & group, ggml_tensor * rows, ggml_tensor * delta) {
    const auto & kv      = *cache.kv;
    const auto & hparams = pace_access::hparams(kv);
    const auto & model   = pace_access::model(kv);
    const auto & cparams = cache.ctx->get_cparams();
    const auto   il      = (int) pace_access::layers(kv)[group.layers[0]].il;
    if (!pace_rotates(kv, il)) {
        return rows;
    }
    const float freq_base  = model.get_rope_freq_base(cparams, il);
    const float freq_scale = model.get_rope_freq_scale(cparams, il);
    // YaRN multiplies by attn_factor * (1 + 0.1 ln(1 / freq_scale)): the key has that already.
    const float attn_factor =
        cparams.yarn_ext_factor != 0.0f ? 1.0f / (1.0f + 0.1f * std::log(1.0f / freq_scale)) : 1.0f;
    const auto head = (int64_t) hparams.n_embd_head_k(il);
    auto *     heads =
        ggml_view_3d(ctx.get(), rows, head, rows->ne[0] / head, rows->ne[1], head * sizeof(float), rows->nb[1], 0);
    auto * result = ggml_rope_ext(ctx.get(), heads, delta, model.get_rope_factors(cparams, il), hparams.n_rot(il),
                                  hparams.rope_type, cparams.n_ctx_orig_yarn, freq_base, freq_scale,
                                  cparams.yarn_ext_factor, attn_factor, cparams.yarn_beta_fast, cparams.yarn_beta_slow);
    return ggml_reshape_2d(ctx.get(), result, rows->ne[0], rows->ne[1]);
}

void move_graph::store_keys(const pace_layer_group & group,
                            ggml_tensor *            rows,
                            ggml_tensor *            delta,
                            ggml_tensor *            destination) {
    auto * keys = plain_heads(turned(group, rows, delta));
    for (size_t i = 0; i < group.layers.size(); ++i) {
        do_next(ggml_set_rows(ctx.get(), keys_of(group.layers[i]), part_of(group, keys, i), destination));
    }
}

void move_graph::add_keys(const pace_layer_group & group) {
    auto *        reference = group.reference;
    ggml_tensor * captured  = nullptr;
    if (rotate.n > 0) {
        captured = ggml_get_rows(ctx.get(), reference, rotate.source);
        do_next(captured);
    }
    for (size_t i = 0; capture.n > 0 && i < group.layers.size(); ++i) {
        auto * fresh = plain_heads(ggml_get_rows(ctx.get(), keys_of(group.layers[i]), capture.source));
        do_next(ggml_set_rows(ctx.get(), part_of(group, reference, i), fresh, capture.destination));
    }
    if (captured) {
        if (rotate.stored) {
            do_next(ggml_set_rows(ctx.get(), reference, rows_from(ctx.get(), captured, rotate.n_stay),
                                  elements_from(ctx.get(), rotate.destination, rotate.n_stay)));
        }
        store_keys(group, captured, rotate.delta, rotate.destination);
    }
    if (capture.stored) {
        // Read back as they were rounded: later rotations start from there, so the first one must too.
        auto * rows = ggml_get_rows(ctx.get(), reference, capture.stored);
        do_next(rows);
        store_keys(group, rows, elements_from(ctx.get(), capture.delta, capture.n_stay),
                   elements_from(ctx.get(), capture.destination, capture.n_stay));
    }
}

void move_graph::add_values(ggml_tensor * v) {
    auto * matrix = ggml_view_2d(ctx.get(), v, v->ne[0], v->ne[1], v->nb[1], 0);
    auto * rows   = ggml_get_rows(ctx.get(), matrix, values.source);
    do_next(rows);
    do_next(ggml_set_rows(ctx.get(), matrix, rows, values.destination));
}

// Without flash attention V is a matrix of n_embd rows with one column a cell. The moved columns are
// gathered by way of a transposed copy; they go to a run of cells that starts at the first one that moves.
void move_graph::add_transposed_values(ggml_tensor * v) {
    const auto n_cells = v->ne[1];
    const auto n_embd  = v->ne[0];
    const auto element = ggml_type_size(v->type);
    const auto first   = plan.values.destination.front();
    const auto n       = (int64_t) values.n;

    auto * matrix  = ggml_view_2d(ctx.get(), v, n_cells, n_embd, n_cells * element, 0);
    auto * by_cell = ggml_cont(ctx.get(), ggml_transpose(ctx.get(), matrix));
    auto * rows    = ggml_get_rows(ctx.get(), by_cell, values.source);
    auto * columns = ggml_cont(ctx.get(), ggml_transpose(ctx.get(), rows));
    auto * to      = ggml_view_2d(ctx.get(), v, n, n_embd, n_cells * element, first * element);
    do_next(ggml_cpy(ctx.get(), columns, to));
}

// Whether the device of every cache tensor can run what stores into it: asked before the scheduler, which
// would abort.
bool move_graph::is_supported() const {
    const auto & backends = pace_access::backends(*cache.ctx);
    for (int i = 0; i < ggml_graph_n_nodes(graph); ++i) {
        const auto * node  = ggml_graph_node(graph, i);
        const auto * owner = node->view_src ? node->view_src : node;
        if (!owner->buffer) {
            continue;
        }
        const auto type  = ggml_backend_buffer_get_type(owner->buffer);
        const bool found = std::any_of(backends.begin(), backends.end(), [&](ggml_backend_t backend) {
            return ggml_backend_supports_buft(backend, type) && ggml_backend_supports_op(backend, node);
        });
        if (!found) {
            return false;
        }
    }
    return true;
}

void move_graph::run() {
    if (!is_supported()) {
        pace_fail(PACE_UNSUPPORTED, "the device that holds the keys cannot move rows of this type");
    }
    auto * sched = cache.sched.get();
    ggml_backend_sched_reset(sched);
    if (cache.fails_at(PACE_FAIL_ALLOCATE) || !ggml_backend_sched_alloc_graph(sched, graph)) {
        pace_fail(PACE_NO_MEMORY, "no device memory to move %zu rows", plan.entries.size());
    }
    set_inputs(rotate, plan.rotate);
    set_inputs(capture, plan.capture);
    set_inputs(values, plan.values);
    if (hadamard && hadamard->buffer) {
        cache.kv->set_input_k_rot(hadamard);
    }
    pace_access::use_batch_threads(*cache.ctx);
    cache.moving       = true;
    const auto status  = ggml_backend_sched_graph_compute(sched, graph);
    cache.moving       = false;
    const bool injured = cache.fails_at(PACE_FAIL_COMPUTE);
    if (status != GGML_STATUS_SUCCESS || injured) {
        pace_fail(PACE_CACHE_LOST, "the device failed while rows were being moved (status %d)", (int) status);
    }
}

}  // namespace

void pace_move_rows(pace_cache & cache, const pace_plan & plan) {
    const bool nothing = plan.rotate.size() == 0 && plan.capture.size() == 0 && plan.values.size() == 0;
    if (!nothing) {
        move_graph(cache, plan).run();
    }
}
