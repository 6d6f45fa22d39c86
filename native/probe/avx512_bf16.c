#include <immintrin.h>

int main(void) {
    volatile float two = 2.0f;
    float          out[16];
    const __m512bh v = _mm512_cvtne2ps_pbh(_mm512_set1_ps(two), _mm512_set1_ps(two));
    _mm512_storeu_ps(out, _mm512_dpbf16_ps(_mm512_set1_ps(1.0f), v, v));
    return out[0] == 9.0f && out[15] == 9.0f ? 0 : 1;
}
