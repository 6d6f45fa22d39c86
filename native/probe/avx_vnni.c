#include <immintrin.h>

int main(void) {
    volatile char two = 2;
    int           out[8];
    const __m256i v = _mm256_set1_epi8(two);
    _mm256_storeu_si256((__m256i *) out, _mm256_dpbusd_avx_epi32(_mm256_set1_epi32(1), v, v));
    return out[0] == 17 && out[7] == 17 ? 0 : 1;
}
