// The one door to upstream's private members (patch 0002 makes this struct a friend).
#pragma once

#include "llama-context.h"
#include "llama-kv-cache.h"
#include "llama-model.h"

struct pace_cache;

struct pace_access {
    using kv_layer = llama_kv_cache::kv_layer;

    static llama_kv_cells & cells(llama_kv_cache & kv) { return kv.v_cells[0]; }

    static const llama_kv_cells & cells(const llama_kv_cache & kv) { return kv.v_cells[0]; }

    static uint32_t & head(llama_kv_cache & kv) { return kv.v_heads[0]; }

    static const std::vector<kv_layer> & layers(const llama_kv_cache & kv) { return kv.layers; }

    static const llama_model & model(const llama_kv_cache & kv) { return kv.model; }

    static const llama_hparams & hparams(const llama_kv_cache & kv) { return kv.hparams; }

    static bool v_transposed(const llama_kv_cache & kv) { return kv.v_trans; }

    // Upstream turns the heads of quantised values by a Hadamard matrix.
    static bool turns_values(const llama_kv_cache & kv) { return kv.attn_rot_v; }

    static bool shares_cells(const llama_kv_cache & kv) { return kv.other != nullptr; }

    static bool has_window(const llama_kv_cache & kv) { return kv.swa_type != LLAMA_SWA_TYPE_NONE; }

    static const std::vector<ggml_backend_t> & backends(const llama_context & ctx) { return ctx.backend_ptrs; }

    static const std::vector<ggml_backend_buffer_type_t> & buffer_types(const llama_context & ctx) {
        return ctx.backend_buft;
    }

    // The context's next decode builds its graphs anew, with the hooks of this cache or without any.
    static void attach(llama_context & ctx, pace_cache * cache) {
        if (cache || ctx.cparams.pace) {
            ctx.cparams.pace       = cache;
            ctx.sched_need_reserve = true;
        }
    }

    // The thread count of prompt processing, on every backend that has one.
    static void use_batch_threads(llama_context & ctx) {
        for (const auto & [backend, set_n_threads] : ctx.set_n_threads_fns) {
            set_n_threads(backend, ctx.cparams.n_threads_batch);
        }
    }
};
