/* Prints the SHA-256 of what stdin holds: of all of it, and of the same in two pieces. With PORTABLE
   without instructions of the CPU's own. */
#include <stdio.h>

#include "sha256.h"

#ifdef PORTABLE
int odtc_sha256_by_cpu(uint32_t state[8], const uint8_t *data, size_t blocks) {
  (void)state, (void)data, (void)blocks;
  return 0;
}
#endif

static void print(const uint8_t *digest) {
  char text[ODTC_HEX_BYTES];
  odtc_digest_text(digest, text);
  puts(text);
}

int main(void) {
  static uint8_t data[1 << 16], digest[ODTC_SHA256_BYTES];
  size_t bytes = fread(data, 1, sizeof data, stdin), blocks = bytes / ODTC_SHA256_BLOCK / 2;
  size_t first = blocks * ODTC_SHA256_BLOCK;
  odtc_sha256_sum sum;
  odtc_sha256(data, bytes, digest);
  print(digest);
  odtc_sha256_begin(&sum);
  odtc_sha256_add(&sum, data, blocks);
  odtc_sha256_end(&sum, data + first, bytes - first, digest);
  print(digest);
}
