#include <immintrin.h>

int main(void) {
    volatile char last = 63;
    char          in[64];
    char          out[64];
    for (int i = 0; i < 64; i++) {
        in[i] = (char) i;
    }
    _mm512_storeu_si512(out, _mm512_permutexvar_epi8(_mm512_set1_epi8(last), _mm512_loadu_si512(in)));
    return out[0] == 63 && out[63] == 63 ? 0 : 1;
}
