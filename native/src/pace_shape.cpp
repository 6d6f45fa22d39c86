// What a saved block must share with the cache that it is loaded into, as one number; and the checksum of blocks.
#include "pace_blocks.h"
#include "pace_cache.h"

#include <algorithm>
#include <cstring>

namespace {

const uint64_t lanes_at_start[4] = { 0x243f6a8885a308d3, 0x13198a2e03707344, 0xa4093822299f31d0, 0x082efa98ec4e6c89 };
const uint64_t lane_multiplier   = 0x9e3779b97f4a7c15;

uint64_t mixed(uint64_t lane, uint64_t word) {
    lane = (lane ^ word) * lane_multiplier;
    return lane ^ (lane >> 29);
}

template <typename T> void add_to(std::vector<uint8_t> & bytes, T value) {
    const auto * first = reinterpret_cast<const uint8_t *>(&value);
    bytes.insert(bytes.end(), first, first + sizeof(value));
}

void add_elements(std::vector<uint8_t> & bytes, const ggml_tensor * tensor) {
    if (tensor) {
        const auto start = bytes.size();
        bytes.resize(start + ggml_nbytes(tensor));
        ggml_backend_tensor_get(tensor, bytes.data() + start, 0, ggml_nbytes(tensor));
    }
}

}  // namespace

// Finds accidents, not malice: four lanes of multiplications, so that it is as fast as memory.
uint64_t pace_checksum(const uint8_t * data, size_t size) {
    uint64_t lanes[4];
    std::copy(std::begin(lanes_at_start), std::end(lanes_at_start), lanes);
    const size_t whole = size - size % sizeof(lanes);
    uint64_t     words[4];
    for (size_t i = 0; i < whole; i += sizeof(words)) {
        memcpy(words, data + i, sizeof(words));
        for (int lane = 0; lane < 4; ++lane) {
            lanes[lane] = mixed(lanes[lane], words[lane]);
        }
    }
    memset(words, 0, sizeof(words));
    if (size > whole) {
        memcpy(words, data + whole, size - whole);
    }
    uint64_t result = size;
    for (int lane = 0; lane < 4; ++lane) {
        result = mixed(result, mixed(lanes[lane], words[lane]));
    }
    return result;
}

// What rows of every layer look like, and how keys turn.
uint64_t pace_shape(const pace_cache & cache) {
    const auto & kv      = *cache.kv;
    const auto & hparams = pace_access::hparams(kv);
    const auto & model   = pace_access::model(kv);
    const auto & cparams = cache.ctx->get_cparams();

    std::vector<uint8_t> bytes;
    for (const auto & layer : pace_access::layers(kv)) {
        const auto il = (int) layer.il;
        add_to(bytes, layer.il);
        add_to(bytes, layer.k->ne[0]);
        add_to(bytes, layer.v->ne[0]);
        add_to(bytes, (uint32_t) hparams.n_rot(il));
        add_to(bytes, (uint32_t) hparams.n_embd_head_k(il));
        add_elements(bytes, model.get_rope_factors(cparams, il));
        add_to(bytes, model.get_rope_freq_base(cparams, il));
        add_to(bytes, model.get_rope_freq_scale(cparams, il));
        add_to(bytes, (uint32_t) pace_rotates(kv, il));
    }
    add_to(bytes, (int32_t) hparams.rope_type);
    add_to(bytes, cparams.yarn_ext_factor);
    add_to(bytes, cparams.yarn_attn_factor);
    add_to(bytes, cparams.yarn_beta_fast);
    add_to(bytes, cparams.yarn_beta_slow);
    add_to(bytes, (uint32_t) cparams.n_ctx_orig_yarn);
    // Upstream turns quantised values whose heads are so large by a Hadamard matrix, unless it is told not to.
    const bool could_turn = ggml_is_quantized(kv.type_v()) && hparams.n_embd_head_v() % 64 == 0;
    if (could_turn && !pace_access::turns_values(kv)) {
        add_to(bytes, (uint32_t) 1);
    }
    return pace_checksum(bytes.data(), bytes.size());
}
