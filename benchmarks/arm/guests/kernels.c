/* Counts kernels in the emulator: kernels LIST. Each line of LIST is a library, the kernel's symbol in it,
   bytes of the arena and of the result, the number of operands, and of each operand its region, offset in
   bytes, type as DLPack has it, rank and shape. A kernel is called once to warm it up, its
   caches are emptied as in a step, and what the second call does is counted. Leaves the memory map in the
   file `maps`. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernel_abi.h"
#include "map.h"

enum { MARK = 7777, BEGIN = 1, END = 2, MOST = 64, RANK = 16, PAGE = 4096, EMPTIED = 1 << 22 };
enum { ARGUMENT = 0, CONSTANT = 1, ARENA = 2, RESULT = 3, FLOAT = 2 };

/* One thread runs all tasks, one after the other. */
static int launch(odtc_task task, void *data, int tasks) {
  odtc_task_group group = {NULL, tasks ? tasks : 1};
  for (int n = 0; n < group.tasks; ++n)
    if (task(n, &group, data)) return 1;
  return 0;
}

static void *new_memory(size_t bytes) {
  void *memory = aligned_alloc(PAGE, (bytes / PAGE + 1) * PAGE);
  if (!memory) exit(5);
  return memset(memory, 0, bytes);
}

/* Small numbers that differ. */
static void fill(odtc_kernel_tensor *tensor, size_t elements) {
  if (tensor->code != FLOAT || tensor->bits != 32) return;
  for (size_t n = 0; n < elements; ++n) ((float *)tensor->data)[n] = (float)(n % 13) * 0.125F - 0.7F;
}

static size_t read_number(FILE *list) {
  size_t number;
  if (fscanf(list, "%zu", &number) != 1) exit(3);
  return number;
}

static void empty_caches(void) {
  static char bytes[EMPTIED];
  for (size_t n = 0; n < EMPTIED; n += 64) __atomic_fetch_add(bytes + n, 1, __ATOMIC_RELAXED);
}

static void count_kernel(odtc_kernel kernel, FILE *list, int step) {
  static odtc_kernel_tensor tensors[MOST];
  static int64_t shapes[MOST][RANK];
  odtc_kernel_value values[MOST], returned = {0};
  void *own[MOST] = {0};
  char *arena = new_memory(read_number(list)), *result = new_memory(read_number(list));
  size_t count = read_number(list);
  if (count > MOST) exit(3);
  for (size_t n = 0; n < count; ++n) {
    odtc_kernel_tensor *tensor = tensors + n;
    size_t region = read_number(list), offset = read_number(list), elements = 1;
    *tensor = (odtc_kernel_tensor){.device_type = ODTC_KERNEL_CPU, .lanes = 1, .shape = shapes[n]};
    tensor->code = (uint8_t)read_number(list), tensor->bits = (uint8_t)read_number(list);
    tensor->rank = (int32_t)read_number(list);
    if (tensor->rank > RANK || region == CONSTANT) exit(3);
    for (int axis = 0; axis < tensor->rank; ++axis)
      elements *= (size_t)(shapes[n][axis] = (int64_t)read_number(list));
    if (region == ARGUMENT) own[n] = new_memory(elements * tensor->bits / 8 + 1);
    tensor->data = region == ARGUMENT ? own[n] : (region == ARENA ? arena : result) + offset;
    if (region == ARGUMENT) fill(tensor, elements);
    values[n] = (odtc_kernel_value){ODTC_KERNEL_TENSOR, 0, {.pointer = tensor}};
  }
  int failed = kernel(NULL, values, (int32_t)count, &returned);
  empty_caches();
  syscall(MARK, BEGIN, 0);
  failed |= kernel(NULL, values, (int32_t)count, &returned);
  syscall(MARK, END, step);
  if (failed) exit(6);
  for (size_t n = 0; n < count; ++n) free(own[n]);
  free(arena), free(result);
}

int main(int count, char **words) {
  FILE *list = count == 2 ? fopen(words[1], "r") : NULL;
  char path[4096], symbol[512];
  if (!list) return fprintf(stderr, "kernels LIST\n"), 2;
  for (int step = 0; fscanf(list, "%4095s %511s", path, symbol) == 2; ++step) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) return fprintf(stderr, "%s\n", dlerror()), 1;
    odtc_kernel kernel = (odtc_kernel)dlsym(library, symbol);
    void **place = dlsym(library, "__TVMBackendParallelLaunch");
    if (!kernel) return fprintf(stderr, "%s has no %s\n", path, symbol), 1;
    if (place) *place = (void *)launch;
    count_kernel(kernel, list, step);
  }
  copy_map();
  return 0;
}
