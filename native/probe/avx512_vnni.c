#include <immintrin.h>

int main(void) {
    volatile char two = 2;
    int           out[16];
    const __m512i v = _mm512_set1_epi8(two);
    _mm512_storeu_si512(out, _mm512_dpbusd_epi32(_mm512_set1_epi32(1), v, v));
    return out[0] == 17 && out[15] == 17 ? 0 : 1;
}
