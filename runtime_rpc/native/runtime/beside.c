#include "beside.h"

#include <stdio.h>
#include <string.h>

#include "json.h"

void odtc_hash_pages(const uint8_t *at, size_t bytes, char text[ODTC_HEX_BYTES]) {
  enum { PIECE = 1 << 20 };
  uint8_t digest[ODTC_SHA256_BYTES];
  odtc_sha256_sum sum;
  odtc_sha256_begin(&sum);
  for (; bytes > PIECE; at += PIECE, bytes -= PIECE) {
    odtc_sha256_add(&sum, at, PIECE / ODTC_SHA256_BLOCK);
    odtc_leave_pages(at, PIECE);
  }
  odtc_sha256_end(&sum, at, bytes, digest);
  odtc_leave_pages(at, bytes);
  odtc_digest_text(digest, text);
}

odtc_code odtc_map_beside(odtc_trainer *t, const odtc_options *options, size_t number,
                          const char *text) {
  enum { DIGITS = ODTC_HEX_BYTES - 1, MOST_PATH = 4096 };
  const odtc_tensor *own = t->arguments + number;
  odtc_pages *pages = t->files + number;
  size_t length = strlen(text), before = length < DIGITS ? length : DIGITS;
  odtc_json json = {text + before, text + length, NULL};
  uint64_t offset = odtc_json_natural(&json);
  if (!json.at || json.at == json.end || *json.at != ' ' || strstr(json.at, "../"))
    return odtc_fail(&t->problem, ODTC_DAMAGED, "the place of the weight %.100s cannot be read",
                     own->name);
  const char *folder = options->beside, *name = json.at + 1;
  const char *end = folder ? folder + strlen(folder) : strrchr(options->weights, '/');
  if (!folder) folder = end ? options->weights : ".", end = end ? end : folder + 1;
  char path[MOST_PATH], hash[ODTC_HEX_BYTES];
  int used = snprintf(path, sizeof path, "%.*s/%s", (int)(end - folder), folder, name);
  if (used < 0 || used >= MOST_PATH)
    return odtc_fail(&t->problem, ODTC_NO_FILE, "the path of %.200s is too long", name);
  if (odtc_map_part(path, offset, own->bytes, pages, &t->problem)) return t->problem.code;
  if (options->unchecked_weights) return ODTC_OK;
  odtc_hash_pages(pages->at + pages->bytes - own->bytes, own->bytes, hash);
  if (!strncmp(hash, text, DIGITS)) return ODTC_OK;
  return odtc_fail(&t->problem, ODTC_DAMAGED,
                   "%.300s has another weight %.100s than when the step was compiled", path, own->name);
}
