#include "amx.h"

int main(void) {
    signed char ones[16][64];
    int         out[16][16];
    memset(ones, 1, sizeof(ones));
    memset(out, 0, sizeof(out));
    if (tiles_open() != 0) {
        return 1;
    }
    _tile_zero(0);
    _tile_loadd(1, ones, 64);
    _tile_loadd(2, ones, 64);
    _tile_dpbssd(0, 1, 2);
    _tile_stored(0, out, 64);
    _tile_release();
    return out[0][0] == 64 && out[15][15] == 64 ? 0 : 1;
}
