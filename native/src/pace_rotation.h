// Pieces of the graphs that rotate keys.
#pragma once

#include "pace_cache.h"

// The columns of a group's rows that belong to one of its layers.
ggml_tensor * pace_part_of(ggml_context * ctx, const pace_layer_group & group, ggml_tensor * rows, size_t index);

// Rotates rows (F32) of some layers of a group by their deltas (I32), with magnitudes unchanged.
ggml_tensor * pace_turned(ggml_context *           ctx,
                          const pace_cache &       cache,
                          const pace_layer_group & group,
                          ggml_tensor *            rows,
                          ggml_tensor *            delta);

// The K tensor of a layer as a matrix with one row a cell.
ggml_tensor * pace_keys_of(ggml_context * ctx, const pace_cache & cache, uint32_t layer);

// Whether the device of every tensor that has one can run what stores into it: asked before the scheduler,
// which would abort.
bool pace_can_run(const pace_cache & cache, ggml_cgraph * graph);

// Runs an allocated graph; throws PACE_CACHE_LOST if a device fails.
void pace_run(pace_cache & cache, ggml_cgraph * graph);

// A tensor that no node reads has no buffer.
template <typename T> void pace_set_input(ggml_tensor * tensor, const std::vector<T> & data) {
    if (tensor && tensor->buffer) {
        ggml_backend_tensor_set(tensor, data.data(), 0, ggml_nbytes(tensor));
    }
}
