#include "pace_rotation.h"

#include "pace_status.h"

#include <algorithm>
#include <cmath>

ggml_tensor * pace_keys_of(ggml_context * ctx, const pace_cache & cache, uint32_t layer) {
    auto * k = pace_access::layers(*cache.kv)[layer].k;
    return ggml_view_2d(ctx, k, k->ne[0], k->ne[1], k->nb[1], 0);
}

ggml_tensor * pace_part_of(ggml_context * ctx, const pace_layer_group & group, ggml_tensor * rows, size_t index) {
    return ggml_view_2d(ctx, rows, group.n_embd, rows->ne[1], rows->nb[1],
                        index * ggml_row_size(rows->type, group.n_embd));
}

// What YaRN's own factor on magnitudes is multiplied by to give 1: the key has that factor already. Not one
// unit less, so that a rotation by 0 keeps every bit.
static float reciprocal(float factor) {
    const float result = 1.0f / factor;
    return result * factor < 1.0f ? std::nextafter(result, 2.0f) : result;
}

ggml_tensor * pace_turned(ggml_context *           ctx,
                          const pace_cache &       cache,
                          const pace_layer_group & group,
                          ggml_tensor *            rows,
                          ggml_tensor *            delta) {
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
    const float attn_factor =
        cparams.yarn_ext_factor != 0.0f ? reciprocal(1.0f + 0.1f * std::log(1.0f / freq_scale)) : 1.0f;
    const auto head = (int64_t) hparams.n_embd_head_k(il);
    auto * heads = ggml_view_3d(ctx, rows, head, rows->ne[0] / head, rows->ne[1], head * sizeof(float), rows->nb[1], 0);
    auto * result = ggml_rope_ext(ctx, heads, delta, model.get_rope_factors(cparams, il), hparams.n_rot(il),
                                  hparams.rope_type, cparams.n_ctx_orig_yarn, freq_base, freq_scale,
                                  cparams.yarn_ext_factor, attn_factor, cparams.yarn_beta_fast, cparams.yarn_beta_slow);
    return ggml_reshape_2d(ctx, result, rows->ne[0], rows->ne[1]);
}

bool pace_can_run(const pace_cache & cache, ggml_cgraph * graph) {
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

void pace_run(pace_cache & cache, ggml_cgraph * graph) {
    pace_access::use_batch_threads(*cache.ctx);
    const pace_moving moving(cache);
    const auto        status  = ggml_backend_sched_graph_compute(cache.sched.get(), graph);
    const bool        injured = cache.fails_at(PACE_FAIL_COMPUTE);
    if (status != GGML_STATUS_SUCCESS || injured) {
        pace_fail(PACE_CACHE_LOST, "the device failed while rows were being moved (status %d)", (int) status);
    }
}
