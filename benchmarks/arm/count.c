/* Counts what an emulated process does between two marks: how often each translated block of code
   ran, and what its loads and stores missed in simulated caches. A plugin of QEMU 7.2 or later:

     -plugin count.so,out=FILE,l1=KIBxWAYS,l2=KIBxWAYS,l3=KIBxWAYS

   Caches of several cores are simulated side by side: each `l1` begins those of the next.

   A mark is a system call of a number that no system has, MARK, with an action: 1 begins, 2 ends and
   writes FILE.CORE.LABEL, of cores from 0 on. Caches keep what they hold between marks. A block is
   written with its instructions, so that what they are is up to the reader, benchmarks/arm/blocks.py.

   One thread is counted, that of the first virtual CPU. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* QEMU's plugin interface, version 1, as far as it is called; Debian has no header of it. */
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef void (*on_memory)(unsigned cpu, uint32_t info, uint64_t address, void *data);
typedef void (*on_call)(uint64_t id, unsigned cpu, int64_t number, uint64_t a, uint64_t b, uint64_t c,
                        uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h);
enum { NO_REGISTERS = 0, ADD = 0, LOADS_AND_STORES = 3 };
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, void (*)(uint64_t, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *, int, void *, uint64_t);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *, on_memory, int, int, void *);
void qemu_plugin_register_vcpu_syscall_cb(uint64_t id, on_call);
void qemu_plugin_reset(uint64_t id, void (*)(uint64_t));
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *);
unsigned qemu_plugin_mem_size_shift(uint32_t info);
bool qemu_plugin_mem_is_store(uint32_t info);

#define EXPORTED __attribute__((visibility("default")))
EXPORTED int qemu_plugin_version = 1;

enum { MARK = 7777, BEGIN = 1, END = 2 };
enum { LINE_BITS = 6, PAGE_BITS = 12, LEVELS = 3, MOST_CORES = 4, MOST_PATH = 4096 };

/* What a block did: what it is, what is the same on all cores, and what each one's caches missed. */
struct code {
  uint64_t address, instructions;
};
struct counts {
  uint64_t runs, loaded, stored, walks;
};
struct moved {
  uint64_t missed[LEVELS], written_back;
};

struct block {
  struct code is;
  struct counts counts;
  struct moved moved[MOST_CORES];
  struct block *next;
  uint32_t code[];
};

/* A cache of lines, of which the one that was not used for longest goes. A line is its number times two,
   and one where it was written to; 0 is none. */
struct cache {
  uint64_t sets, ways, *lines;
};

struct core {
  struct cache levels[LEVELS];
};

static struct block *blocks;
static bool is_counting, has_begun;
static char out[MOST_PATH - 32];
static struct core cores[MOST_CORES];
static int core_count;
/* Their second buffer of translations, 1,280 pages in five ways. */
static struct cache pages = {256, 5, NULL};

/* Whether a line was there. It is the latest of its set from now on; `out_of` gets what had to go. */
static bool touch(struct cache *cache, uint64_t line, bool writes, uint64_t *out_of) {
  uint64_t *set = cache->lines + (line & (cache->sets - 1)) * cache->ways, found = 0;
  size_t way = 0;
  if (set[0] >> 1 == line + 1) {
    set[0] |= writes;
    return true;
  }
  while (way < cache->ways && set[way] >> 1 != line + 1) ++way;
  if (way < cache->ways) {
    found = set[way];
  } else {
    *out_of = set[--way];
  }
  memmove(set + 1, set, way * sizeof *set);
  set[0] = (line + 1) << 1 | writes | (found & 1);
  return found;
}

/* A line that was written to and had to go is written to the next level, and behind the last to memory. */
static void write_back(struct core *core, struct moved *moved, int level, uint64_t line) {
  for (; line & 1; ++level) {
    uint64_t next = 0;
    if (level == LEVELS) {
      ++moved->written_back;
      return;
    }
    if (touch(core->levels + level, (line >> 1) - 1, true, &next)) return;
    line = next;
  }
}

static void use_line_of(struct core *core, struct moved *moved, uint64_t line, bool writes) {
  for (int level = 0; level < LEVELS; ++level) {
    uint64_t gone = 0;
    if (touch(core->levels + level, line, writes && !level, &gone)) return;
    ++moved->missed[level];
    write_back(core, moved, level + 1, gone);
  }
}

static void use_line(struct block *block, uint64_t line, bool writes) {
  uint64_t gone = 0;
  if (!touch(&pages, line >> (PAGE_BITS - LINE_BITS), false, &gone)) ++block->counts.walks;
  for (int n = 0; n < core_count; ++n) use_line_of(cores + n, block->moved + n, line, writes);
}

static void use(unsigned cpu, uint32_t info, uint64_t address, void *data) {
  if (!is_counting || cpu) return;
  struct block *block = data;
  uint64_t bytes = 1ull << qemu_plugin_mem_size_shift(info);
  bool writes = qemu_plugin_mem_is_store(info);
  *(writes ? &block->counts.stored : &block->counts.loaded) += bytes;
  uint64_t first = address >> LINE_BITS, last = (address + bytes - 1) >> LINE_BITS;
  use_line(block, first, writes);
  if (last != first) use_line(block, last, writes);
}

static void translated(uint64_t id, struct qemu_plugin_tb *tb) {
  (void)id;
  size_t count = qemu_plugin_tb_n_insns(tb);
  struct block *block = calloc(1, sizeof *block + count * sizeof *block->code);
  if (!block) abort();
  block->is = (struct code){qemu_plugin_tb_vaddr(tb), count};
  for (size_t n = 0; n < count; ++n) {
    struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(tb, n);
    memcpy(block->code + n, qemu_plugin_insn_data(instruction), sizeof *block->code);
    qemu_plugin_register_vcpu_mem_cb(instruction, use, NO_REGISTERS, LOADS_AND_STORES, block);
  }
  qemu_plugin_register_vcpu_tb_exec_inline(tb, ADD, &block->counts.runs, 1);
  block->next = __atomic_load_n(&blocks, __ATOMIC_SEQ_CST);
  while (!__atomic_compare_exchange_n(&blocks, &block->next, block, false, __ATOMIC_SEQ_CST,
                                      __ATOMIC_SEQ_CST)) {
  }
}

static void begin(void) {
  for (struct block *block = blocks; block; block = block->next) {
    memset(&block->counts, 0, sizeof block->counts);
    memset(block->moved, 0, sizeof block->moved);
  }
  is_counting = true;
}

static void write_core(int core, uint64_t label) {
  char path[MOST_PATH];
  snprintf(path, sizeof path, "%s.%d.%llu", out, core, (unsigned long long)label);
  FILE *file = fopen(path, "wb");
  if (!file) abort();
  for (struct block *block = blocks; block; block = block->next) {
    if (!block->counts.runs) continue;
    fwrite(&block->is, sizeof block->is, 1, file);
    fwrite(&block->counts, sizeof block->counts, 1, file);
    fwrite(block->moved + core, sizeof *block->moved, 1, file);
    fwrite(block->code, sizeof *block->code, block->is.instructions, file);
  }
  if (fclose(file)) abort();
}

static void end(uint64_t label) {
  is_counting = false;
  for (int n = 0; n < core_count; ++n) write_core(n, label);
}

static void called(uint64_t, unsigned, int64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                   uint64_t, uint64_t);

/* What was translated without callbacks, as start-up is, is translated again with them. */
static void watch(uint64_t id) {
  qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
  qemu_plugin_register_vcpu_syscall_cb(id, called);
}

static void called(uint64_t id, unsigned cpu, int64_t number, uint64_t action, uint64_t label,
                   uint64_t c, uint64_t d, uint64_t e, uint64_t f, uint64_t g, uint64_t h) {
  (void)cpu, (void)c, (void)d, (void)e, (void)f, (void)g, (void)h;
  if (number != MARK) return;
  if (action == BEGIN) {
    if (!has_begun) qemu_plugin_reset(id, watch);
    has_begun = true;
    begin();
  }
  if (action == END) end(label);
}

static bool make(struct cache *cache) {
  cache->lines = calloc(cache->sets * cache->ways, sizeof *cache->lines);
  return cache->lines;
}

/* Takes an argument of the command line; whether it is one of those above. */
static bool take(const char *argument) {
  unsigned level, kib, ways;
  if (!strncmp(argument, "out=", 4))
    return snprintf(out, sizeof out, "%s", argument + 4) < (int)sizeof out;
  if (sscanf(argument, "l%u=%ux%u", &level, &kib, &ways) != 3) return false;
  uint64_t sets = ways ? (kib << (10 - LINE_BITS)) / ways : 0;
  /* Sets are found by bits of an address. */
  if (level < 1 || level > LEVELS || !sets || sets & (sets - 1)) return false;
  core_count += level == 1;
  if (!core_count || core_count > MOST_CORES) return false;
  struct cache *cache = cores[core_count - 1].levels + level - 1;
  *cache = (struct cache){sets, ways, NULL};
  return make(cache);
}

EXPORTED int qemu_plugin_install(uint64_t id, const void *info, int count, char **arguments) {
  (void)info;
  for (int n = 0; n < count; ++n)
    if (!take(arguments[n])) return fprintf(stderr, "count.so: what is %s?\n", arguments[n]), 1;
  for (int n = 0; n < core_count * LEVELS; ++n)
    if (!cores[n / LEVELS].levels[n % LEVELS].lines) return fprintf(stderr, "count.so: a core has no l%d\n", n % LEVELS + 1), 1;
  if (!make(&pages)) return 1;
  qemu_plugin_register_vcpu_syscall_cb(id, called);
  return 0;
}
