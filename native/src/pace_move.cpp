// One graph over all layers that moves K, V and reference rows and rotates keys from their references.
//
// First every reference goes to its new cell: captured from the cache where it is new, moved where it is not.
// Then every key that moves or turns is computed from its reference, a chunk of rows at a time, so that on a
// CPU what is in between stays in the caches. ggml runs a graph's nodes in order, and what is gathered from a
// tensor comes before what is stored over it.
//
// Only operations that every backend has: get_rows, rope, set_rows, and cont, transpose and cpy for V
// without flash attention. Rows that only move are copied as 32-bit words, whatever their type.
#include "pace_plan.h"
#include "pace_rotation.h"
#include "pace_status.h"

#include <algorithm>
#include <memory>

// F32 elements of a chunk of keys. A device has no such caches, and wants few and large operations.
static const int64_t chunk_on_host   = 256 * 1024;
static const int64_t chunk_on_device = 16 * 1024 * 1024;

static int64_t rows_of_chunk(const pace_layer_group & group) {
    const bool on_host = ggml_backend_buffer_is_host(group.reference->buffer);
    return std::max<int64_t>(16, (on_host ? chunk_on_host : chunk_on_device) / group.reference->ne[0]);
}

size_t pace_graph_size(const pace_cache & cache) {
    size_t n_nodes = 64;
    for (const auto & group : cache.groups) {
        const size_t n_layers = group.layers.size();
        const size_t n_chunks = cache.kv->get_size() / rows_of_chunk(group) + 1;
        n_nodes += 16 + 24 * n_layers + n_chunks * (12 + 4 * n_layers);
    }
    return n_nodes;
}

namespace {

struct moves_inputs {
    ggml_tensor * source      = nullptr;  // I32 [n]
    ggml_tensor * destination = nullptr;  // I64 [n]
};

struct turns_inputs {
    ggml_tensor * source      = nullptr;  // I32 [n]: cells to gather references from
    ggml_tensor * destination = nullptr;  // I64 [n]: the same cells, to store keys into
    ggml_tensor * delta       = nullptr;  // I32 [n]
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

    moves_inputs  captures, references, values;
    turns_inputs  keys;
    ggml_tensor * hadamard = nullptr;  // upstream turns heads by it where K is quantised

    ggml_tensor * make_input(ggml_type type, size_t n);
    moves_inputs  make_inputs(const pace_moves & moves);
    void          add_references(const pace_layer_group & group);
    void          add_keys(const pace_layer_group & group, int64_t first, int64_t count);
    void          add_values(ggml_tensor * v);
    void          add_transposed_values(ggml_tensor * v);
    void          move_rows(ggml_tensor * from, ggml_tensor * to, const moves_inputs & moves);
    ggml_tensor * as_words(ggml_tensor * rows);
    ggml_tensor * plain_heads(ggml_tensor * rows);

    void do_next(ggml_tensor * tensor) { ggml_build_forward_expand(graph, tensor); }
};

ggml_tensor * elements(ggml_context * ctx, ggml_tensor * list, int64_t first, int64_t count) {
    return ggml_view_1d(ctx, list, count, first * list->nb[0]);
}

move_graph::move_graph(pace_cache & cache, const pace_plan & plan) : cache(cache), plan(plan) {
    const size_t           n_nodes = pace_graph_size(cache);
    const ggml_init_params params = { 2 * n_nodes * ggml_tensor_overhead() + ggml_graph_overhead_custom(n_nodes, false),
                                      nullptr, true };
    ctx.reset(ggml_init(params));
    if (!ctx) {
        pace_fail(PACE_NO_MEMORY, "no memory for a graph of %zu nodes", n_nodes);
    }
    graph            = ggml_new_graph_custom(ctx.get(), n_nodes, false);
    captures         = make_inputs(plan.captures);
    references       = make_inputs(plan.references);
    values           = make_inputs(plan.values);
    keys.source      = make_input(GGML_TYPE_I32, plan.keys.size());
    keys.destination = make_input(GGML_TYPE_I64, plan.keys.size());
    keys.delta       = make_input(GGML_TYPE_I32, plan.keys.size());
    if (ggml_is_quantized(cache.kv->type_k())) {
        hadamard = cache.kv->build_input_k_rot(ctx.get());
    }
    for (const auto & group : cache.groups) {
        add_references(group);
        const auto n     = (int64_t) plan.keys.size();
        const auto chunk = rows_of_chunk(group);
        for (int64_t first = 0; first < n; first += chunk) {
            add_keys(group, first, std::min(chunk, n - first));
        }
    }
    for (const auto & layer : pace_access::layers(*cache.kv)) {
        if (values.source) {
            pace_access::v_transposed(*cache.kv) ? add_transposed_values(layer.v) : add_values(layer.v);
        }
    }
}

ggml_tensor * move_graph::make_input(ggml_type type, size_t n) {
    if (n == 0) {
        return nullptr;
    }
    auto * tensor = ggml_new_tensor_1d(ctx.get(), type, (int64_t) n);
    ggml_set_input(tensor);
    return tensor;
}

moves_inputs move_graph::make_inputs(const pace_moves & moves) {
    return { make_input(GGML_TYPE_I32, moves.size()), make_input(GGML_TYPE_I64, moves.size()) };
}

// The same rows as 32-bit words, which are copied bit for bit; NULL if they are no whole number of them.
ggml_tensor * move_graph::as_words(ggml_tensor * rows) {
    const size_t size = ggml_row_size(rows->type, rows->ne[0]);
    if (size % sizeof(float) != 0 || rows->nb[1] % sizeof(float) != 0) {
        return nullptr;
    }
    auto * words = ggml_view_2d(ctx.get(), rows, rows->ne[0], rows->ne[1], rows->nb[1], 0);
    words->type  = GGML_TYPE_F32;
    words->ne[0] = (int64_t) (size / sizeof(float));
    words->nb[0] = sizeof(float);
    return words;
}

// Gathers all rows before it stores the first.
void move_graph::move_rows(ggml_tensor * from, ggml_tensor * to, const moves_inputs & moves) {
    auto * from_words = from->type == to->type ? as_words(from) : nullptr;
    auto * to_words   = from_words ? as_words(to) : nullptr;
    if (to_words) {
        from = from_words;
        to   = to_words;
    }
    auto * rows = ggml_get_rows(ctx.get(), from, moves.source);
    do_next(rows);
    do_next(ggml_set_rows(ctx.get(), to, rows, moves.destination));
}

// Undoes (or does: it is its own inverse) the turn that upstream gives to quantised keys.
ggml_tensor * move_graph::plain_heads(ggml_tensor * rows) {
    return hadamard ? llama_mul_mat_hadamard(ctx.get(), rows, hadamard) : rows;
}

void move_graph::add_references(const pace_layer_group & group) {
    ggml_tensor * moved = nullptr;
    auto *        words = as_words(group.reference);  // rows of F16 or F32 with an even number of columns
    auto *        to    = words ? words : group.reference;
    if (references.source) {
        moved = ggml_get_rows(ctx.get(), to, references.source);
        do_next(moved);
    }
    for (size_t i = 0; captures.source && i < group.layers.size(); ++i) {
        auto * k    = pace_keys_of(ctx.get(), cache, group.layers[i]);
        auto * part = pace_part_of(ctx.get(), group, group.reference, i);
        if (hadamard) {
            auto * fresh = plain_heads(ggml_get_rows(ctx.get(), k, captures.source));
            do_next(ggml_set_rows(ctx.get(), part, fresh, captures.destination));
        } else {
            move_rows(k, part, captures);
        }
    }
    if (moved) {
        do_next(ggml_set_rows(ctx.get(), to, moved, references.destination));
    }
}

void move_graph::add_keys(const pace_layer_group & group, int64_t first, int64_t count) {
    auto * rows = ggml_get_rows(ctx.get(), group.reference, elements(ctx.get(), keys.source, first, count));
    auto * turn =
        plain_heads(pace_turned(ctx.get(), cache, group, rows, elements(ctx.get(), keys.delta, first, count)));
    auto * to = elements(ctx.get(), keys.destination, first, count);
    for (size_t i = 0; i < group.layers.size(); ++i) {
        do_next(ggml_set_rows(ctx.get(), pace_keys_of(ctx.get(), cache, group.layers[i]),
                              pace_part_of(ctx.get(), group, turn, i), to));
    }
}

void move_graph::add_values(ggml_tensor * v) {
    auto * rows = ggml_view_2d(ctx.get(), v, v->ne[0], v->ne[1], v->nb[1], 0);
    move_rows(rows, rows, values);
}

// Without flash attention V is a matrix of n_embd rows with one column a cell. Its columns are gathered by
// way of a transposed copy, in the order of their new cells, from the first that moves to the last entry.
void move_graph::add_transposed_values(ggml_tensor * v) {
    const auto n_cells = v->ne[1];
    const auto n_embd  = v->ne[0];
    const auto element = ggml_type_size(v->type);
    const auto first   = plan.values.destination.front();
    const auto n       = (int64_t) values.source->ne[0];

    auto * matrix  = ggml_view_2d(ctx.get(), v, n_cells, n_embd, n_cells * element, 0);
    auto * by_cell = ggml_cont(ctx.get(), ggml_transpose(ctx.get(), matrix));
    auto * rows    = ggml_get_rows(ctx.get(), by_cell, values.source);
    auto * columns = ggml_cont(ctx.get(), ggml_transpose(ctx.get(), rows));
    auto * to      = ggml_view_2d(ctx.get(), v, n, n_embd, n_cells * element, first * element);
    do_next(ggml_cpy(ctx.get(), columns, to));
}

void move_graph::run() {
    if (!pace_can_run(cache, graph)) {
        pace_fail(PACE_UNSUPPORTED, "the device that holds the keys cannot move rows of this type");
    }
    auto * sched = cache.sched.get();
    ggml_backend_sched_reset(sched);
    if (cache.fails_at(PACE_FAIL_ALLOCATE) || !ggml_backend_sched_alloc_graph(sched, graph)) {
        pace_fail(PACE_NO_MEMORY, "no device memory to move or turn rows");
    }
    pace_set_input(captures.source, plan.captures.source);
    pace_set_input(captures.destination, plan.captures.destination);
    pace_set_input(references.source, plan.references.source);
    pace_set_input(references.destination, plan.references.destination);
    pace_set_input(values.source, plan.values.source);
    pace_set_input(values.destination, plan.values.destination);
    pace_set_input(keys.source, plan.keys.cell);
    pace_set_input(keys.destination, std::vector<int64_t>(plan.keys.cell.begin(), plan.keys.cell.end()));
    pace_set_input(keys.delta, plan.keys.delta);
    if (hadamard && hadamard->buffer) {
        cache.kv->set_input_k_rot(hadamard);
    }
    pace_run(cache, graph);
}

}  // namespace

void pace_move_rows(pace_cache & cache, const pace_plan & plan) {
    const bool nothing = plan.captures.size() == 0 && plan.values.size() == 0 && plan.keys.size() == 0;
    if (!nothing) {
        move_graph(cache, plan).run();
    }
}
