/* The driver's programs: compiled from source, or taken from a file of before, which is of this very driver and these
   very sources. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"
#include "new_file.h"
#include "opencl.h"
#include "sha256.h"

/* Kernels with arithmetic of float16 ask for it; a driver's message about it would blame the source. */
static const char HALF[] = "cl_khr_fp16";
/* By which a kernel's source reads a buffer as an image, by its format. */
static const char *const MACROS[ODTC_OPENCL_FORMATS] = {"ODTC_IMAGE", "ODTC_IMAGE_HALVES"};
/* Each buffer is an image of one format. */
enum { MOST_OPTIONS = 64 * sizeof "-DODTC_IMAGE_HALVES_00 " };

/* Whether a text that does not end with a zero has a word. */
static int has(const char *text, size_t bytes, const char *word) {
  size_t length = strlen(word);
  for (size_t n = 0; n + length <= bytes; ++n)
    if (text[n] == *word && !memcmp(text + n, word, length)) return 1;
  return 0;
}

static odtc_code check_half(const odtc_gpu *gpu, const odtc_gpu_kernel *kernel, odtc_problem *problem) {
  size_t bytes = 0;
  if (!has(kernel->code, kernel->code_bytes, HALF)) return ODTC_OK;
  if (gpu->cl->clGetDeviceInfo(gpu->device, CL_DEVICE_EXTENSIONS, 0, NULL, &bytes)) bytes = 0;
  char *all = calloc(bytes + 1, 1);
  int is_there = all && !gpu->cl->clGetDeviceInfo(gpu->device, CL_DEVICE_EXTENSIONS, bytes, all, NULL) &&
                 has(all, bytes, HALF);
  free(all);
  if (is_there) return ODTC_OK;
  return odtc_fail(problem, ODTC_UNSUPPORTED, "the kernel %.100s needs arithmetic with float16, which %.100s lacks",
                   kernel->name, gpu->about.name);
}

static odtc_code say_log(const odtc_gpu *gpu, cl_program program, const char *name, cl_int code,
                         odtc_problem *problem) {
  enum { MOST_SHOWN = 300 };
  size_t bytes = 0;
  gpu->cl->clGetProgramBuildInfo(program, gpu->device, CL_PROGRAM_BUILD_LOG, 0, NULL, &bytes);
  char *log = calloc(bytes + 1, 1);
  if (log) gpu->cl->clGetProgramBuildInfo(program, gpu->device, CL_PROGRAM_BUILD_LOG, bytes, log, NULL);
  odtc_fail(problem, ODTC_KERNEL, "the driver does not compile the kernel %.100s (OpenCL error %d): %.*s", name, code,
            MOST_SHOWN, log ? log : "");
  free(log);
  return problem->code;
}

/* Which buffers a kernel reads as images: those that its source offers (backends/gpu/source.py) and the device takes.
   What a launch writes meanwhile has to lie in another buffer: OpenCL leaves open what is read otherwise. */
static uint64_t images_of(const odtc_gpu *gpu, const odtc_gpu_kernel *kernel, int format) {
  uint64_t found = 0;
  char word[64];
  for (uint32_t n = 0; kernel->uses && n < kernel->buffers && n < 64; ++n) {
    const odtc_gpu_use *use = kernel->uses + n;
    snprintf(word, sizeof word, "#ifdef %s_%u\n", MACROS[format], n);
    if (use->is_alone && use->most_bytes / ODTC_OPENCL_PIXEL[format] <= gpu->most_pixels &&
        has(kernel->code, kernel->code_bytes, word))
      found |= UINT64_C(1) << n;
  }
  return found;
}

/* The macros of a kernel's images, as a compiler's options. */
static void write_options(const struct odtc_opencl_kernel *kernel, char options[MOST_OPTIONS]) {
  size_t length = 0;
  options[0] = '\0';
  for (int format = 0; format < ODTC_OPENCL_FORMATS; ++format)
    for (unsigned n = 0; n < 64; ++n)
      if (kernel->images[format] >> n & 1)
        length += (size_t)snprintf(options + length, MOST_OPTIONS - length, "-D%s_%u ", MACROS[format], n);
}

static odtc_code build(const odtc_gpu *gpu, const odtc_gpu_kernel *kernel, struct odtc_opencl_kernel *to,
                       odtc_problem *problem) {
  const char *source = kernel->code;
  char options[MOST_OPTIONS];
  cl_int code;
  if (check_half(gpu, kernel, problem)) return problem->code;
  write_options(to, options);
  to->program = gpu->cl->clCreateProgramWithSource(gpu->context, 1, &source, &kernel->code_bytes, &code);
  if (code) return odtc_opencl_fail(problem, code, kernel->name);
  if ((code = gpu->cl->clBuildProgram(to->program, 1, &gpu->device, options, NULL, NULL)))
    return say_log(gpu, to->program, kernel->name, code, problem);
  return ODTC_OK;
}

static int take_binary(const odtc_gpu *gpu, const uint8_t *binary, size_t bytes, cl_program *program) {
  cl_int status, code;
  *program = gpu->cl->clCreateProgramWithBinary(gpu->context, 1, &gpu->device, &bytes, &binary, &status, &code);
  return !code && !status && !gpu->cl->clBuildProgram(*program, 1, &gpu->device, "", NULL, NULL);
}

/* The file of kept programs: its name is the hash of what they are made from. Little endian: the hash of all that
   follows, then of each kernel u64 bytes, and those. */
static int name_file(const odtc_gpu *gpu, const odtc_gpu_kernel *kernels, size_t count, char path[ODTC_MOST_PATH]) {
  char hash[ODTC_HEX_BYTES];
  uint8_t digest[ODTC_SHA256_BYTES];
  size_t bytes = sizeof gpu->about.name + sizeof gpu->about.driver;
  for (size_t n = 0; n < count; ++n) bytes += kernels[n].code_bytes + sizeof gpu->kernels[n].images;
  uint8_t *all = malloc(bytes), *at = all;
  if (!all) return 0;
  memcpy(at, gpu->about.name, sizeof gpu->about.name), at += sizeof gpu->about.name;
  memcpy(at, gpu->about.driver, sizeof gpu->about.driver), at += sizeof gpu->about.driver;
  for (size_t n = 0; n < count; at += kernels[n++].code_bytes) {
    memcpy(at, &gpu->kernels[n].images, sizeof gpu->kernels[n].images), at += sizeof gpu->kernels[n].images;
    memcpy(at, kernels[n].code, kernels[n].code_bytes);
  }
  odtc_sha256(all, bytes, digest);
  free(all);
  odtc_digest_text(digest, hash);
  int length = snprintf(path, ODTC_MOST_PATH, "%s/opencl-%s", gpu->cache, hash);
  return length > 0 && length < ODTC_MOST_PATH;
}

static int take_kept(odtc_gpu *gpu, const char *path, size_t count) {
  odtc_problem nobody = {0}; /* a file that is not there, or damaged, is written anew */
  odtc_pages file;
  uint8_t digest[ODTC_SHA256_BYTES];
  if (odtc_map_file(path, &file, &nobody)) return 0;
  const uint8_t *at = file.at + sizeof digest, *end = file.at + file.bytes;
  int is_well = file.bytes >= sizeof digest;
  if (is_well) odtc_sha256(at, (size_t)(end - at), digest);
  is_well = is_well && !memcmp(digest, file.at, sizeof digest);
  for (size_t n = 0; n < count && is_well; ++n) {
    uint64_t bytes = 0;
    is_well = (size_t)(end - at) >= sizeof bytes;
    if (is_well) memcpy(&bytes, at, sizeof bytes), at += sizeof bytes;
    is_well = is_well && bytes <= (uint64_t)(end - at) &&
              take_binary(gpu, at, (size_t)bytes, &gpu->kernels[n].program);
    at += is_well ? bytes : 0;
  }
  odtc_unmap(&file);
  for (size_t n = 0; n < count && !is_well; ++n) {
    if (gpu->kernels[n].program) gpu->cl->clReleaseProgram(gpu->kernels[n].program);
    gpu->kernels[n].program = NULL;
  }
  return is_well;
}

/* Programs are kept where that is possible; where it is not, they are compiled again the next time. */
static void keep(const odtc_gpu *gpu, const char *path, size_t count) {
  odtc_problem nobody = {0};
  size_t bytes = ODTC_SHA256_BYTES, each;
  for (size_t n = 0; n < count; ++n, bytes += sizeof(uint64_t) + each)
    if (gpu->cl->clGetProgramInfo(gpu->kernels[n].program, CL_PROGRAM_BINARY_SIZES, sizeof each, &each, NULL) || !each)
      return;
  uint8_t *all = malloc(bytes), *at = all + ODTC_SHA256_BYTES;
  for (size_t n = 0; all && n < count; ++n, at += each) {
    gpu->cl->clGetProgramInfo(gpu->kernels[n].program, CL_PROGRAM_BINARY_SIZES, sizeof each, &each, NULL);
    uint64_t size = each;
    memcpy(at, &size, sizeof size), at += sizeof size;
    if (gpu->cl->clGetProgramInfo(gpu->kernels[n].program, CL_PROGRAM_BINARIES, sizeof at, &at, NULL)) break;
  }
  if (all && at == all + bytes) {
    odtc_new_file file;
    odtc_sha256(all + ODTC_SHA256_BYTES, bytes - ODTC_SHA256_BYTES, all);
    odtc_begin_file(&file, path);
    odtc_add_to_file(&file, all, bytes);
    odtc_end_file(&file, path, &nobody);
  }
  free(all);
}

static odtc_code describe(const odtc_gpu *gpu, struct odtc_opencl_kernel *to, const odtc_gpu_kernel *from,
                          odtc_problem *problem) {
  if (strlen(from->name) >= sizeof to->name)
    return odtc_fail(problem, ODTC_UNSUPPORTED, "the name of the kernel %.100s is too long", from->name);
  strcpy(to->name, from->name);
  to->buffers = from->buffers, to->numbers = from->numbers;
  for (int format = 0; format < ODTC_OPENCL_FORMATS; ++format) to->images[format] = images_of(gpu, from, format);
  if (!(to->bytes = calloc(from->numbers + 1, 1)))
    return odtc_fail(problem, ODTC_NO_MEMORY, "there is no memory for a kernel");
  for (uint32_t n = 0; n < from->numbers; ++n) to->bytes[n] = from->types[n].bits / 8;
  return ODTC_OK;
}

odtc_code odtc_opencl_load(odtc_gpu *gpu, const odtc_gpu_kernel *kernels, size_t count, odtc_problem *problem) {
  char path[ODTC_MOST_PATH];
  if (!(gpu->kernels = calloc(count + 1, sizeof *gpu->kernels)))
    return odtc_fail(problem, ODTC_NO_MEMORY, "there is no memory for %zu kernels", count);
  gpu->kernel_count = count;
  for (size_t n = 0; n < count; ++n)
    if (describe(gpu, gpu->kernels + n, kernels + n, problem)) return problem->code;
  int is_kept = gpu->cache[0] && name_file(gpu, kernels, count, path);
  if (is_kept && take_kept(gpu, path, count)) return ODTC_OK;
  for (size_t n = 0; n < count; ++n)
    if (build(gpu, kernels + n, gpu->kernels + n, problem)) return problem->code;
  if (is_kept) keep(gpu, path, count);
  return ODTC_OK;
}

void odtc_opencl_unload(odtc_gpu *gpu) {
  for (size_t n = 0; n < gpu->kernel_count; ++n) {
    if (gpu->kernels[n].program) gpu->cl->clReleaseProgram(gpu->kernels[n].program);
    free(gpu->kernels[n].bytes);
  }
  free(gpu->kernels);
}
