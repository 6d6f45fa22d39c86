// How much attention each cell receives, while the model decodes.
//
// The graph of a micro-batch computes the softmax weights of the last query rows beside flash attention, sums
// them and stores one row of a tensor on the device: the mass of each cell in this step. Rows wait there until
// someone asks, cells move, or the tensor is full; then they are added to the totals on the host, in order.
#pragma once

#include "pace.h"
#include "pace_access.h"

#include <atomic>
#include <cstdint>
#include <deque>
#include <vector>

// A row that a graph has stored or will store.
struct pace_attention_step {
    uint64_t number;     // counts from 1
    int64_t  row;        // of the tensor
    uint32_t n_cells;    // cells that the row covers, from 0
    uint32_t n_tokens;   // of the micro-batch
    uint32_t n_queries;  // that were observed
    bool     is_void;    // its graph was stopped
};

class pace_attention {
  public:
    // Throws PACE_INVALID_ARGUMENT and PACE_NO_MEMORY.
    pace_attention(llama_context & ctx, llama_kv_cache & kv, const pace_attention_options & options);

    // Query rows of a micro-batch that are observed.
    uint32_t n_queries(uint32_t n_tokens) const;

    // Adds the nodes of one layer to a graph that is being built, and those that store the sum after the last. Layers
    // come in the graph's own order, each once; one that has come already begins another graph.
    void build(const llm_graph_context & graph,
               ggml_tensor *             q,
               ggml_tensor *             k,
               ggml_tensor *             mask,
               ggml_tensor *             sinks,
               float                     scale,
               int                       il);

    // Called when a micro-batch is about to be computed: weights [n_cells, n_queries], row [1].
    void begin_step(const llama_ubatch & ubatch, ggml_tensor * weights, ggml_tensor * row);

    // Takes what waits on the device into the totals.
    void collect();

    // After a renumbering: cell number i holds what was in cell sources[i].
    void follow(const llama_kv_cells & cells, const std::vector<uint32_t> & sources);

    // Sets the total of a cell's occupant. Collect first.
    void set_total(uint32_t cell, double total);

    // Mass of each cell's occupant; 0 where it was never observed. Collect first.
    std::vector<double> masses(pace_attention_part part, uint32_t n) const;

    size_t bytes() const { return ggml_backend_buffer_get_size(buffer.get()); }

    // Most nodes that a graph over so many tokens has for this.
    uint32_t n_nodes(uint32_t n_tokens) const;

    // The step that was begun last was not computed to its end.
    std::atomic<bool> cut_short{ false };

  private:
    struct past_step {
        uint64_t           number;
        uint32_t           n_queries;
        std::vector<float> mass;  // [cell]
    };

    // Sums of weights of one shape, over the layers so far.
    struct partial_sum {
        int64_t       first_query;
        ggml_tensor * sum;  // [n_cells, queries, heads]
    };

    struct occupant {
        uint64_t stamp = 0;  // of the token whose mass is counted; 0: none
        uint64_t since = 0;  // number of the first step that counts
        double   total = 0.0;
    };

    llama_context &         ctx;
    llama_kv_cache &        kv;
    uint32_t                most_queries;
    int32_t                 min_distance;
    double                  decay;
    uint32_t                window;
    std::vector<bool>       observes;  // [layer of the model]
    ggml_context_ptr        context;
    ggml_backend_buffer_ptr buffer;
    ggml_tensor *           waiting = nullptr;  // F32 [n_cells, n_waiting]

    uint64_t                         n_steps = 0;
    std::vector<pace_attention_step> steps;      // whose rows wait
    std::deque<past_step>            past;       // oldest first, at most `window`
    std::vector<occupant>            occupants;  // [cell]

    // Of the graph that is being built.
    std::vector<bool>        awaited;  // [layer of the model]: observed, and not built yet
    std::vector<partial_sum> partial_sums;
    ggml_tensor *            weights = nullptr;
    ggml_tensor *            row     = nullptr;

    void mark_unstored(int64_t row);
    void begin_graph(const llm_graph_context & graph);
    void add(const llm_graph_context & graph, int64_t first_query, ggml_tensor * mass);
    void finish_graph(const llm_graph_context & graph);
    void set_weights(const llama_ubatch & ubatch, ggml_tensor * weights) const;
    void void_if_cut_short();
    void forget_strangers();
};
