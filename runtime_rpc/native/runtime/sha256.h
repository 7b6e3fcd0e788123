/* SHA-256 of FIPS 180-4. */
#ifndef ODTC_SHA256_H
#define ODTC_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { ODTC_SHA256_BYTES = 32, ODTC_SHA256_BLOCK = 64, ODTC_HEX_BYTES = 2 * ODTC_SHA256_BYTES + 1 };

void odtc_sha256(const uint8_t *data, size_t bytes, uint8_t digest[ODTC_SHA256_BYTES]);

/* A digest in hexadecimal digits, with a zero after them. */
void odtc_digest_text(const uint8_t digest[ODTC_SHA256_BYTES], char text[ODTC_HEX_BYTES]);

/* The digest of data that are given in pieces: whole blocks first, then the rest. */
typedef struct {
  uint32_t state[8];
  uint64_t bytes;
} odtc_sha256_sum;
void odtc_sha256_begin(odtc_sha256_sum *sum);
void odtc_sha256_add(odtc_sha256_sum *sum, const uint8_t *data, size_t blocks);
void odtc_sha256_end(odtc_sha256_sum *sum, const uint8_t *data, size_t bytes,
                     uint8_t digest[ODTC_SHA256_BYTES]);

/* Takes blocks by instructions that the CPU has for this; 0 where it has none, and nothing is taken. */
int odtc_sha256_by_cpu(uint32_t state[8], const uint8_t *data, size_t blocks);

extern const uint32_t ODTC_SHA256_ROUNDS[64];

#endif
