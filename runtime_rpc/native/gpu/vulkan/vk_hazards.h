/* Which launches have to wait for which. */
#ifndef ODTC_VK_HAZARDS_H
#define ODTC_VK_HAZARDS_H

#include <stddef.h>
#include <stdint.h>

/* Bytes that a command reads, and maybe writes. */
typedef struct {
  const void *buffer;
  uint64_t begin, end;
  int is_written;
} odtc_vk_access;

/* What the commands since the last barrier read and write. */
typedef struct {
  odtc_vk_access *accesses;
  size_t count, room;
} odtc_vk_hazards;

/* Adds the accesses of the next command: 1 if there has to be a barrier before it, as one of those since the
   last barrier writes what this one uses, or reads what it writes; 0 if not; -1 if there is no memory. */
int odtc_vk_next(odtc_vk_hazards *hazards, const odtc_vk_access *accesses, size_t count);
void odtc_vk_end_hazards(odtc_vk_hazards *hazards);

#endif
