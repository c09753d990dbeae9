#include "sha256.h"
#include <string.h>

#define BLOCK 64

/* First 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t turned(uint32_t word, int bits) { return word >> bits | word << (32 - bits); }

static uint32_t big_endian(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static void take_block(uint32_t state[8], const uint8_t *block)
{
    uint32_t words[64];
    for (int i = 0; i < 16; i++)
        words[i] = big_endian(block + 4 * i);
    for (int i = 16; i < 64; i++) {
        uint32_t early = words[i - 15], late = words[i - 2];
        words[i] = words[i - 16] + (turned(early, 7) ^ turned(early, 18) ^ early >> 3) +
                   words[i - 7] + (turned(late, 17) ^ turned(late, 19) ^ late >> 10);
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int i = 0; i < 64; i++) {
        uint32_t first = h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) +
                         ((e & f) ^ (~e & g)) + constants[i] + words[i];
        uint32_t second = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) +
                          ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + first;
        d = c, c = b, b = a, a = first + second;
    }
    const uint32_t added[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; i++)
        state[i] += added[i];
}

void sha256(const void *bytes, size_t size, uint8_t digest[SHA256_BYTES])
{
    /* The same for the square roots of the first eight primes. */
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    const uint8_t *at = bytes;
    size_t left = size;
    for (; left >= BLOCK; left -= BLOCK, at += BLOCK)
        take_block(state, at);
    /* Padding: the rest of the data, a 1 bit, and the length in bits at the end of the last
     * block. */
    uint8_t tail[2 * BLOCK] = {0};
    size_t ends = left + 9 <= BLOCK ? BLOCK : 2 * BLOCK;
    memcpy(tail, at, left);
    tail[left] = 0x80;
    for (int i = 0; i < 8; i++)
        tail[ends - 1 - i] = (uint8_t)((uint64_t)size * 8 >> 8 * i);
    for (size_t block = 0; block < ends; block += BLOCK)
        take_block(state, tail + block);
    for (int i = 0; i < SHA256_BYTES; i++)
        digest[i] = (uint8_t)(state[i / 4] >> (24 - 8 * (i % 4)));
}
