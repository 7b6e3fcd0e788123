/* SHA-256 of FIPS 180-4. */
#ifndef ODTC_SHA256_H
#define ODTC_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { ODTC_SHA256_BYTES = 32 };

void odtc_sha256(const uint8_t *data, size_t bytes, uint8_t digest[ODTC_SHA256_BYTES]);

#endif
