// Reading keys as at position 0, and putting rows in place of others: what merging residents needs.
#include "pace_plan.h"
#include "pace_rotation.h"
#include "pace_status.h"

#include <algorithm>
#include <cmath>

namespace {

struct layer_place {
    const pace_layer_group * group;
    size_t                   index;  // in the group
};

layer_place place_of(const pace_cache & cache, uint32_t layer) {
    for (const auto & group : cache.groups) {
        const auto found = std::find(group.layers.begin(), group.layers.end(), layer);
        if (found != group.layers.end()) {
            return { &group, (size_t) (found - group.layers.begin()) };
        }
    }
    pace_fail(PACE_INVALID_ARGUMENT, "layer %u: the cache has %zu", layer, pace_access::layers(*cache.kv).size());
}

// A small graph on the cache's own scheduler.
class rows_graph {
  public:
    explicit rows_graph(pace_cache & cache) : cache(cache) {
        const ggml_init_params params = { n_nodes * ggml_tensor_overhead() + ggml_graph_overhead_custom(n_nodes, false),
                                          nullptr, true };
        context.reset(ggml_init(params));
        if (!context) {
            pace_fail(PACE_NO_MEMORY, "no memory for a graph");
        }
        graph = ggml_new_graph_custom(context.get(), n_nodes, false);
    }

    ggml_context * ctx() { return context.get(); }

    ggml_tensor * input(ggml_type type, int64_t n_columns, int64_t n_rows = 1) {
        auto * tensor = ggml_new_tensor_2d(ctx(), type, n_columns, n_rows);
        ggml_set_input(tensor);
        return tensor;
    }

    void then(ggml_tensor * tensor) { ggml_build_forward_expand(graph, tensor); }

    // Throws before anything was changed, and before inputs can be set.
    void allocate() {
        if (!pace_can_run(cache, graph)) {
            pace_fail(PACE_UNSUPPORTED, "the device that holds the keys cannot store rows of this type");
        }
        ggml_backend_sched_reset(cache.sched.get());
        if (cache.fails_at(PACE_FAIL_ALLOCATE) || !ggml_backend_sched_alloc_graph(cache.sched.get(), graph)) {
            pace_fail(PACE_NO_MEMORY, "no device memory for rows");
        }
    }

    void run() { pace_run(cache, graph); }

  private:
    static constexpr size_t n_nodes = 64;

    pace_cache &     cache;
    ggml_context_ptr context;
    ggml_cgraph *    graph = nullptr;
};

struct new_rows {
    uint32_t              layer;
    std::vector<uint32_t> cells;
    const float *         keys;
    const float *         values;
};

class write_graph {
  public:
    write_graph(pace_cache & cache, const new_rows & rows);

    void run();

  private:
    pace_cache &     cache;
    const new_rows & rows;
    rows_graph       graph;
    ggml_tensor *    keys;
    ggml_tensor *    values;
    ggml_tensor *    source;              // I32 [n]: cells to gather references from
    ggml_tensor *    destination;         // I64 [n]: the same cells
    ggml_tensor *    to_reference;        // I32 [n]: position of each reference
    ggml_tensor *    to_key;              // I32 [n]: from there to the position of the key
    ggml_tensor *    elements = nullptr;  // I64 [n * n_embd_v]: where each value goes, if they are stored by columns
    ggml_tensor *    hadamard = nullptr;

    void store_values(ggml_tensor * v);
};

write_graph::write_graph(pace_cache & cache, const new_rows & rows) : cache(cache), rows(rows), graph(cache) {
    auto *       ctx   = graph.ctx();
    const auto   n     = (int64_t) rows.cells.size();
    const auto & layer = pace_access::layers(*cache.kv)[rows.layer];
    const auto   place = place_of(cache, rows.layer);
    keys               = graph.input(GGML_TYPE_F32, layer.k->ne[0], n);
    values             = graph.input(GGML_TYPE_F32, layer.v->ne[0], n);
    source             = graph.input(GGML_TYPE_I32, n);
    destination        = graph.input(GGML_TYPE_I64, n);
    to_reference       = graph.input(GGML_TYPE_I32, n);
    to_key             = graph.input(GGML_TYPE_I32, n);
    if (ggml_is_quantized(cache.kv->type_k())) {
        hadamard = cache.kv->build_input_k_rot(ctx);
    }
    auto * part      = pace_part_of(ctx, *place.group, place.group->reference, place.index);
    auto * reference = pace_turned(ctx, cache, *place.group, keys, to_reference);
    graph.then(ggml_set_rows(ctx, part, reference, destination));
    auto * gathered = ggml_get_rows(ctx, place.group->reference, source);
    auto * key      = pace_turned(ctx, cache, *place.group,
                                  ggml_cont(ctx, pace_part_of(ctx, *place.group, gathered, place.index)), to_key);
    if (hadamard) {
        key = llama_mul_mat_hadamard(ctx, key, hadamard);
    }
    graph.then(ggml_set_rows(ctx, pace_keys_of(ctx, cache, rows.layer), key, destination));
    store_values(layer.v);
}

void write_graph::store_values(ggml_tensor * v) {
    auto * ctx = graph.ctx();
    if (!pace_access::v_transposed(*cache.kv)) {
        auto * matrix = ggml_view_2d(ctx, v, v->ne[0], v->ne[1], v->nb[1], 0);
        graph.then(ggml_set_rows(ctx, matrix, values, destination));
        return;
    }
    const auto n = ggml_nelements(values);
    elements     = graph.input(GGML_TYPE_I64, n);
    auto * flat  = ggml_view_2d(ctx, v, 1, v->ne[0] * v->ne[1], ggml_type_size(v->type), 0);
    graph.then(ggml_set_rows(ctx, flat, ggml_reshape_2d(ctx, values, 1, n), elements));
}

void write_graph::run() {
    const auto & cells = cache.cells();
    graph.allocate();
    std::vector<int32_t> from, reference, key;
    std::vector<int64_t> to, at;
    for (const auto cell : rows.cells) {
        const auto position = cache.cell_references[cell].position;
        from.push_back((int32_t) cell);
        to.push_back(cell);
        reference.push_back(position);
        key.push_back(cells.pos_get(cell) - cells.get_shift(cell) - position);
        for (int64_t i = 0; elements && i < values->ne[0]; ++i) {
            at.push_back(i * (int64_t) cache.kv->get_size() + cell);
        }
    }
    ggml_backend_tensor_set(keys, rows.keys, 0, ggml_nbytes(keys));
    ggml_backend_tensor_set(values, rows.values, 0, ggml_nbytes(values));
    pace_set_input(source, from);
    pace_set_input(destination, to);
    pace_set_input(to_reference, reference);
    pace_set_input(to_key, key);
    pace_set_input(elements, at);
    if (hadamard && hadamard->buffer) {
        cache.kv->set_input_k_rot(hadamard);
    }
    graph.run();
}

}  // namespace

int32_t pace_read_plain_keys(struct pace_cache * cache,
                             llama_seq_id        seq,
                             uint32_t            layer,
                             float *             out,
                             uint64_t            capacity,
                             uint64_t *          n_out) {
    return pace_guard([&] {
        if (!cache || !n_out || (!out && capacity > 0)) {
            pace_fail(PACE_INVALID_ARGUMENT, "pace_read_plain_keys: an argument is NULL");
        }
        pace_check_sequence(*cache, seq);
        const auto place = place_of(*cache, layer);
        const auto cells = pace_cells_in_order(*cache, seq);
        *n_out           = cells.size() * place.group->n_embd;
        if (capacity < *n_out) {
            pace_fail(PACE_BUFFER_TOO_SMALL, "%llu values do not fit in %llu", (unsigned long long) *n_out,
                      (unsigned long long) capacity);
        }
        if (cells.empty()) {
            return;
        }
        pace_keeps_residents([&] {
            pace_capture(*cache, cells);
            rows_graph graph(*cache);
            auto *     source = graph.input(GGML_TYPE_I32, (int64_t) cells.size());
            auto *     delta  = graph.input(GGML_TYPE_I32, (int64_t) cells.size());
            auto *     rows   = ggml_get_rows(graph.ctx(), place.group->reference, source);
            auto *     part   = ggml_cont(graph.ctx(), pace_part_of(graph.ctx(), *place.group, rows, place.index));
            auto *     result = pace_turned(graph.ctx(), *cache, *place.group, part, delta);
            ggml_set_output(result);
            graph.then(result);
            graph.allocate();
            std::vector<int32_t> from, back;
            for (const auto cell : cells) {
                from.push_back((int32_t) cell);
                back.push_back(-cache->cell_references[cell].position);
            }
            pace_set_input(source, from);
            pace_set_input(delta, back);
            graph.run();
            ggml_backend_tensor_get(result, out, 0, ggml_nbytes(result));
        });
    });
}

static void check_rows(const float * rows, size_t n, const char * what) {
    for (size_t i = 0; i < n; ++i) {
        if (!std::isfinite(rows[i])) {
            pace_fail(PACE_INVALID_ARGUMENT, "%s: element %zu is %g", what, i, rows[i]);
        }
    }
}

int32_t pace_write_rows(struct pace_cache * cache,
                        llama_seq_id        seq,
                        uint32_t            layer,
                        const uint32_t *    ranks,
                        uint32_t            n,
                        uint32_t            n_residents,
                        const float *       keys,
                        const float *       values,
                        const float *       counts) {
    return pace_guard([&] {
        if (!cache || (n > 0 && (!ranks || !keys || !values))) {
            pace_fail(PACE_INVALID_ARGUMENT, "pace_write_rows: an argument is NULL");
        }
        pace_check_ranks(*cache, seq, ranks, n, n_residents);
        const auto   place  = place_of(*cache, layer);
        const auto & tensor = pace_access::layers(*cache->kv)[layer];
        check_rows(keys, n * place.group->n_embd, "keys");
        check_rows(values, n * tensor.v->ne[0], "values");
        for (uint32_t i = 0; counts && i < n; ++i) {
            if (!(counts[i] >= 1.0f && counts[i] <= 1e9f)) {
                pace_fail(PACE_INVALID_ARGUMENT, "count number %u is %g; use 1 or more", i, counts[i]);
            }
        }
        const auto ranked = pace_cells_in_order(*cache, seq);
        new_rows   rows   = { layer, {}, keys, values };
        for (uint32_t i = 0; i < n; ++i) {
            rows.cells.push_back(ranked[ranks[i]]);
            if (cache->cells().seq_count(rows.cells.back()) > 1) {
                pace_fail(PACE_SHARED_CELL, "the token of rank %u belongs to another sequence too", ranks[i]);
            }
        }
        if (n == 0) {
            return;
        }
        if (cache->fails_at(PACE_FAIL_PLAN)) {
            pace_fail(PACE_NO_MEMORY, "no memory to plan");
        }
        llama_synchronize(cache->ctx);
        pace_keeps_residents([&] { pace_capture(*cache, ranked); });
        pace_empties_if_lost(*cache, [&] { write_graph(*cache, rows).run(); });
        pace_count(*cache, (int) tensor.il, rows.cells, counts);
    });
}
