#include <immintrin.h>

int main(void) {
    volatile float one = 1.0f;
    float          out[8];
    _mm256_storeu_ps(out, _mm256_add_ps(_mm256_set1_ps(one), _mm256_set1_ps(one)));
    return out[0] == 2.0f && out[7] == 2.0f ? 0 : 1;
}
