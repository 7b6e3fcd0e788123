#include "sets.h"

#include <stdio.h>
#include <string.h>

#include "cpu.h"

/* Cores by what they call themselves (`MIDR_EL1`: who made it, which part), and LLVM's names of these.
   In small ones instructions run in order, and code that is scheduled for others waits. */
enum { ARM = 0x41, QUALCOMM = 0x51 };
static const struct {
  uint16_t maker, part;
  uint8_t is_small;
  char name[12];
} CORES[] = {
    {ARM, 0xd03, 1, "cortex-a53"},  {ARM, 0xd04, 1, "cortex-a35"},  {ARM, 0xd05, 1, "cortex-a55"},
    {ARM, 0xd07, 0, "cortex-a57"},  {ARM, 0xd08, 0, "cortex-a72"},  {ARM, 0xd09, 0, "cortex-a73"},
    {ARM, 0xd0a, 0, "cortex-a75"},  {ARM, 0xd0b, 0, "cortex-a76"},  {ARM, 0xd0d, 0, "cortex-a77"},
    {ARM, 0xd41, 0, "cortex-a78"},  {ARM, 0xd44, 0, "cortex-x1"},   {ARM, 0xd46, 1, "cortex-a510"},
    {ARM, 0xd47, 0, "cortex-a710"}, {ARM, 0xd48, 0, "cortex-x2"},   {ARM, 0xd4b, 0, "cortex-a78"},
    {ARM, 0xd4c, 0, "cortex-x1"},   {ARM, 0xd4d, 0, "cortex-a715"}, {ARM, 0xd4e, 0, "cortex-x3"},
    {ARM, 0xd80, 1, "cortex-a520"}, {ARM, 0xd81, 0, "cortex-a720"}, {ARM, 0xd82, 0, "cortex-x4"},
    {ARM, 0xd85, 0, "cortex-x925"}, {ARM, 0xd87, 0, "cortex-a725"},
    /* Kryos, which are ARM's of these names but for their caches. */
    {QUALCOMM, 0x800, 0, "cortex-a73"}, {QUALCOMM, 0x801, 1, "cortex-a53"},
    {QUALCOMM, 0x802, 0, "cortex-a75"}, {QUALCOMM, 0x803, 1, "cortex-a55"},
    {QUALCOMM, 0x804, 0, "cortex-a76"}, {QUALCOMM, 0x805, 1, "cortex-a55"},
};
enum { KNOWN = sizeof CORES / sizeof *CORES };

const char *odtc_fact_of(const odtc_program *p, const char *name, int set) {
  size_t length = strlen(name);
  for (size_t n = 0; n < p->fact_count; ++n) {
    const char *found = p->text + p->facts[n].name, *end = found + length;
    if (strncmp(found, name, length)) continue;
    if (set ? end[0] == '.' && end[1] == '0' + set && !end[2] : !end[0])
      return p->text + p->facts[n].value;
  }
  return NULL;
}

int odtc_count_sets(const odtc_program *p) {
  int count = 1;
  while (count < ODTC_MOST_SETS && odtc_fact_of(p, "features", count)) ++count;
  return count;
}

/* How well code for a core suits another: by its name 2, of its kind 1. */
static int fit(const char *code_for, uint32_t part) {
  size_t compiled = 0, runs = 0;
  while (compiled < KNOWN && strcmp(CORES[compiled].name, code_for)) ++compiled;
  while (runs < KNOWN && (CORES[runs].maker << 12 | CORES[runs].part) != (int)part) ++runs;
  if (compiled == KNOWN || runs == KNOWN) return 0;
  if (!strcmp(CORES[runs].name, code_for)) return 2;
  return CORES[compiled].is_small == CORES[runs].is_small;
}

static int count_words(const char *words) {
  int count = *words != 0;
  for (; *words; ++words) count += *words == ' ';
  return count;
}

odtc_code odtc_choose_set(const odtc_program *p, const odtc_core *cores, int count, int *set,
                          odtc_problem *problem) {
  int sets = odtc_count_sets(p), best_fit = -1, most = 0, least = -1;
  const char *easiest = "";
  odtc_problem lacks;
  for (int n = 0; n < sets; ++n) {
    const char *features = odtc_fact_of(p, "features", n), *core = odtc_fact_of(p, "core", n);
    if (!features) features = "";
    int needs = count_words(features), fits = 0;
    if (least < 0 || needs < least) least = needs, easiest = features;
    if (odtc_check_cpu(features, &lacks)) continue;
    for (int each = 0; core && each < count; ++each) fits += fit(core, cores[each].part);
    if (fits > best_fit || (fits == best_fit && needs > most))
      best_fit = fits, most = needs, *set = n;
  }
  /* What is said is what lacks for the kernels that need the least. */
  return best_fit < 0 ? odtc_check_cpu(easiest, problem) : ODTC_OK;
}
