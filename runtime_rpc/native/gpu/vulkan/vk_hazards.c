#include "vk_hazards.h"

#include <stdlib.h>
#include <string.h>

static int conflict(const odtc_vk_access *a, const odtc_vk_access *b) {
  return a->buffer == b->buffer && (a->is_written || b->is_written) && a->begin < b->end &&
         b->begin < a->end;
}

static int waits(const odtc_vk_hazards *h, const odtc_vk_access *accesses, size_t count) {
  for (size_t n = 0; n < h->count; ++n)
    for (size_t k = 0; k < count; ++k)
      if (conflict(h->accesses + n, accesses + k)) return 1;
  return 0;
}

int odtc_vk_next(odtc_vk_hazards *h, const odtc_vk_access *accesses, size_t count) {
  int has_barrier = waits(h, accesses, count);
  if (has_barrier) h->count = 0;
  if (h->count + count > h->room) {
    size_t room = 2 * (h->count + count);
    odtc_vk_access *more = realloc(h->accesses, room * sizeof *more);
    if (!more) return -1;
    h->accesses = more;
    h->room = room;
  }
  if (count) memcpy(h->accesses + h->count, accesses, count * sizeof *accesses);
  h->count += count;
  return has_barrier;
}

void odtc_vk_end_hazards(odtc_vk_hazards *h) {
  free(h->accesses);
  *h = (odtc_vk_hazards){0};
}
