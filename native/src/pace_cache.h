// What a pace_cache holds beside upstream's KV cache.
#pragma once

#include "pace.h"
#include "pace_access.h"
#include "pace_attention.h"
#include "pace_counts.h"

#include <atomic>
#include <memory>
#include <vector>

struct pace_cell_reference {
    uint64_t  stamp        = 0;   // of the occupant whose key was captured; 0: none
    llama_pos position     = -1;  // that the reference key is rotated to
    llama_pos key_position = -1;  // that the cached key was last rotated to from it; upstream may have shifted it since
};

// Layers that are alike and lie on one device. Their references share a tensor, one row a cell, so that a
// row's angles are computed once for the group and rows travel in large pieces.
struct pace_layer_group {
    std::vector<uint32_t> layers;               // indices into pace_access::layers()
    int64_t               n_embd;               // of one layer's keys
    ggml_tensor *         reference = nullptr;  // [n_embd * layers.size(), n_cells]
};

struct pace_cache {
    llama_context *  ctx = nullptr;
    llama_kv_cache * kv  = nullptr;

    // References: as many rows as the K cache has cells, on the same device.
    ggml_type                            reference_type = GGML_TYPE_F16;
    std::vector<ggml_context_ptr>        contexts;
    std::vector<ggml_backend_buffer_ptr> buffers;
    std::vector<pace_layer_group>        groups;
    std::vector<pace_cell_reference>     cell_references;  // [cell]

    // A scheduler of our own: the context's graphs stay valid, and are reused, across a renumbering.
    ggml_backend_sched_ptr sched;

    // Of rows, and of what turns keys: blocks of another shape cannot be loaded.
    uint64_t shape = 0;

    // NULL: not observed.
    std::unique_ptr<pace_attention> attention;

    // NULL: every row stands for one token.
    std::unique_ptr<pace_counts> counts;

    std::atomic<bool> abort_requested{ false };
    std::atomic<bool> moving{ false };  // a renumbering is never cut short

    pace_fail_point fail_next = PACE_FAIL_NOWHERE;

    const llama_kv_cells & cells() const { return pace_access::cells(*kv); }

    bool is_captured(uint32_t cell) const {
        return !cells().is_empty(cell) && cell_references[cell].stamp == cells().stamp_get(cell);
    }

    // Whether reference rows hold exactly what is in the K cache, so that a rotation of either is the same.
    bool reference_is_exact() const;

    // Consumes an injected failure.
    bool fails_at(pace_fail_point point);
};

// While there is one, nothing is cut short.
class pace_moving {
  public:
    explicit pace_moving(pace_cache & cache) : cache(cache) { cache.moving = true; }

    ~pace_moving() { cache.moving = false; }

    pace_moving(const pace_moving &)             = delete;
    pace_moving & operator=(const pace_moving &) = delete;

  private:
    pace_cache & cache;
};

// Most nodes that the graph of one renumbering has.
size_t pace_graph_size(const pace_cache & cache);

// What rows of every layer look like, and how keys turn, as one number.
uint64_t pace_shape(const pace_cache & cache);

// Makes the context call the hooks of what the cache has now; its graphs are built anew.
void pace_attach(pace_cache & cache);

// Throws PACE_INVALID_ARGUMENT if the context has no such sequence.
void pace_check_sequence(const pace_cache & cache, llama_seq_id seq);

// The K cache of the context if it is of the one kind that is supported; else NULL.
llama_kv_cache * pace_plain_cache(const llama_context * ctx);

// Whether the keys of a layer of the model are rotated at all.
bool pace_rotates(const llama_kv_cache & kv, uint32_t il);

// Fills everything but `supported`; returns the reason why the context cannot be handled, or NULL.
const char * pace_describe(const llama_context & ctx, pace_capabilities & out);
