#include "pace_cache.h"
#include "pace_status.h"

#include "llama-kv-cache-iswa.h"
#include "llama-memory-hybrid-iswa.h"
#include "llama-memory-hybrid.h"
#include "llama-memory-recurrent.h"

#include <algorithm>
#include <cstdio>

llama_kv_cache * pace_plain_cache(const llama_context * ctx) {
    return dynamic_cast<llama_kv_cache *>(ctx->get_memory());
}

static const char * reason_of_memory(llama_memory_i * memory) {
    if (!memory) {
        return "the model has no KV cache";
    }
    if (dynamic_cast<llama_kv_cache *>(memory)) {
        return nullptr;
    }
    if (dynamic_cast<llama_memory_recurrent *>(memory)) {
        return "the model is recurrent: its state has no cells that could be evicted";
    }
    if (dynamic_cast<llama_memory_hybrid *>(memory) || dynamic_cast<llama_memory_hybrid_iswa *>(memory)) {
        return "the model is a hybrid: a part of its state is recurrent";
    }
    if (dynamic_cast<llama_kv_cache_iswa *>(memory)) {
        return "the model mixes sliding-window and full attention (iSWA): two caches with cells of their own";
    }
    return "the model's memory is of a kind that has no plain KV cache";
}

// hparams.has_rope() does not know the layers that these architectures leave unrotated by a rule of their own.
bool pace_rotates(const llama_kv_cache & kv, uint32_t il) {
    const auto & hparams = pace_access::hparams(kv);
    const auto   step    = hparams.n_no_rope_layer_step;
    switch (pace_access::model(kv).arch) {
        case LLM_ARCH_SMOLLM3:
        case LLM_ARCH_LLAMA4:
        case LLM_ARCH_AFMOE:
            return step > 0 && (il + 1) % step != 0;
        case LLM_ARCH_SMALLTHINKER:
            return step == hparams.n_layer() || (step > 0 && il % step != 0);
        default:
            return hparams.has_rope(il);
    }
}

// Architectures whose graphs rotate keys otherwise than hparams.rope_type says, or not at all.
static const char * reason_of_rotation(const llama_model & model) {
    const bool is_unrotated = model.arch == LLM_ARCH_BAICHUAN && model.type != LLM_TYPE_7B;
    if (is_unrotated || model.pos_embd || model.hparams.use_alibi) {
        return "the model does not use rotary positions (RoPE)";
    }
    if (model.arch == LLM_ARCH_DEEPSEEK2OCR) {
        return "llama.cpp cannot shift the keys of this architecture";
    }
    return nullptr;
}

// These architectures scale each dimension of a key after they have rotated it. Turning such a key further is not what
// they compute at its new position. (A norm without weights is: rotations leave lengths as they are.)
static bool weighs_rotated_keys(const llama_model & model) {
    switch (model.arch) {
        case LLM_ARCH_HUNYUAN_DENSE:
        case LLM_ARCH_HUNYUAN_MOE:
        case LLM_ARCH_HUNYUAN_VL:
        case LLM_ARCH_MAINCODER:
            return std::any_of(model.layers.begin(), model.layers.end(),
                               [](const llama_layer & layer) { return layer.attn_k_norm != nullptr; });
        default:
            return false;
    }
}

static const char * reason_of_cache(const llama_context & ctx, const llama_kv_cache & kv) {
    const auto & hparams = pace_access::hparams(kv);
    if (kv.get_n_stream() != 1) {
        return "the cache has several streams; make the context with kv_unified";
    }
    if (pace_access::shares_cells(kv)) {
        return "the cache shares its cells with another context";
    }
    if (pace_access::has_window(kv)) {
        return "the model uses sliding-window attention";
    }
    if (hparams.n_pos_per_embd() > 1) {
        return "the model has several positions for each token (M-RoPE)";
    }
    if (hparams.is_mla()) {
        return "the model caches compressed latents (MLA), not keys and values";
    }
    if (hparams.n_lora_kv > 0) {
        return "the model rotates the end of each head, not its start";
    }
    if (hparams.rope_type != LLAMA_ROPE_TYPE_NORM && hparams.rope_type != LLAMA_ROPE_TYPE_NEOX) {
        return "the model does not use rotary positions (RoPE)";
    }
    if (const char * reason = reason_of_rotation(pace_access::model(kv))) {
        return reason;
    }
    if (!kv.get_can_shift()) {
        return "llama.cpp cannot shift the keys of this architecture";
    }
    if (!ctx.get_cparams().causal_attn) {
        return "the model's attention is not causal";
    }
    if (weighs_rotated_keys(pace_access::model(kv))) {
        return "the model scales its keys after rotating them, so that they cannot be moved";
    }
    for (const auto & layer : pace_access::layers(kv)) {
        if (!layer.k || !layer.v) {
            return "a layer of the model has no K or no V cache";
        }
        if (layer.k->ne[0] == 0 || layer.v->ne[0] == 0) {
            return "a layer of the model has no heads for keys and values";
        }
    }
    const auto type = kv.type_k();
    if (type != GGML_TYPE_F16 && type != GGML_TYPE_F32 && type != GGML_TYPE_BF16 && type != GGML_TYPE_Q8_0) {
        return "keys can be cached as F16, BF16, F32 or Q8_0 only";
    }
    return nullptr;
}

const char * pace_describe(const llama_context & ctx, pace_capabilities & out) {
    if (const char * reason = reason_of_memory(ctx.get_memory())) {
        return reason;
    }
    const auto & kv      = *pace_plain_cache(&ctx);
    const auto & hparams = pace_access::hparams(kv);
    const auto & model   = pace_access::model(kv);
    out.n_cells          = kv.get_size();
    out.n_layers         = (uint32_t) pace_access::layers(kv).size();
    out.n_seq            = ctx.n_seq_max();
    out.n_rot            = hparams.n_rot();
    out.rope_type        = hparams.rope_type;
    out.key_type         = kv.type_k();
    out.value_type       = pace_access::layers(kv)[0].v ? kv.type_v() : GGML_TYPE_COUNT;
    out.flash_attn       = pace_access::v_transposed(kv) ? 0 : 1;

    // Models with two sets of frequency factors use the long one by the size of the context, which here is
    // the budget and says nothing of how far positions go.
    const auto & layer = model.layers[pace_access::layers(kv)[0].il];
    if (!layer.rope_freqs && layer.rope_long && ctx.get_cparams().n_ctx_seq <= hparams.n_ctx_orig_yarn) {
        out.max_position = hparams.n_ctx_orig_yarn;
    }
    return reason_of_cache(ctx, kv);
}

int32_t pace_query(const struct llama_context * ctx, struct pace_capabilities * out) {
    return pace_guard([&] {
        if (!ctx || !out) {
            pace_fail(PACE_INVALID_ARGUMENT, "pace_query: an argument is NULL");
        }
        *out                = {};
        const char * reason = pace_describe(*ctx, *out);
        out->supported      = reason ? 0 : 1;
        snprintf(out->reason, sizeof(out->reason), "%s", reason ? reason : "");
    });
}
