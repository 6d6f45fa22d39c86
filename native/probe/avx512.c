// F, CD, BW, DQ and VL: what ggml compiles with under GGML_AVX512.
#include <immintrin.h>

int main(void) {
    volatile int   seven = 7;
    volatile short two   = 2;
    const __m512i  f     = _mm512_add_epi32(_mm512_set1_epi32(seven), _mm512_set1_epi32(1));
    const __m512i  cd    = _mm512_lzcnt_epi32(f);
    const __m512i  bw    = _mm512_mullo_epi16(_mm512_set1_epi16(two), _mm512_set1_epi16(two));
    const __m512i  dq    = _mm512_mullo_epi64(_mm512_set1_epi64(seven), _mm512_set1_epi64(3));
    const __m256i  vl    = _mm256_rol_epi32(_mm256_set1_epi32(seven), 1);
    int            ints[16];
    short          shorts[32];
    long long      longs[8];
    int            small[8];
    _mm512_storeu_si512(ints, cd);
    _mm512_storeu_si512(shorts, bw);
    _mm512_storeu_si512(longs, dq);
    _mm256_storeu_si256((__m256i *) small, vl);
    return ints[15] == 28 && shorts[31] == 4 && longs[7] == 21 && small[7] == 14 ? 0 : 1;
}
