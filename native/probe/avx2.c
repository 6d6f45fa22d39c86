// AVX2 together with FMA, F16C and BMI2: no processor that has the first lacks the others, but a virtual
// machine may hide any of them.
#include <immintrin.h>

int main(void) {
    volatile int       three = 3;
    volatile float     half  = 0.5f;
    volatile long long mask  = 0xf0;
    int                ints[8];
    float              floats[8];
    _mm256_storeu_si256((__m256i *) ints, _mm256_mullo_epi32(_mm256_set1_epi32(three), _mm256_set1_epi32(three)));
    const __m256 fma = _mm256_fmadd_ps(_mm256_set1_ps(half), _mm256_set1_ps(half), _mm256_set1_ps(half));
    _mm256_storeu_ps(floats, _mm256_cvtph_ps(_mm256_cvtps_ph(fma, 0)));
    const unsigned long long bits = _pdep_u64(0x3, (unsigned long long) mask);
    return ints[0] == 9 && ints[7] == 9 && floats[0] == 0.75f && floats[7] == 0.75f && bits == 0x30 ? 0 : 1;
}
