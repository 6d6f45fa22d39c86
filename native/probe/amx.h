// Tile registers need leave from the kernel, and some machines advertise them and still trap on the first
// tile instruction; so ask, configure, and compute.
#pragma once

#include <immintrin.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct tile_config {
    unsigned char  palette;
    unsigned char  start_row;
    unsigned char  reserved[14];
    unsigned short row_bytes[16];
    unsigned char  rows[16];
};

// Three tiles of 16 rows by 64 bytes. 0: they may be used.
static int tiles_open(void) {
    enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };

    if (syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) != 0) {
        return 1;
    }
    struct tile_config config;
    memset(&config, 0, sizeof(config));
    config.palette = 1;
    for (int tile = 0; tile < 3; tile++) {
        config.row_bytes[tile] = 64;
        config.rows[tile]      = 16;
    }
    _tile_loadconfig(&config);
    return 0;
}
