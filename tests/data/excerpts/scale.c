/* Driver of the scale at the packing table. */

#include <stdint.h>
#include <stddef.h>

#define FRAME_BYTES 9
#define SCALE_BAUD 4800

/* Readings that differ by less than this many grams are the same. */
#define SETTLE_GRAMS 3

typedef struct {
    int32_t grams;
    uint8_t flags;
    uint8_t settled;
} reading_t;

static int32_t tare_offset = 0;

/* Sum of all bytes but the last, modulo 251. */
static uint8_t frame_checksum(const uint8_t *frame)
{
    uint32_t sum = 0;
    for (size_t i = 0; i + 1 < FRAME_BYTES; i++)
        sum += frame[i];
    return (uint8_t)(sum % 251);
}

/* Reads one frame. Returns 0, -1 for a wrong checksum, -2 if the scale is overloaded. */
int scale_read(const uint8_t *frame, reading_t *out)
{
    if (frame_checksum(frame) != frame[FRAME_BYTES - 1])
        return -1;
    out->flags = frame[1];
    if (out->flags & 0x40)
        return -2;
    int32_t raw = (int32_t)((frame[2] << 16) | (frame[3] << 8) | frame[4]);
    out->settled = raw - out->grams < SETTLE_GRAMS && out->grams - raw < SETTLE_GRAMS;
    out->grams = raw - tare_offset;
    return 0;
}

void scale_tare(const reading_t *now)
{
    tare_offset += now->grams;
}
