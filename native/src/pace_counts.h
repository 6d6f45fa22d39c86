// Rows that stand for several tokens: the logarithm of their count is added to their scores, layer by layer, as
// if there were so many equal rows.
#pragma once

#include "pace.h"
#include "pace_access.h"

#include <cstdint>
#include <map>
#include <vector>

class pace_counts {
  public:
    explicit pace_counts(llama_kv_cache & kv) : kv(kv) {}

    // Sets the count of a cell's occupant in a layer of the model. True if the layer had none before: graphs
    // must then be built anew.
    bool set(int il, uint32_t cell, float logarithm);

    // Of the count of a cell's occupant in a layer of the model; 0: it stands for itself alone.
    float logarithm(int il, uint32_t cell) const;

    // The mask of one layer with the logarithms added; the mask itself if the layer has no counts.
    ggml_tensor * build(const llm_graph_context & graph, ggml_tensor * mask, int il);

    uint32_t n_nodes() const { return (uint32_t) (2 * layers.size()); }

    // Called when a micro-batch is about to be computed: logarithms [n_cells].
    void fill(int il, ggml_tensor * logarithms) const;

    bool has(int il) const { return layers.count(il) > 0; }

    // Before a renumbering: forgets what is no more. After it: cell number i holds what was in sources[i].
    void forget_strangers();
    void follow(const llama_kv_cells & cells, const std::vector<uint32_t> & sources);

  private:
    struct entry {
        uint64_t stamp     = 0;  // of the occupant; 0: none
        float    logarithm = 0.0f;
    };

    llama_kv_cache &                  kv;
    std::map<int, std::vector<entry>> layers;  // layer of the model -> [cell]
};
