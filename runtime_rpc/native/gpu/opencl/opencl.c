/* OpenCL as an interface: a device with a queue for all that has an order, and one for copies beside it. */
#include <pthread.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "opencl.h"

odtc_code odtc_opencl_fail(odtc_problem *problem, cl_int number, const char *what) {
  static const struct {
    cl_int number;
    odtc_code code;
    const char *means;
  } KNOWN[] = {
      {CL_DEVICE_NOT_AVAILABLE, ODTC_DEVICE, "the device is not available"},
      {CL_MEM_OBJECT_ALLOCATION_FAILURE, ODTC_NO_MEMORY, "out of device memory"},
      {CL_OUT_OF_RESOURCES, ODTC_DEVICE, "out of device resources, or the device was lost"},
      {CL_OUT_OF_HOST_MEMORY, ODTC_NO_MEMORY, "out of host memory"},
      {CL_INVALID_KERNEL_NAME, ODTC_DAMAGED, "its source has no kernel of that name"},
      {CL_INVALID_WORK_GROUP_SIZE, ODTC_UNSUPPORTED, "a work-group is larger than the device allows"},
      {CL_INVALID_BUFFER_SIZE, ODTC_NO_MEMORY, "a buffer is larger than the device allows"},
  };
  for (size_t n = 0; n < sizeof KNOWN / sizeof *KNOWN; ++n)
    if (KNOWN[n].number == number)
      return odtc_fail(problem, KNOWN[n].code, "%.200s: %s (OpenCL error %d)", what, KNOWN[n].means, number);
  return odtc_fail(problem, ODTC_DEVICE, "%.200s: OpenCL error %d", what, number);
}

/* The device of a number among those of all platforms, GPUs first; NULL where there are fewer. */
static cl_device_id look_through(const odtc_cl *cl, int number, int *seen) {
  enum { MOST = 32 };
  cl_platform_id platforms[MOST];
  cl_device_id devices[MOST];
  cl_uint platform_count = 0, count;
  *seen = 0;
  if (cl->clGetPlatformIDs(MOST, platforms, &platform_count)) return NULL;
  if (platform_count > MOST) platform_count = MOST;
  for (int are_gpus = 1; are_gpus >= 0; --are_gpus)
    for (cl_uint p = 0; p < platform_count; ++p) {
      if (cl->clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, MOST, devices, &count)) continue;
      for (cl_uint n = 0; n < count && n < MOST; ++n) {
        cl_ulong type = 0;
        cl->clGetDeviceInfo(devices[n], CL_DEVICE_TYPE, sizeof type, &type, NULL);
        if (((type & CL_DEVICE_TYPE_GPU) != 0) == are_gpus && (*seen)++ == number) return devices[n];
      }
    }
  return NULL;
}

/* Loaders find drivers, and drivers their devices, when they are first asked: of two threads that do so at once one finds
   none, or both crash. */
static cl_device_id find(const odtc_cl *cl, int number, int *seen) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex);
  cl_device_id found = look_through(cl, number, seen);
  pthread_mutex_unlock(&mutex);
  return found;
}

static void describe(odtc_gpu *gpu) {
  const odtc_cl *cl = gpu->cl;
  odtc_gpu_about *about = &gpu->about;
  char driver[256] = "", version[256] = "";
  if (cl->clGetDeviceInfo(gpu->device, CL_DEVICE_NAME, sizeof about->name - 1, about->name, NULL))
    strcpy(about->name, "a device of OpenCL");
  cl->clGetDeviceInfo(gpu->device, CL_DRIVER_VERSION, sizeof driver - 1, driver, NULL);
  cl->clGetDeviceInfo(gpu->device, CL_DEVICE_VERSION, sizeof version - 1, version, NULL);
  snprintf(about->driver, sizeof about->driver, "%.60s %.60s", driver, version);
  cl->clGetDeviceInfo(gpu->device, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof about->largest_buffer, &about->largest_buffer,
                      NULL);
  cl->clGetDeviceInfo(gpu->device, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof about->memory, &about->memory, NULL);
  size_t most = 0;
  int is_told = !cl->clGetDeviceInfo(gpu->device, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof most, &most, NULL);
  about->most_items = is_told ? most : UINT64_MAX;
  cl_uint has_images = 0;
  if (!cl->clGetDeviceInfo(gpu->device, CL_DEVICE_IMAGE_SUPPORT, sizeof has_images, &has_images, NULL) && has_images &&
      !cl->clGetDeviceInfo(gpu->device, CL_DEVICE_IMAGE_MAX_BUFFER_SIZE, sizeof most, &most, NULL))
    gpu->most_pixels = most;
}

static odtc_code make_queue(odtc_gpu *gpu, cl_command_queue *queue, cl_ulong properties, odtc_problem *problem) {
  cl_int code;
  *queue = gpu->cl->clCreateCommandQueue(gpu->context, gpu->device, properties, &code);
  return code ? odtc_opencl_fail(problem, code, "a queue") : ODTC_OK;
}

static void release(const odtc_gpu *gpu, odtc_gpu_buffer *buffer) {
  for (int format = 0; format < ODTC_OPENCL_FORMATS; ++format)
    if (buffer->images[format]) gpu->cl->clReleaseMemObject(buffer->images[format]);
  gpu->cl->clReleaseMemObject(buffer->memory);
  free(buffer);
}

static void close_device(odtc_gpu *gpu) {
  const odtc_cl *cl = gpu->cl;
  if (gpu->queue) cl->clFinish(gpu->queue);
  while (gpu->lists) odtc_opencl_free_list(gpu, gpu->lists);
  for (odtc_gpu_buffer *each = gpu->buffers, *before; each; each = before) {
    before = each->before;
    release(gpu, each);
  }
  odtc_opencl_unload(gpu);
  if (gpu->uploads) cl->clReleaseCommandQueue(gpu->uploads);
  if (gpu->queue) cl->clReleaseCommandQueue(gpu->queue);
  if (gpu->context) cl->clReleaseContext(gpu->context);
  free(gpu);
}

static odtc_code start(odtc_gpu *gpu, const odtc_gpu_options *options, odtc_problem *problem) {
  int seen;
  cl_int code;
  if (!(gpu->device = find(gpu->cl, options->number, &seen)))
    return odtc_fail(problem, ODTC_DEVICE, "there is no OpenCL device %d: this machine has %d", options->number, seen);
  describe(gpu);
  gpu->context = gpu->cl->clCreateContext(NULL, 1, &gpu->device, NULL, NULL, &code);
  if (code) return odtc_opencl_fail(problem, code, gpu->about.name);
  if (make_queue(gpu, &gpu->queue, 0, problem)) return problem->code;
  return make_queue(gpu, &gpu->uploads, 0, problem);
}

static odtc_code open_device(const odtc_gpu_options *options, odtc_gpu **made, odtc_gpu_about *about,
                             odtc_problem *problem) {
  const odtc_cl *cl = odtc_cl_functions(problem);
  *made = NULL;
  if (!cl) return problem->code;
  odtc_gpu *gpu = calloc(1, sizeof *gpu);
  if (!gpu) return odtc_fail(problem, ODTC_NO_MEMORY, "there is no memory for a device");
  gpu->cl = cl;
  if (options->cache) {
    if (strlen(options->cache) >= sizeof gpu->cache) {
      free(gpu);
      return odtc_fail(problem, ODTC_USAGE, "the path of the folder for programs is too long");
    }
    strcpy(gpu->cache, options->cache);
  }
  odtc_code code = start(gpu, options, problem);
  if (code) {
    close_device(gpu);
    return code;
  }
  *about = gpu->about;
  *made = gpu;
  return ODTC_OK;
}

static odtc_code allocate(odtc_gpu *gpu, uint64_t bytes, odtc_gpu_buffer **made, odtc_problem *problem) {
  const odtc_cl *cl = gpu->cl;
  const uint32_t zero = 0;
  cl_int code;
  char what[64];
  size_t whole = (size_t)(bytes + 3) / 4 * 4;
  *made = NULL;
  snprintf(what, sizeof what, "a buffer of %llu bytes", (unsigned long long)bytes);
  odtc_gpu_buffer *buffer = calloc(1, sizeof *buffer);
  if (!buffer) return odtc_fail(problem, ODTC_NO_MEMORY, "there is no memory for a buffer");
  buffer->memory = cl->clCreateBuffer(gpu->context, CL_MEM_READ_WRITE, whole, NULL, &code);
  buffer->bytes = whole;
  /* Drivers allocate at first use: a lack of memory is to show now. */
  if (!code) {
    code = cl->clEnqueueFillBuffer(gpu->uploads, buffer->memory, &zero, sizeof zero, 0, sizeof zero, 0, NULL, NULL);
    if (!code) code = cl->clFinish(gpu->uploads);
    if (code) cl->clReleaseMemObject(buffer->memory);
  }
  if (code) {
    free(buffer);
    odtc_opencl_fail(problem, code, what);
    /* Which of its codes a driver has for it, differs. */
    return problem->code = code == CL_OUT_OF_RESOURCES ? ODTC_NO_MEMORY : problem->code;
  }
  buffer->before = gpu->buffers;
  if (gpu->buffers) gpu->buffers->after = buffer;
  *made = gpu->buffers = buffer;
  return ODTC_OK;
}

static void free_buffer(odtc_gpu *gpu, odtc_gpu_buffer *buffer) {
  if (!buffer) return;
  if (buffer->before) buffer->before->after = buffer->after;
  *(buffer->after ? &buffer->after->before : &gpu->buffers) = buffer->before;
  release(gpu, buffer);
}

static odtc_code told(cl_int code, const char *what, odtc_problem *problem) {
  return code ? odtc_opencl_fail(problem, code, what) : ODTC_OK;
}

static odtc_code write_now(odtc_gpu *gpu, odtc_gpu_buffer *to, uint64_t offset, const void *from, uint64_t bytes,
                           odtc_problem *problem) {
  if (!bytes) return ODTC_OK;
  return told(gpu->cl->clEnqueueWriteBuffer(gpu->uploads, to->memory, 1, offset, bytes, from, 0, NULL, NULL),
              "writing to the device", problem);
}

static odtc_code read_now(odtc_gpu *gpu, odtc_gpu_buffer *from, uint64_t offset, void *to, uint64_t bytes,
                          odtc_problem *problem) {
  if (!bytes) return ODTC_OK;
  return told(gpu->cl->clEnqueueReadBuffer(gpu->queue, from->memory, 1, offset, bytes, to, 0, NULL, NULL),
              "reading from the device", problem);
}

static odtc_code fill(odtc_gpu *gpu, odtc_gpu_buffer *to, uint64_t offset, uint64_t bytes, uint32_t pattern,
                      odtc_problem *problem) {
  size_t whole = (size_t)(bytes + sizeof pattern - 1) / sizeof pattern * sizeof pattern;
  if (!bytes) return ODTC_OK;
  return told(gpu->cl->clEnqueueFillBuffer(gpu->queue, to->memory, &pattern, sizeof pattern, offset, whole, 0, NULL,
                                           NULL),
              "filling a buffer", problem);
}

/* A fill takes its pattern at once, and a write would not. */
static odtc_code put(odtc_gpu *gpu, odtc_gpu_buffer *to, uint64_t offset, const void *from, uint32_t bytes,
                     odtc_problem *problem) {
  odtc_code code = ODTC_OK;
  uint32_t pattern;
  for (uint32_t at = 0; at < bytes && !code; at += sizeof pattern) {
    memcpy(&pattern, (const uint8_t *)from + at, sizeof pattern);
    code = fill(gpu, to, offset + at, sizeof pattern, pattern, problem);
  }
  return code;
}

static odtc_code take(odtc_gpu *gpu, odtc_gpu_buffer *from, uint64_t offset, void *to, uint32_t bytes,
                      odtc_problem *problem) {
  return told(gpu->cl->clEnqueueReadBuffer(gpu->queue, from->memory, 0, offset, bytes, to, 0, NULL, NULL),
              "reading from the device", problem);
}

static odtc_code copy(odtc_gpu *gpu, odtc_gpu_buffer *to, uint64_t offset, odtc_gpu_buffer *from,
                      uint64_t from_offset, uint64_t bytes, odtc_problem *problem) {
  if (!bytes) return ODTC_OK;
  return told(gpu->cl->clEnqueueCopyBuffer(gpu->queue, from->memory, to->memory, from_offset, offset, bytes, 0, NULL,
                                           NULL),
              "copying on the device", problem);
}

static odtc_code set_timed(odtc_gpu *gpu, int is_timed, odtc_problem *problem) {
  cl_command_queue other;
  if (is_timed == gpu->is_timed) return ODTC_OK;
  if (make_queue(gpu, &other, is_timed ? CL_QUEUE_PROFILING_ENABLE : 0, problem)) return problem->code;
  gpu->cl->clFinish(gpu->queue);
  gpu->cl->clReleaseCommandQueue(gpu->queue);
  gpu->queue = other;
  gpu->is_timed = is_timed;
  return ODTC_OK;
}

const odtc_gpu_interface ODTC_OPENCL = {
    .name = "opencl",
    .module = "cl",
    .open = open_device,
    .close = close_device,
    .load = odtc_opencl_load,
    .describe = odtc_opencl_describe,
    .allocate = allocate,
    .free_buffer = free_buffer,
    .write = write_now,
    .read = read_now,
    .fill = fill,
    .put = put,
    .take = take,
    .copy = copy,
    .prepare = odtc_opencl_prepare,
    .free_list = odtc_opencl_free_list,
    .run = odtc_opencl_run,
    .wait = odtc_opencl_wait,
    .set_timed = set_timed,
    .times = odtc_opencl_times,
};
