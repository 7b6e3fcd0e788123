/* Takes steps by kernels for iOS in a process of Linux on 64-bit ARM: mach_o IMAGE PROGRAM WEIGHTS TABLE STEPS
   THREADS. IMAGE is a Mach-O library of nothing but kernels and their table, which the function TABLE gives; it is
   mapped here as dyld would. Prints each loss. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "odtc.h"

enum { SEGMENT = 0x19, SYMTAB = 2, DYLD_INFO = 0x22, DYLD_INFO_ONLY = 0x80000022u };

typedef struct {
  uint32_t command, bytes;
  char name[16];
  uint64_t address, size, offset, file_size;
} segment;
typedef struct {
  uint32_t command, bytes, rebase, rebase_bytes, bind, bind_bytes, weak, weak_bytes, lazy, lazy_bytes;
} dyld_info;
typedef struct {
  uint32_t command, bytes, symbols, count, strings, string_bytes;
} symbol_table;
typedef struct {
  uint32_t name;
  uint8_t type, section;
  uint16_t about;
  uint64_t value;
} symbol;

static uint8_t *file, *memory;
static segment segments[16];
static int segment_count;

static void stop(const char *why) { fprintf(stderr, "%s\n", why), exit(1); }

static uint64_t uleb(const uint8_t **at) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    uint8_t byte = *(*at)++;
    value |= (uint64_t)(byte & 0x7F) << shift;
    if (!(byte & 0x80)) return value;
  }
}

/* Of Apple's C library alone. */
static void memset_pattern16(void *to, const void *pattern, size_t bytes) {
  for (size_t n = 0; n < bytes; ++n) ((uint8_t *)to)[n] = ((const uint8_t *)pattern)[n % 16];
}

/* Functions of the C library, by Apple's names. */
static void *function(const char *name) {
  void *found = dlsym(dlopen("libm.so.6", RTLD_NOW), name + 1);
  if (!strcmp(name, "dyld_stub_binder")) return (void *)abort;
  if (!strcmp(name, "_memset_pattern16")) return (void *)memset_pattern16;
  if (!found) stop(name);
  return found;
}

static uint8_t *at_place(int number, const uint8_t **at) {
  return memory + segments[number].address + uleb(at);
}

/* Adds where the image lies to a run of addresses; returns the place behind them. */
static uint8_t *moved(uint8_t *place, uint64_t times, uint64_t skip) {
  for (; times; --times, place += 8 + skip) {
    uint64_t value;
    memcpy(&value, place, sizeof value);
    value += (uint64_t)(uintptr_t)memory;
    memcpy(place, &value, sizeof value);
  }
  return place;
}

/* The opcodes of mach-o/loader.h, REBASE_OPCODE_... */
static void rebase(const uint8_t *at, size_t bytes) {
  uint8_t *place = NULL;
  for (const uint8_t *end = at + bytes; at < end;) {
    uint8_t word = *at++, low = word & 0x0F;
    uint64_t times;
    switch (word & 0xF0) {
      case 0x00:
      case 0x10: break; /* the end; a type */
      case 0x20: place = at_place(low, &at); break;
      case 0x30: place += uleb(&at); break;
      case 0x40: place += 8 * low; break;
      case 0x50: place = moved(place, low, 0); break;
      case 0x60: place = moved(place, uleb(&at), 0); break;
      case 0x70: place = moved(place, 1, uleb(&at)); break;
      case 0x80: times = uleb(&at), place = moved(place, times, uleb(&at)); break;
      default: stop("a rebase that is not known");
    }
  }
}

static uint8_t *bound(uint8_t *place, const char *name, uint64_t times, uint64_t skip) {
  void *found = function(name);
  for (; times; --times, place += 8 + skip) memcpy(place, &found, sizeof found);
  return place;
}

/* BIND_OPCODE_... */
static void bind(const uint8_t *at, size_t bytes) {
  uint8_t *place = NULL;
  const char *name = "";
  for (const uint8_t *end = at + bytes; at < end;) {
    uint8_t word = *at++, low = word & 0x0F;
    uint64_t times;
    switch (word & 0xF0) {
      case 0x00: /* the end, or that of one that is lazy */
      case 0x10:
      case 0x30:
      case 0x50: break; /* a library, a type */
      case 0x20: uleb(&at); break;
      case 0x40: name = (const char *)at, at += strlen(name) + 1; break;
      case 0x70: place = at_place(low, &at); break;
      case 0x80: place += uleb(&at); break;
      case 0x90: place = bound(place, name, 1, 0); break;
      case 0xA0: place = bound(place, name, 1, uleb(&at)); break;
      case 0xB0: place = bound(place, name, 1, 8 * low); break;
      case 0xC0: times = uleb(&at), place = bound(place, name, times, uleb(&at)); break;
      default: stop("a bind that is not known");
    }
  }
}

static void *load(const char *path, const char *wanted) {
  FILE *opened = fopen(path, "rb");
  if (!opened) stop("no image");
  file = malloc(64 << 20);
  if (!fread(file, 1, 64 << 20, opened)) stop("an empty image");
  fclose(opened);
  dyld_info info = {0};
  symbol_table table = {0};
  uint32_t count;
  uint64_t end = 0;
  memcpy(&count, file + 16, sizeof count);
  for (const uint8_t *at = file + 32; count--;) {
    uint32_t head[2];
    memcpy(head, at, sizeof head);
    if (head[0] == SEGMENT) {
      segment *s = segments + segment_count++;
      memcpy(s, at, sizeof *s);
      if (s->address + s->size > end) end = s->address + s->size;
    }
    if (head[0] == DYLD_INFO || head[0] == DYLD_INFO_ONLY) memcpy(&info, at, sizeof info);
    if (head[0] == SYMTAB) memcpy(&table, at, sizeof table);
    at += head[1];
  }
  memory = mmap(NULL, end, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || !info.command) stop("no memory, or an image with other fixups");
  for (int n = 0; n < segment_count; ++n)
    memcpy(memory + segments[n].address, file + segments[n].offset, segments[n].file_size);
  rebase(file + info.rebase, info.rebase_bytes);
  bind(file + info.bind, info.bind_bytes);
  bind(file + info.lazy, info.lazy_bytes);
  __builtin___clear_cache((char *)memory, (char *)memory + end);
  for (uint32_t n = 0; n < table.count; ++n) {
    symbol one;
    memcpy(&one, file + table.symbols + n * sizeof one, sizeof one);
    if (!strcmp((char *)file + table.strings + one.name, wanted) && one.section)
      return memory + one.value;
  }
  stop("no such table");
  return NULL;
}

/* Numbers in [-1, 1), and classes below 10. */
static void feed(odtc_trainer *trainer) {
  const odtc_tensor *tensor;
  for (size_t n = 0; (tensor = odtc_tensor_at(trainer, n)); ++n)
    for (size_t i = 0; tensor->role <= ODTC_LABEL && i < tensor->bytes / 4; ++i)
      if (tensor->role == ODTC_INPUT)
        ((float *)tensor->data)[i] = (float)(i * 37 % 101) / 50 - 1;
      else
        ((int32_t *)tensor->data)[i] = (int32_t)(i % 10);
}

int main(int count, char **words) {
  if (count != 7) return 2;
  odtc_options options = {.program = words[2], .weights = words[3], .threads = atoi(words[6])};
  const char *image = words[1];
  if (strcmp(words[4], "-"))
    options.kernels = ((const odtc_kernels *(*)(void))load(image, words[4]))();
  else
    options.library = image;
  odtc_trainer *trainer;
  double loss;
  odtc_code code = odtc_open(&options, &trainer);
  if (!code) feed(trainer);
  for (int n = atoi(words[5]); n && !code; --n)
    if (!(code = odtc_step(trainer, 0.01f, &loss))) printf("%a\n", loss);
  if (code) fprintf(stderr, "%d %s\n", code, odtc_message(trainer));
  odtc_close(trainer);
  return (int)code;
}
