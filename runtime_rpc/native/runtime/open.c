/* Making a trainer of its files, and what may be asked of it. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trainer.h"

static odtc_code read_program(odtc_trainer *t, const char *path, uint8_t *digest) {
  odtc_pages file;
  odtc_code code;
  if (odtc_map_file(path, &file, &t->problem)) return t->problem.code;
  /* A copy: a file that is cut short while it is mapped would end the process. */
  if ((t->file = odtc_allocate(file.bytes))) {
    memcpy(t->file, file.at, file.bytes);
    odtc_sha256(t->file, file.bytes, digest);
    if ((code = odtc_program_read(t->file, file.bytes, &t->program, &t->problem)))
      odtc_name_file(&t->problem, path);
  } else {
    code = odtc_fail(&t->problem, ODTC_NO_MEMORY,
                     "there is no memory for a program of %zu bytes", file.bytes);
  }
  odtc_unmap(&file);
  return code;
}

static odtc_code make_calls(odtc_trainer *t) {
  const odtc_program *p = &t->program;
  t->tensors = calloc(p->place_count + 1, sizeof *t->tensors);
  t->operands = calloc(p->operand_count + 1, sizeof *t->operands);
  if (!t->tensors || !t->operands)
    return odtc_fail(&t->problem, ODTC_NO_MEMORY, "there is no memory for %zu operands",
                     p->operand_count);
  for (size_t n = 0; n < p->place_count; ++n) {
    const odtc_place *at = p->places + n;
    t->tensors[n] = (odtc_kernel_tensor){.device_type = ODTC_KERNEL_CPU, .rank = (int32_t)at->rank,
                                         .code = (uint8_t)at->code, .bits = (uint8_t)at->bits,
                                         .lanes = 1, .shape = (int64_t *)p->dims + at->dims};
  }
  for (size_t n = 0; n < p->operand_count; ++n)
    t->operands[n] = (odtc_kernel_value){.type = ODTC_KERNEL_TENSOR,
                                         .value.pointer = t->tensors + p->operands[n]};
  for (uint32_t region = 0; region < ODTC_REGIONS; ++region) odtc_point(t, region);
  return ODTC_OK;
}

static int core_count(void) {
#ifdef __linux__
  cpu_set_t cores;
  if (!sched_getaffinity(0, sizeof cores, &cores)) return CPU_COUNT(&cores);
#endif
  long count = sysconf(_SC_NPROCESSORS_ONLN);
  return count > 0 ? (int)count : 1;
}

/* Chooses the kernels for the cores that threads run on: those that are given, or the fastest. */
static odtc_code choose_set(odtc_trainer *t, int threads, const int *given, const odtc_core *cores,
                            int count) {
  odtc_core own[ODTC_MOST_THREADS] = {{0}};
  if (t->has_run) return ODTC_OK;
  for (int n = 0; given && n < threads; ++n) own[n].number = given[n];
  if (given) odtc_describe_cores("", own, threads);
  if (odtc_choose_set(&t->program, given ? own : cores, given || threads < count ? threads : count,
                      &t->set, &t->problem))
    return t->problem.code;
  t->kernels = t->library.kernels + (size_t)t->set * t->program.kernel_count;
  return ODTC_OK;
}

static odtc_code make_pool(odtc_trainer *t, int threads, const int *given) {
  if (odtc_is_on_gpu(t))
    return odtc_fail(&t->problem, ODTC_USAGE, "a GPU takes the steps, which has no threads of a CPU");
  int most = t->program.head->threads < ODTC_MOST_THREADS ? (int)t->program.head->threads
                                                          : ODTC_MOST_THREADS;
  if (threads < 0 || threads > most)
    return odtc_fail(&t->problem, ODTC_USAGE,
                     "%d threads are asked for; the kernels have workspaces for 1 to %d", threads,
                     most);
  int wanted = threads ? threads : core_count() < most ? core_count() : most, count = 0;
  int is_read = wanted > 1 || odtc_count_sets(&t->program) > 1;
  odtc_core *cores = is_read ? odtc_fastest_cores(&count) : NULL;
  odtc_pool *pool;
  odtc_code code = choose_set(t, wanted, given, cores, count);
  if (!code) code = odtc_pool_make(wanted, given, cores, count, &pool, &t->problem);
  free(cores);
  if (code) return code;
  odtc_pool_end(t->pool);
  t->pool = pool;
  return ODTC_OK;
}

static odtc_code open_all(odtc_trainer *t, const odtc_options *options) {
  uint8_t digest[ODTC_SHA256_BYTES];
  if (!options || !options->program || !options->weights)
    return odtc_fail(&t->problem, ODTC_USAGE, "paths of program and weights are needed");
  if (!options->library + !options->name + !options->kernels != 2)
    return odtc_fail(&t->problem, ODTC_USAGE,
                     "one of a path of the library, its name, and a table of kernels is needed");
  if (read_program(t, options->program, digest)) return t->problem.code;
  t->plan = t->program.functions;
  /* Before any code is loaded: whether there are kernels that this CPU can run. */
  if (odtc_choose_set(&t->program, NULL, 0, &t->set, &t->problem)) return t->problem.code;
  if (odtc_library_open(options, digest, &t->program, &t->library, &t->problem))
    return t->problem.code;
  if (odtc_fill(t, options) || make_calls(t)) return t->problem.code;
  if (odtc_is_for_gpu(&t->program)) {
    t->kernels = t->library.kernels;
    return odtc_start_gpu(t, options);
  }
  return make_pool(t, options->threads, NULL);
}

odtc_code odtc_open(const odtc_options *options, odtc_trainer **trainer) {
  if (!trainer) return ODTC_USAGE;
  odtc_trainer *t = *trainer = calloc(1, sizeof *t);
  if (!t) return ODTC_NO_MEMORY;
  t->process = (int)getpid();
  if (open_all(t, options)) return t->problem.code;
  t->is_open = 1;
  return ODTC_OK;
}

odtc_code odtc_check_open(odtc_trainer *t) {
  return t->is_open ? ODTC_OK : odtc_fail(&t->problem, ODTC_USAGE, "the trainer was not opened");
}

odtc_code odtc_check_given(odtc_trainer *t, const void *given, const char *what) {
  return given ? ODTC_OK : odtc_fail(&t->problem, ODTC_USAGE, "%s is needed, and was NULL", what);
}

odtc_code odtc_check_threads(odtc_trainer *t) {
  if (odtc_check_open(t)) return t->problem.code;
  if (t->process == (int)getpid()) return ODTC_OK;
  return odtc_fail(&t->problem, ODTC_USAGE,
                   "the trainer is of process %d, whose threads a fork of it has not: open another",
                   t->process);
}

odtc_code odtc_set_threads(odtc_trainer *t, int threads) {
  return odtc_check_threads(t) ? t->problem.code : make_pool(t, threads, NULL);
}

odtc_code odtc_set_cores(odtc_trainer *t, const int *cores, int count) {
  if (odtc_check_threads(t)) return t->problem.code;
  if (!cores || count < 1) return odtc_fail(&t->problem, ODTC_USAGE, "no cores are given");
  return make_pool(t, count, cores);
}

void odtc_close(odtc_trainer *t) {
  if (!t) return;
  if (t->process == (int)getpid()) odtc_pool_end(t->pool);
  odtc_end_gpu(t);
  odtc_library_close(&t->library);
  odtc_unmap(&t->arena);
  odtc_unmap(&t->aside);
  odtc_unmap(&t->joined);
  for (size_t n = 0; t->files && n < t->program.argument_count; ++n) odtc_unmap(t->files + n);
  odtc_unmap(&t->state);
  odtc_unmap(&t->weights);
  free(t->clock.calls);
  free(t->files);
  free(t->operands);
  free(t->tensors);
  free(t->parts);
  free(t->arguments);
  free(t->file);
  free(t);
}

const char *odtc_message(const odtc_trainer *t) {
  return t ? t->problem.text : "there is no memory for a trainer";
}

const odtc_tensor *odtc_tensor_at(const odtc_trainer *t, size_t number) {
  return t->is_open && number < t->program.argument_count ? t->arguments + number : NULL;
}

const odtc_tensor *odtc_find(const odtc_trainer *t, const char *name) {
  for (size_t n = 0; name && t->is_open && n < t->program.argument_count; ++n)
    if (!strcmp(t->arguments[n].name, name)) return t->arguments + n;
  return NULL;
}

int64_t odtc_steps(const odtc_trainer *t) { return t->steps; }

odtc_code odtc_set_steps(odtc_trainer *t, int64_t steps) {
  if (odtc_check_open(t)) return t->problem.code;
  if (steps < 0) return odtc_fail(&t->problem, ODTC_USAGE, "%lld is not a number of steps",
                                 (long long)steps);
  t->steps = steps;
  t->torn = 0;
  return ODTC_OK;
}

void *odtc_part_at(const odtc_trainer *t, size_t number) {
  return t->is_open && number < t->program.argument_count ? t->parts[number] : NULL;
}

uint64_t odtc_held_bytes(const odtc_trainer *t) { return t->arena.bytes; }

uint64_t odtc_arena_bytes(const odtc_trainer *t) { return t->is_open ? t->plan->arena_bytes : 0; }

const char *odtc_fact(const odtc_trainer *t, const char *name) {
  if (!name) return NULL;
  const char *of_set = odtc_fact_of(&t->program, name, t->set);
  return of_set ? of_set : odtc_fact_of(&t->program, name, 0);
}
