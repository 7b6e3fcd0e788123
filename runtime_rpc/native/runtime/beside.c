#define _GNU_SOURCE
#include "beside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"

enum { MOST_PATH = 4096 };

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

/* The path of a file in the folder that the options have, or in that of the file of weights. No link may lead
   out of that; of what is not there, who opens it says so. */
static odtc_code path_of(odtc_trainer *t, const odtc_options *options, const char *name,
                         char path[MOST_PATH]) {
  char own[MOST_PATH], real[MOST_PATH];
  const char *folder = options->beside;
  const char *end = folder ? folder + strlen(folder) : strrchr(options->weights, '/');
  if (!folder) folder = end ? options->weights : ".", end = end ? end : folder + 1;
  size_t length = (size_t)(end - folder);
  int used = snprintf(path, MOST_PATH, "%.*s/%s", (int)length, folder, name);
  if (used < 0 || used >= MOST_PATH)
    return odtc_fail(&t->problem, ODTC_NO_FILE, "the path of %.200s is too long", name);
  path[length] = '\0';
  int is_there = realpath(length ? path : "/", own) != NULL;
  path[length] = '/';
  if (is_there && realpath(path, real) && (length = strlen(own)) > 1 &&
      (strncmp(own, real, length) || real[length] != '/'))
    return odtc_fail(&t->problem, ODTC_NO_FILE, "%.300s leads out of its folder", path);
  return ODTC_OK;
}

odtc_code odtc_map_beside(odtc_trainer *t, const odtc_options *options, size_t number,
                          const char *text) {
  enum { DIGITS = ODTC_HEX_BYTES - 1 };
  const odtc_tensor *own = t->arguments + number;
  odtc_pages *pages = t->files + number;
  size_t length = strlen(text), before = length < DIGITS ? length : DIGITS;
  odtc_json json = {text + before, text + length, NULL};
  uint64_t offset = odtc_json_natural(&json);
  if (!json.at || json.at == json.end || *json.at != ' ' || json.at[1] == '/' ||
      strstr(json.at, "../"))
    return odtc_fail(&t->problem, ODTC_DAMAGED, "the place of the weight %.100s cannot be read",
                     own->name);
  char path[MOST_PATH], hash[ODTC_HEX_BYTES];
  if (path_of(t, options, json.at + 1, path)) return t->problem.code;
  if (odtc_map_part(path, offset, own->bytes, pages, &t->problem)) return t->problem.code;
  if (options->unchecked_weights) return ODTC_OK;
  odtc_hash_pages(pages->at + pages->bytes - own->bytes, own->bytes, hash);
  if (!strncmp(hash, text, DIGITS)) return ODTC_OK;
  return odtc_fail(&t->problem, ODTC_DAMAGED,
                   "%.300s has another weight %.100s than when the step was compiled", path, own->name);
}
