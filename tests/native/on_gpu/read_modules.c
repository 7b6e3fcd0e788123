/* read_modules FILE EDITS: prints the kernels of the modules in a file, then reads so many edited copies of it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device_module.h"

static const odtc_gpu_interface OPENCL = {.name = "opencl", .module = "cl"};
static const odtc_gpu_interface VULKAN = {.name = "vulkan", .module = "vulkan"};
const odtc_gpu_interface *const ODTC_GPU_INTERFACES[] = {&OPENCL, &VULKAN, NULL};

static uint64_t state = 1;
static uint64_t drawn(uint64_t below) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (state >> 33) % below;
}

/* Some bytes of it are others, or it ends early; mostly near its beginning and in numbers. */
static size_t edit(uint8_t *bytes, size_t count) {
  static const uint64_t NUMBERS[] = {0, 1, 7, UINT64_MAX, UINT64_MAX / 4, 1u << 31, UINT64_MAX - 7};
  for (uint64_t n = 1 + drawn(3); n; --n) {
    size_t at = drawn(4) ? drawn(count < 4096 ? count : 4096) : drawn(count);
    if (drawn(2)) bytes[at] = (uint8_t)drawn(256);
    else if (at + 8 <= count) memcpy(bytes + at, NUMBERS + drawn(7), 8);
  }
  return drawn(4) ? count : drawn(count);
}

int main(int count, char **words) {
  FILE *file = count == 3 ? fopen(words[1], "rb") : NULL;
  if (!file || fseek(file, 0, SEEK_END)) return 2;
  size_t bytes = (size_t)ftell(file);
  uint8_t *whole = malloc(bytes), refused = 0;
  rewind(file);
  if (!whole || fread(whole, 1, bytes, file) != bytes) return 2;
  fclose(file);
  odtc_device_module module;
  odtc_problem problem = {0};
  if (odtc_device_module_read(whole, bytes, &module, &problem)) {
    puts(problem.text);
    odtc_device_module_end(&module);
    free(whole);
    return 1;
  }
  for (size_t n = 0; n < module.count; ++n) {
    const odtc_gpu_kernel *kernel = module.kernels + n;
    printf("%s %s %u %u %u %zu\n", module.interface->name, kernel->name, kernel->buffers, kernel->numbers,
           module.sizes[n].count, kernel->code_bytes);
  }
  odtc_device_module_end(&module);
  for (long n = atol(words[2]); n; --n) {
    uint8_t *edited = malloc(bytes); /* of its very size, so that reading beyond it shows */
    memcpy(edited, whole, bytes);
    size_t left = edit(edited, bytes);
    uint8_t *exact = malloc(left ? left : 1);
    memcpy(exact, edited, left);
    problem = (odtc_problem){0};
    odtc_code code = odtc_device_module_read(exact, left, &module, &problem);
    if (code && !problem.text[0]) return puts("refused without a word"), 1;
    refused |= code != ODTC_OK;
    odtc_device_module_end(&module);
    free(exact), free(edited);
  }
  free(whole);
  return refused ? 0 : 3;
}
