/* Of the ELF specification, for 64 bits and little endian. The system maps a library's segments, and
   what lies after the end of its file ends the process when it is used: so that is looked for first. */
#define _GNU_SOURCE
#ifdef __ELF__
#include <link.h>
#endif
#include <string.h>

#include "library.h"

typedef struct {
  uint8_t ident[16];
  uint16_t type, machine;
  uint32_t version;
  uint64_t entry, segments, sections;
  uint32_t flags;
  uint16_t bytes, segment_bytes, segment_count, section_bytes, section_count, names;
} elf_head;

typedef struct {
  uint32_t type, flags;
  uint64_t offset, address, physical, file_bytes, memory_bytes, alignment;
} elf_segment;

typedef struct {
  uint32_t name_bytes, bytes, type;
} elf_note;

enum { LOAD = 1, NOTES = 4, BUILD_ID = 3 };

/* A note's name and content are filled up to a multiple of four. */
static size_t filled(uint32_t bytes) { return ((size_t)bytes + 3) / 4 * 4; }

static void find_note(const uint8_t *at, size_t left, const uint8_t **id, size_t *id_bytes) {
  elf_note note;
  while (left >= sizeof note) {
    memcpy(&note, at, sizeof note);
    at += sizeof note, left -= sizeof note;
    size_t name = filled(note.name_bytes), content = filled(note.bytes);
    if (name > left || content > left - name) return;
    if (note.type == BUILD_ID && note.name_bytes == 4 && !memcmp(at, "GNU", 4)) {
      *id = at + name, *id_bytes = note.bytes;
      return;
    }
    at += name + content, left -= name + content;
  }
}

odtc_code odtc_build_id(const uint8_t *file, size_t bytes, const uint8_t **id, size_t *id_bytes,
                        odtc_problem *problem) {
  elf_head head;
  elf_segment segment;
  *id = NULL, *id_bytes = 0;
  if (bytes < sizeof head) return odtc_fail(problem, ODTC_DAMAGED, "the library is too short");
  memcpy(&head, file, sizeof head);
  if (memcmp(head.ident, "\x7f" "ELF\2\1", 6) || head.segment_bytes != sizeof segment ||
      head.segments > bytes || head.segment_count > (bytes - head.segments) / sizeof segment)
    return odtc_fail(problem, ODTC_DAMAGED, "the library is not a 64-bit one");
  for (unsigned n = 0; n < head.segment_count; ++n) {
    memcpy(&segment, file + head.segments + n * sizeof segment, sizeof segment);
    if (segment.type != LOAD && segment.type != NOTES) continue;
    if (segment.offset > bytes || segment.file_bytes > bytes - segment.offset)
      return odtc_fail(problem, ODTC_DAMAGED, "the library ends too early");
    if (segment.type == NOTES && !*id)
      find_note(file + segment.offset, (size_t)segment.file_bytes, id, id_bytes);
  }
  return ODTC_OK;
}

#ifdef __ELF__
typedef struct {
  uintptr_t address;
  const uint8_t **id;
  size_t *id_bytes;
} search;

static int is_within(const struct dl_phdr_info *loaded, uintptr_t address) {
  for (unsigned n = 0; n < loaded->dlpi_phnum; ++n) {
    const ElfW(Phdr) *segment = loaded->dlpi_phdr + n;
    uintptr_t start = loaded->dlpi_addr + segment->p_vaddr;
    if (segment->p_type == LOAD && address >= start && address - start < segment->p_memsz) return 1;
  }
  return 0;
}

static int look_into(struct dl_phdr_info *loaded, size_t bytes, void *data) {
  search *s = data;
  (void)bytes;
  if (!is_within(loaded, s->address)) return 0;
  for (unsigned n = 0; n < loaded->dlpi_phnum && !*s->id; ++n) {
    const ElfW(Phdr) *segment = loaded->dlpi_phdr + n;
    if (segment->p_type == NOTES)
      find_note((const uint8_t *)(loaded->dlpi_addr + segment->p_vaddr), segment->p_memsz, s->id,
                s->id_bytes);
  }
  return 1;
}

void odtc_loaded_build_id(const void *address, const uint8_t **id, size_t *id_bytes) {
  search s = {(uintptr_t)address, id, id_bytes};
  *id = NULL, *id_bytes = 0;
  dl_iterate_phdr(look_into, &s);
}
#else
void odtc_loaded_build_id(const void *address, const uint8_t **id, size_t *id_bytes) {
  (void)address;
  *id = NULL, *id_bytes = 0;
}
#endif
