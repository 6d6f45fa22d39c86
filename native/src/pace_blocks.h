// How a saved block begins. Numbers are little-endian, as on every machine that this is built for.
#pragma once

#include "pace.h"

#include <cstddef>
#include <cstdint>

struct pace_block_header {
    char          magic[8];
    uint32_t      version;   // of this layout
    uint32_t      header_bytes;
    uint64_t      n_bytes;   // of the whole block
    uint64_t      checksum;  // of all that follows this field
    pace_identity identity;
    uint64_t      shape;     // of rows, and of what turns keys
    uint32_t      n_tokens;
    uint32_t      n_layers;
    int32_t       key_type;
    int32_t       value_type;
    int32_t       reference_type;
    uint32_t      n_counted;  // layers in which rows stand for several tokens
};

static_assert(sizeof(pace_block_header) == 128, "the layout has no holes");
static_assert(offsetof(pace_block_header, identity) == 32, "the checksum covers all from here on");

struct pace_block_token {
    int32_t token;
    int32_t position;            // when it was saved
    int32_t reference_position;  // that its reference key is rotated to
};

// Of any bytes. Finds accidents, not malice.
uint64_t pace_checksum(const uint8_t * data, size_t size);
