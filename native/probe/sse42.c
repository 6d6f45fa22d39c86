#include <nmmintrin.h>

int main(void) {
    volatile unsigned int word = 0x12345678u;
    volatile long long    high = 5;
    const __m128i         a    = _mm_set_epi64x(high, 3);
    const __m128i         b    = _mm_set_epi64x(4, 3);
    const int             gt   = _mm_movemask_epi8(_mm_cmpgt_epi64(a, b));
    return _mm_crc32_u32(0, word) != 0 && gt == 0xff00 ? 0 : 1;
}
