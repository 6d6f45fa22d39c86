#include "pace_cache.h"

#include "pace_status.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>

bool pace_cache::reference_is_exact() const {
    const auto type = kv->type_k();
    return type == reference_type ||
           (reference_type == GGML_TYPE_F32 && (type == GGML_TYPE_F16 || type == GGML_TYPE_BF16));
}

bool pace_cache::fails_at(pace_fail_point point) {
    if (fail_next != point) {
        return false;
    }
    fail_next = PACE_FAIL_NOWHERE;
    return true;
}

void pace_attach(pace_cache & cache) {
    pace_access::attach(*cache.ctx, cache.attention || cache.counts ? &cache : nullptr);
}

void pace_check_sequence(const pace_cache & cache, llama_seq_id seq) {
    if (seq < 0 || (uint32_t) seq >= cache.ctx->n_seq_max()) {
        pace_fail(PACE_INVALID_ARGUMENT, "sequence %d is not one of the context's %u", seq, cache.ctx->n_seq_max());
    }
}

static ggml_type choose_reference_type(const llama_kv_cache & kv, int32_t asked) {
    if (asked == -1) {
        return kv.type_k() == GGML_TYPE_F32 || kv.type_k() == GGML_TYPE_BF16 ? GGML_TYPE_F32 : GGML_TYPE_F16;
    }
    if (asked != GGML_TYPE_F16 && asked != GGML_TYPE_F32) {
        pace_fail(PACE_INVALID_ARGUMENT, "references can be F16 (1), F32 (0) or chosen (-1), not ggml type %d", asked);
    }
    return (ggml_type) asked;
}

// The more layers share a row, the fewer angles are computed; but a row should not take much scratch.
static const int64_t most_columns = 4096;

static const char * name_of(const ggml_tensor * tensor) {
    return tensor ? tensor->name : "";
}

// Whether keys of both layers are rotated by the same angles, have the same shape, and lie together.
static bool are_alike(const pace_cache & cache, uint32_t a, uint32_t b) {
    const auto & layers  = pace_access::layers(*cache.kv);
    const auto & model   = pace_access::model(*cache.kv);
    const auto & hparams = pace_access::hparams(*cache.kv);
    const auto & cparams = cache.ctx->get_cparams();
    const auto   i       = (int) layers[a].il;
    const auto   j       = (int) layers[b].il;
    return layers[a].k->ne[0] == layers[b].k->ne[0] &&
           ggml_backend_buffer_get_type(layers[a].k->buffer) == ggml_backend_buffer_get_type(layers[b].k->buffer) &&
           pace_rotates(*cache.kv, i) == pace_rotates(*cache.kv, j) && hparams.n_rot(i) == hparams.n_rot(j) &&
           hparams.n_embd_head_k(i) == hparams.n_embd_head_k(j) &&
           model.get_rope_freq_base(cparams, i) == model.get_rope_freq_base(cparams, j) &&
           model.get_rope_freq_scale(cparams, i) == model.get_rope_freq_scale(cparams, j) &&
           strcmp(name_of(model.get_rope_factors(cparams, i)), name_of(model.get_rope_factors(cparams, j))) == 0;
}

static void form_groups(pace_cache & cache) {
    const auto & layers = pace_access::layers(*cache.kv);
    for (uint32_t layer = 0; layer < layers.size(); ++layer) {
        const auto   n_embd = layers[layer].k->ne[0];
        const size_t most   = (size_t) std::max<int64_t>(1, most_columns / n_embd);
        if (cache.groups.empty() || cache.groups.back().layers.size() >= most ||
            !are_alike(cache, cache.groups.back().layers[0], layer)) {
            cache.groups.push_back({ {}, n_embd });
        }
        cache.groups.back().layers.push_back(layer);
    }
}

static void allocate_references(pace_cache & cache) {
    const auto & layers = pace_access::layers(*cache.kv);

    form_groups(cache);
    std::map<ggml_backend_buffer_type_t, ggml_context *> context_of;
    for (auto & group : cache.groups) {
        const auto type = ggml_backend_buffer_get_type(layers[group.layers[0]].k->buffer);
        if (!context_of.count(type)) {
            const ggml_init_params params = { ggml_tensor_overhead() * layers.size(), nullptr, true };
            cache.contexts.emplace_back(ggml_init(params));
            context_of[type] = cache.contexts.back().get();
        }
        group.reference = ggml_new_tensor_2d(context_of[type], cache.reference_type,
                                             group.n_embd * (int64_t) group.layers.size(), cache.kv->get_size());
        ggml_format_name(group.reference, "pace_reference_l%d", (int) layers[group.layers[0]].il);
    }
    for (const auto & [type, context] : context_of) {
        ggml_backend_buffer_ptr buffer(ggml_backend_alloc_ctx_tensors_from_buft(context, type));
        if (!buffer) {
            pace_fail(PACE_NO_MEMORY, "%s cannot hold the reference keys", ggml_backend_buft_name(type));
        }
        ggml_backend_buffer_clear(buffer.get(), 0);
        cache.buffers.push_back(std::move(buffer));
    }
    cache.cell_references.resize(cache.kv->get_size());
}

static void create_scheduler(pace_cache & cache) {
    auto backends     = pace_access::backends(*cache.ctx);
    auto buffer_types = pace_access::buffer_types(*cache.ctx);
    cache.sched.reset(ggml_backend_sched_new(backends.data(), buffer_types.data(), (int) backends.size(),
                                             pace_graph_size(cache),
                                             /*parallel =*/false, /*op_offload =*/false));
    if (!cache.sched) {
        pace_fail(PACE_NO_MEMORY, "no memory for a scheduler");
    }
}

static bool abort_wanted(void * data) {
    auto *     cache  = static_cast<pace_cache *>(data);
    const bool wanted = cache->abort_requested && !cache->moving;
    if (wanted && cache->attention) {
        cache->attention->cut_short = true;
    }
    return wanted;
}

int32_t pace_open(struct llama_context * ctx, const struct pace_options * options, struct pace_cache ** out) {
    return pace_guard([&] {
        if (!ctx || !options || !out) {
            pace_fail(PACE_INVALID_ARGUMENT, "pace_open: an argument is NULL");
        }
        pace_capabilities capabilities = {};
        if (const char * reason = pace_describe(*ctx, capabilities)) {
            pace_fail(PACE_UNSUPPORTED, "%s", reason);
        }
        auto cache            = std::make_unique<pace_cache>();
        cache->ctx            = ctx;
        cache->kv             = pace_plain_cache(ctx);
        cache->reference_type = choose_reference_type(*cache->kv, options->reference_type);
        allocate_references(*cache);
        create_scheduler(*cache);
        cache->shape = pace_shape(*cache);
        llama_set_abort_callback(ctx, abort_wanted, cache.get());
        *out = cache.release();
    });
}

void pace_close(struct pace_cache * cache) {
    if (cache) {
        llama_synchronize(cache->ctx);
        llama_set_abort_callback(cache->ctx, nullptr, nullptr);
        cache->attention.reset();
        cache->counts.reset();
        pace_attach(*cache);
        delete cache;
    }
}

int32_t pace_residents(const struct pace_cache * cache,
                       llama_seq_id              seq,
                       struct pace_resident *    out,
                       uint32_t                  capacity,
                       uint32_t *                n_out) {
    return pace_guard([&] {
        if (!cache || !n_out || (!out && capacity > 0)) {
            pace_fail(PACE_INVALID_ARGUMENT, "pace_residents: an argument is NULL");
        }
        pace_check_sequence(*cache, seq);
        const auto & cells     = cache->cells();
        const auto & residents = cells.seq_pos_get(seq);
        *n_out                 = (uint32_t) residents.size();
        if (capacity == 0 && !out) {
            return;
        }
        if (capacity < residents.size()) {
            pace_fail(PACE_BUFFER_TOO_SMALL, "%zu residents do not fit in %u", residents.size(), capacity);
        }
        for (const auto & [position, cell] : residents) {
            const auto reference = cache->is_captured(cell) ? cache->cell_references[cell].position : -1;
            *out++               = { position, (int32_t) cell, cells.ext_get(cell).tok, reference };
        }
    });
}

int32_t pace_bytes_held(const struct pace_cache * cache, struct pace_bytes * out) {
    return pace_guard([&] {
        if (!cache || !out) {
            pace_fail(PACE_INVALID_ARGUMENT, "pace_bytes_held: an argument is NULL");
        }
        *out = {};
        for (const auto & layer : pace_access::layers(*cache->kv)) {
            out->keys += ggml_nbytes(layer.k);
            out->values += ggml_nbytes(layer.v);
        }
        for (const auto & buffer : cache->buffers) {
            out->references += ggml_backend_buffer_get_size(buffer.get());
        }
        out->attention = cache->attention ? cache->attention->bytes() : 0;
        for (auto * backend : pace_access::backends(*cache->ctx)) {
            out->scratch += ggml_backend_sched_get_buffer_size(cache->sched.get(), backend);
        }
    });
}

// n elements of a tensor as F32, from a byte offset on.
static void read_row(const ggml_tensor * tensor, size_t offset, int64_t n, float * out) {
    const size_t         size = ggml_row_size(tensor->type, n);
    std::vector<uint8_t> bytes(size);
    ggml_backend_tensor_get(tensor, bytes.data(), offset, size);
    if (tensor->type == GGML_TYPE_F32) {
        memcpy(out, bytes.data(), size);
    } else {
        ggml_get_type_traits(tensor->type)->to_float(bytes.data(), out, n);
    }
}

// One column of a V tensor that is stored transposed: n rows of n_cells elements.
static void read_column(const std::vector<float> & matrix, uint64_t column, int64_t n, int64_t n_cells, float * out) {
    for (int64_t i = 0; i < n; ++i) {
        out[i] = matrix[i * n_cells + column];
    }
}

struct reference_place {
    const ggml_tensor * tensor;
    size_t              offset;  // of the layer in a row
};

static reference_place reference_of(const pace_cache & cache, uint32_t layer) {
    for (const auto & group : cache.groups) {
        const auto found = std::find(group.layers.begin(), group.layers.end(), layer);
        if (found != group.layers.end()) {
            const auto index = found - group.layers.begin();
            return { group.reference, index * ggml_row_size(group.reference->type, group.n_embd) };
        }
    }
    return { nullptr, 0 };
}

int32_t pace_read_rows(const struct pace_cache * cache,
                       llama_seq_id              seq,
                       int32_t                   rows,
                       uint32_t                  layer,
                       float *                   out,
                       uint64_t                  capacity,
                       uint64_t *                n_out) {
    return pace_guard([&] {
        if (!cache || !n_out || (!out && capacity > 0)) {
            pace_fail(PACE_INVALID_ARGUMENT, "pace_read_rows: an argument is NULL");
        }
        pace_check_sequence(*cache, seq);
        const auto & layers = pace_access::layers(*cache->kv);
        if (layer >= layers.size()) {
            pace_fail(PACE_INVALID_ARGUMENT, "layer %u: the cache has %zu", layer, layers.size());
        }
        const auto          place  = reference_of(*cache, layer);
        const ggml_tensor * tensor = rows == PACE_ROWS_KEY       ? layers[layer].k :
                                     rows == PACE_ROWS_VALUE     ? layers[layer].v :
                                     rows == PACE_ROWS_REFERENCE ? place.tensor :
                                                                   nullptr;
        if (!tensor) {
            pace_fail(PACE_INVALID_ARGUMENT, "rows %d: keys are 0, values 1, references 2", rows);
        }
        const auto & residents = cache->cells().seq_pos_get(seq);
        const auto   n         = rows == PACE_ROWS_REFERENCE ? layers[layer].k->ne[0] : tensor->ne[0];
        *n_out                 = residents.size() * n;
        if (capacity < *n_out) {
            pace_fail(PACE_BUFFER_TOO_SMALL, "%llu values do not fit in %llu", (unsigned long long) *n_out,
                      (unsigned long long) capacity);
        }
        for (const auto & [position, cell] : residents) {
            if (rows == PACE_ROWS_REFERENCE && !cache->is_captured(cell)) {
                pace_fail(PACE_INVALID_ARGUMENT, "the token at position %d has no reference yet", position);
            }
        }
        llama_synchronize(cache->ctx);
        const bool         transposed = rows == PACE_ROWS_VALUE && pace_access::v_transposed(*cache->kv);
        const auto         n_cells    = (int64_t) cache->kv->get_size();
        std::vector<float> matrix(transposed ? n * n_cells : 0);
        for (int64_t i = 0; transposed && i < n; ++i) {
            read_row(tensor, i * ggml_row_size(tensor->type, n_cells), n_cells, matrix.data() + i * n_cells);
        }
        for (const auto & resident : residents) {
            const auto cell = resident.second;
            if (transposed) {
                read_column(matrix, cell, n, n_cells, out);
            } else {
                read_row(tensor, cell * tensor->nb[1] + (rows == PACE_ROWS_REFERENCE ? place.offset : 0), n, out);
            }
            out += n;
        }
    });
}

void pace_abort(struct pace_cache * cache) {
    if (cache) {
        cache->abort_requested = true;
    }
}

void pace_abort_clear(struct pace_cache * cache) {
    if (cache) {
        cache->abort_requested = false;
    }
}

int32_t pace_fail_next(struct pace_cache * cache, int32_t point) {
    return pace_guard([&] {
        if (!cache || point < PACE_FAIL_NOWHERE || point > PACE_FAIL_COMPUTE) {
            pace_fail(PACE_INVALID_ARGUMENT, "pace_fail_next: no such point: %d", point);
        }
        cache->fail_next = (pace_fail_point) point;
    });
}
