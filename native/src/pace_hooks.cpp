#include "pace_hooks.h"

#include "pace_cache.h"

uint32_t pace_on_graph_size(const llama_cparams & cparams, uint32_t n_tokens) {
    const auto & cache = *cparams.pace;
    return (cache.attention ? cache.attention->n_nodes(n_tokens) : 0) + (cache.counts ? cache.counts->n_nodes() : 0);
}

ggml_tensor * pace_on_attention(const llm_graph_context & graph,
                                ggml_tensor *             q,
                                ggml_tensor *             k,
                                ggml_tensor *             mask,
                                ggml_tensor *             sinks,
                                float                     scale,
                                int                       il) {
    const auto & cache = *graph.cparams.pace;
    if (cache.counts) {
        mask = cache.counts->build(graph, mask, il);
    }
    if (cache.attention) {
        cache.attention->build(graph, q, k, mask, sinks, scale, il);
    }
    return mask;
}
