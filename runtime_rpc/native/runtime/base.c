/* Which base an adapter is of: one hash of the weights that no step changes, as Python's
   odtc/core/artifact/base.py has it. The program says it, so that nothing is read for it, but where
   odtc_load() has brought another base. */
#include <stdlib.h>
#include <string.h>

#include "checkpoint.h"
#include "text.h"

static int compare(const void *one, const void *other) {
  const odtc_tensor *a = *(const odtc_tensor *const *)one, *b = *(const odtc_tensor *const *)other;
  return strcmp(a->name, b->name);
}

/* Puts the hash of all frozen weights as they are into the trainer. */
static odtc_code hash_base(odtc_trainer *t) {
  odtc_text text = {0};
  char hash[ODTC_HEX_BYTES];
  size_t count = 0;
  const odtc_tensor **frozen = calloc(t->program.argument_count + 1, sizeof *frozen);
  for (size_t n = 0; frozen && n < t->program.argument_count; ++n)
    if (t->arguments[n].role == ODTC_FROZEN) frozen[count++] = t->arguments + n;
  if (frozen) qsort(frozen, count, sizeof *frozen, compare);
  odtc_code code = ODTC_OK;
  for (size_t n = 0; frozen && n < count && !code; ++n) {
    size_t number = (size_t)(frozen[n] - t->arguments);
    if ((code = odtc_fetch_argument(t, number))) break;
    odtc_hash_text(frozen[n]->data, frozen[n]->bytes, hash);
    odtc_leave_argument(t, number);
    odtc_text_put(&text, "%s\n%s\n", frozen[n]->name, hash);
  }
  if (!code && (!frozen || text.failed))
    code = odtc_fail(&t->problem, ODTC_NO_MEMORY, "there is no memory for the hash of a base");
  if (!code && count) odtc_hash_text((const uint8_t *)text.at, text.used, t->base);
  odtc_text_end(&text);
  free(frozen);
  return code;
}

odtc_code odtc_know_base(odtc_trainer *t) {
  const char *said = odtc_fact(t, ODTC_BASE);
  if (t->base[0]) return ODTC_OK;
  if (t->has_other_base || !said || strlen(said) != ODTC_HEX_BYTES - 1) return hash_base(t);
  memcpy(t->base, said, ODTC_HEX_BYTES);
  return ODTC_OK;
}

void odtc_forget_base(odtc_trainer *t) { t->base[0] = 0, t->has_other_base = 1; }
