// What patch 0003 calls, for contexts whose cparams name a pace_cache. The patch declares these functions itself.
#pragma once

#include "llama-graph.h"

// Nodes that the graphs of such a context need room for.
uint32_t pace_on_graph_size(const llama_cparams & cparams, uint32_t n_tokens);

// One layer: q [n_embd_head, n_head, n_tokens], k [n_embd_head, n_head_kv, n_cells], mask [n_cells, n_tokens].
// Returns the mask that the layer is to use.
ggml_tensor * pace_on_attention(const llm_graph_context & graph,
                                ggml_tensor *             q,
                                ggml_tensor *             k,
                                ggml_tensor *             mask,
                                ggml_tensor *             sinks,
                                float                     scale,
                                int                       il);
