#include "pace_counts.h"

#include "pace_plan.h"

#include <algorithm>
#include <cmath>

namespace {

// The logarithms of one layer, as an input of a graph.
class counts_input : public llm_graph_input_i {
  public:
    counts_input(const pace_counts & counts, int il, ggml_tensor * logarithms) :
        counts(counts),
        il(il),
        logarithms(logarithms) {}

    void set_input(const llama_ubatch * /*ubatch*/) override {
        if (logarithms->buffer) {
            counts.fill(il, logarithms);
        }
    }

    bool can_reuse(const llm_graph_params & params) override {
        return logarithms->ne[0] == static_cast<const llama_kv_cache_context *>(params.mctx)->get_n_kv();
    }

  private:
    const pace_counts & counts;
    int                 il;
    ggml_tensor *       logarithms;
};

}  // namespace

bool pace_counts::set(int il, uint32_t cell, float logarithm) {
    const bool is_new = !has(il);
    auto &     cells  = layers[il];
    cells.resize(kv.get_size());
    cells[cell] = { pace_access::cells(kv).stamp_get(cell), logarithm };
    return is_new;
}

float pace_counts::logarithm(int il, uint32_t cell) const {
    const auto found = layers.find(il);
    if (found == layers.end() || found->second[cell].stamp != pace_access::cells(kv).stamp_get(cell)) {
        return 0.0f;
    }
    return found->second[cell].logarithm;
}

ggml_tensor * pace_counts::build(const llm_graph_context & graph, ggml_tensor * mask, int il) {
    if (!has(il)) {
        return mask;
    }
    auto * logarithms = ggml_new_tensor_1d(graph.ctx0, mask->type, mask->ne[0]);
    ggml_set_input(logarithms);
    graph.cb(logarithms, "pace_counts", il);
    graph.res->add_input(std::make_unique<counts_input>(*this, il, logarithms));
    return ggml_add(graph.ctx0, mask, logarithms);
}

void pace_counts::fill(int il, ggml_tensor * logarithms) const {
    const auto & cells   = pace_access::cells(kv);
    const auto & entries = layers.at(il);
    const auto   n       = logarithms->ne[0];

    std::vector<float> values(n, 0.0f);
    for (uint32_t cell = 0; cell < n; ++cell) {
        if (!cells.is_empty(cell) && entries[cell].stamp == cells.stamp_get(cell)) {
            values[cell] = entries[cell].logarithm;
        }
    }
    if (logarithms->type == GGML_TYPE_F16) {
        std::vector<ggml_fp16_t> halves(n);
        ggml_fp32_to_fp16_row(values.data(), halves.data(), n);
        ggml_backend_tensor_set(logarithms, halves.data(), 0, ggml_nbytes(logarithms));
    } else {
        ggml_backend_tensor_set(logarithms, values.data(), 0, ggml_nbytes(logarithms));
    }
}

void pace_counts::forget_strangers() {
    const auto & cells = pace_access::cells(kv);
    for (auto & layer : layers) {
        for (uint32_t cell = 0; cell < layer.second.size(); ++cell) {
            if (cells.is_empty(cell) || cells.stamp_get(cell) != layer.second[cell].stamp) {
                layer.second[cell] = {};
            }
        }
    }
}

void pace_counts::follow(const llama_kv_cells & cells, const std::vector<uint32_t> & sources) {
    for (auto & layer : layers) {
        std::vector<entry> moved(layer.second.size());
        for (uint32_t i = 0; i < sources.size(); ++i) {
            moved[i] = layer.second[sources[i]];
            if (moved[i].stamp) {
                moved[i].stamp = cells.stamp_get(i);
            }
        }
        layer.second = std::move(moved);
    }
}

void pace_count_logarithms(pace_cache &                  cache,
                           int                           il,
                           const std::vector<uint32_t> & cells,
                           const std::vector<float> &    logarithms) {
    const bool all_one = std::all_of(logarithms.begin(), logarithms.end(), [](float value) { return value == 0.0f; });
    if (all_one && (!cache.counts || !cache.counts->has(il))) {
        return;
    }
    if (!cache.counts) {
        cache.counts = std::make_unique<pace_counts>(*cache.kv);
    }
    bool is_new = false;
    for (size_t i = 0; i < cells.size(); ++i) {
        is_new = cache.counts->set(il, cells[i], logarithms[i]) || is_new;
    }
    if (is_new) {
        pace_attach(cache);
    }
}

void pace_count(pace_cache & cache, int il, const std::vector<uint32_t> & cells, const float * counts) {
    std::vector<float> logarithms(cells.size(), 0.0f);
    for (size_t i = 0; counts && i < cells.size(); ++i) {
        logarithms[i] = std::log(counts[i]);
    }
    pace_count_logarithms(cache, il, cells, logarithms);
}
