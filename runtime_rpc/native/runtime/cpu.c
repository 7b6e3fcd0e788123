#include "cpu.h"

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>

enum { EAX, EBX, ECX, EDX };
enum { EXTENDED = 1 }; /* the leaf of AMD's features, which lzcnt and fma4 were */

/* Where `cpuid` has each: the leaf 1, 7, 7 with a second number, or EXTENDED from 0x80000000. */
static const struct {
  const char *name;
  uint32_t leaf, part;
  int word, bit;
} FEATURES[] = {
    {"fma", 1, 0, ECX, 12},
    {"movbe", 1, 0, ECX, 22},
    {"popcnt", 1, 0, ECX, 23},
    {"avx", 1, 0, ECX, 28},
    {"f16c", 1, 0, ECX, 29},
    {"bmi", 7, 0, EBX, 3},
    {"avx2", 7, 0, EBX, 5},
    {"bmi2", 7, 0, EBX, 8},
    {"avx512f", 7, 0, EBX, 16},
    {"avx512dq", 7, 0, EBX, 17},
    {"avx512ifma", 7, 0, EBX, 21},
    {"avx512cd", 7, 0, EBX, 28},
    {"avx512bw", 7, 0, EBX, 30},
    {"avx512vl", 7, 0, EBX, 31},
    {"avx512vbmi", 7, 0, ECX, 1},
    {"avx512vbmi2", 7, 0, ECX, 6},
    {"gfni", 7, 0, ECX, 8},
    {"vaes", 7, 0, ECX, 9},
    {"vpclmulqdq", 7, 0, ECX, 10},
    {"avx512vnni", 7, 0, ECX, 11},
    {"avx512bitalg", 7, 0, ECX, 12},
    {"avx512vpopcntdq", 7, 0, ECX, 14},
    {"avx512vp2intersect", 7, 0, EDX, 8},
    {"avx512fp16", 7, 0, EDX, 23},
    {"avxvnni", 7, 1, EAX, 4},
    {"avx512bf16", 7, 1, EAX, 5},
    {"avxifma", 7, 1, EAX, 23},
    {"avxvnniint8", 7, 1, EDX, 4},
    {"avxneconvert", 7, 1, EDX, 5},
    {"avxvnniint16", 7, 1, EDX, 10},
    {"lzcnt", 0x80000000u + EXTENDED, 0, ECX, 5},
    {"fma4", 0x80000000u + EXTENDED, 0, ECX, 16},
};

/* Whether the system keeps the vector registers of a thread that a feature works on. */
static int keeps_registers(const char *name) {
  uint32_t words[4], low, high;
  int is_wide = !strncmp(name, "avx512", 6);
  int is_vector = is_wide || !strncmp(name, "avx", 3) || !strncmp(name, "fma", 3) ||
                  !strcmp(name, "f16c");
  if (!is_vector) return 1;
  if (!__get_cpuid(1, words, words + 1, words + 2, words + 3) || !(words[ECX] >> 27 & 1)) return 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  uint32_t wanted = is_wide ? 0xE6 : 0x06;
  return (low & wanted) == wanted;
}

static int has(size_t number) {
  uint32_t words[4] = {0};
  if (!__get_cpuid_count(FEATURES[number].leaf, FEATURES[number].part, words, words + 1, words + 2,
                         words + 3))
    return 0;
  return (words[FEATURES[number].word] >> FEATURES[number].bit & 1) &&
         keeps_registers(FEATURES[number].name);
}

#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>

/* Bits of what Linux says in the two words of AT_HWCAP and AT_HWCAP2. */
static const struct {
  const char *name;
  int word, bit;
} FEATURES[] = {
    {"neon", 0, 1},      {"aes", 0, 3},      {"sha2", 0, 6},     {"crc", 0, 7},   {"lse", 0, 8},
    {"fullfp16", 0, 10}, {"rdm", 0, 12},     {"dotprod", 0, 20}, {"sve", 0, 22},  {"fp16fml", 0, 23},
    {"sve2", 1, 1},      {"i8mm", 1, 13},    {"bf16", 1, 14},
};

static int has(size_t number) {
  unsigned long words = getauxval(FEATURES[number].word ? AT_HWCAP2 : AT_HWCAP);
  return (int)(words >> FEATURES[number].bit & 1);
}

#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>

/* What the system calls each; those without a name every such CPU has. */
static const struct {
  const char *name, *called;
} FEATURES[] = {
    {"neon", NULL},
    {"aes", "hw.optional.arm.FEAT_AES"},
    {"sha2", "hw.optional.arm.FEAT_SHA256"},
    {"crc", "hw.optional.armv8_crc32"},
    {"lse", "hw.optional.arm.FEAT_LSE"},
    {"fullfp16", "hw.optional.arm.FEAT_FP16"},
    {"rdm", "hw.optional.arm.FEAT_RDM"},
    {"dotprod", "hw.optional.arm.FEAT_DotProd"},
    {"fp16fml", "hw.optional.arm.FEAT_FHM"},
    {"i8mm", "hw.optional.arm.FEAT_I8MM"},
    {"bf16", "hw.optional.arm.FEAT_BF16"},
};

static int has(size_t number) {
  int there = 0;
  size_t bytes = sizeof there;
  const char *called = FEATURES[number].called;
  return !called || (!sysctlbyname(called, &there, &bytes, NULL, 0) && there);
}

#else
#error "the features of such CPUs are not known here"
#endif

/* Whether this machine has a feature; -1 where this runtime cannot tell. */
static int is_there(const char *name, size_t length) {
  for (size_t n = 0; n < sizeof FEATURES / sizeof *FEATURES; ++n)
    if (strlen(FEATURES[n].name) == length && !strncmp(FEATURES[n].name, name, length)) return has(n);
  return -1;
}

odtc_code odtc_check_cpu(const char *features, odtc_problem *problem) {
  while (*features) {
    size_t length = strcspn(features, " ");
    int shown = length < 100 ? (int)length : 100;
    int there = length ? is_there(features, length) : 1;
    if (there < 0)
      return odtc_fail(problem, ODTC_UNSUPPORTED,
                       "the kernels need %.*s, and this runtime cannot tell whether the CPU has it",
                       shown, features);
    if (!there)
      return odtc_fail(problem, ODTC_CPU, "the kernels need %.*s, which this CPU lacks", shown,
                       features);
    features += length + (features[length] == ' ');
  }
  return ODTC_OK;
}
