#include "amx.h"

int main(void) {
    unsigned short ones[16][32];
    float          out[16][16];
    for (int row = 0; row < 16; row++) {
        for (int column = 0; column < 32; column++) {
            ones[row][column] = 0x3f80;  // 1.0 in bfloat16
        }
    }
    memset(out, 0, sizeof(out));
    if (tiles_open() != 0) {
        return 1;
    }
    _tile_zero(0);
    _tile_loadd(1, ones, 64);
    _tile_loadd(2, ones, 64);
    _tile_dpbf16ps(0, 1, 2);
    _tile_stored(0, out, 64);
    _tile_release();
    return out[0][0] == 32.0f && out[15][15] == 32.0f ? 0 : 1;
}
