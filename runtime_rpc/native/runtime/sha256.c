#include "sha256.h"

#include <stdio.h>
#include <string.h>

const uint32_t ODTC_SHA256_ROUNDS[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t turned(uint32_t word, int bits) { return word >> bits | word << (32 - bits); }

/* By any CPU. The variables stay in registers: an array of them would be stored in each round. */
static void take_block(uint32_t state[8], const uint8_t *block) {
  uint32_t w[64], a = state[0], b = state[1], c = state[2], d = state[3];
  uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
  for (int i = 0; i < 16; ++i)
    w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
           (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
  for (int i = 16; i < 64; ++i) {
    uint32_t one = turned(w[i - 15], 7) ^ turned(w[i - 15], 18) ^ w[i - 15] >> 3;
    uint32_t two = turned(w[i - 2], 17) ^ turned(w[i - 2], 19) ^ w[i - 2] >> 10;
    w[i] = w[i - 16] + one + w[i - 7] + two;
  }
  for (int i = 0; i < 64; ++i) {
    uint32_t one = h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + ((e & f) ^ (~e & g)) +
                   ODTC_SHA256_ROUNDS[i] + w[i];
    uint32_t two = (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + one;
    d = c, c = b, b = a, a = one + two;
  }
  state[0] += a, state[1] += b, state[2] += c, state[3] += d;
  state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

static void take_blocks(uint32_t state[8], const uint8_t *data, size_t blocks) {
  if (odtc_sha256_by_cpu(state, data, blocks)) return;
  for (; blocks; --blocks, data += ODTC_SHA256_BLOCK) take_block(state, data);
}

void odtc_sha256_begin(odtc_sha256_sum *sum) {
  *sum = (odtc_sha256_sum){{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                            0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}, 0};
}

void odtc_sha256_add(odtc_sha256_sum *sum, const uint8_t *data, size_t blocks) {
  take_blocks(sum->state, data, blocks);
  sum->bytes += (uint64_t)blocks * ODTC_SHA256_BLOCK;
}

void odtc_sha256_end(odtc_sha256_sum *sum, const uint8_t *data, size_t bytes,
                     uint8_t digest[ODTC_SHA256_BYTES]) {
  size_t left = bytes % ODTC_SHA256_BLOCK;
  odtc_sha256_add(sum, data, bytes / ODTC_SHA256_BLOCK);
  uint8_t last[2 * ODTC_SHA256_BLOCK] = {0};
  size_t size = left < 56 ? 64 : 128;
  if (left) memcpy(last, data + bytes - left, left);
  last[left] = 0x80;
  for (int i = 0; i < 8; ++i) last[size - 1 - i] = (uint8_t)((sum->bytes + left) * 8 >> 8 * i);
  take_blocks(sum->state, last, size / ODTC_SHA256_BLOCK);
  for (int i = 0; i < 32; ++i) digest[i] = (uint8_t)(sum->state[i / 4] >> (24 - i % 4 * 8));
}

void odtc_sha256(const uint8_t *data, size_t bytes, uint8_t digest[ODTC_SHA256_BYTES]) {
  odtc_sha256_sum sum;
  odtc_sha256_begin(&sum);
  odtc_sha256_end(&sum, data, bytes, digest);
}

void odtc_digest_text(const uint8_t digest[ODTC_SHA256_BYTES], char text[ODTC_HEX_BYTES]) {
  for (int n = 0; n < ODTC_SHA256_BYTES; ++n) snprintf(text + 2 * n, 3, "%02x", digest[n]);
}
