/* Launches, each a kernel of the driver's that has its arguments: a run only queues them. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <time.h>

#include "clock.h"
#include "opencl.h"

typedef struct {
  cl_kernel kernel;
  size_t items[3], group[3];
  const char *name;
} launch;

struct odtc_gpu_list {
  size_t count;
  launch *launches;
  cl_event last;    /* of its last run; NULL before one, and once it was waited for */
  cl_event *timed;  /* of each launch of a run that was timed; NULL otherwise */
  odtc_gpu_list *before, *after;
};

/* What a kernel is given as an argument: a buffer, or an image of it, which is a view and not a copy. */
static odtc_code find_memory(const odtc_gpu *gpu, const struct odtc_opencl_kernel *kernel, uint32_t argument,
                             odtc_gpu_buffer *buffer, cl_mem *memory, odtc_problem *problem) {
  static const cl_image_format FORMATS[] = {{CL_RGBA, CL_FLOAT}, {CL_RGBA, CL_HALF_FLOAT}};
  cl_int code = CL_SUCCESS;
  *memory = buffer->memory;
  for (int format = 0; format < ODTC_OPENCL_FORMATS && !code; ++format) {
    if (argument >= 64 || !(kernel->images[format] >> argument & 1)) continue;
    const cl_image_desc all = {.image_type = CL_MEM_OBJECT_IMAGE1D_BUFFER,
                               .image_width = (size_t)(buffer->bytes / ODTC_OPENCL_PIXEL[format]),
                               .buffer = buffer->memory};
    cl_mem *image = buffer->images + format;
    if (!*image) *image = gpu->cl->clCreateImage(gpu->context, CL_MEM_READ_ONLY, FORMATS + format, &all, NULL, &code);
    if (code) *image = NULL;
    *memory = *image;
  }
  return code ? odtc_opencl_fail(problem, code, kernel->name) : ODTC_OK;
}

static odtc_code make(odtc_gpu *gpu, const odtc_gpu_launch *from, launch *to, odtc_problem *problem) {
  const odtc_cl *cl = gpu->cl;
  const struct odtc_opencl_kernel *kernel = gpu->kernels + from->kernel;
  cl_int code;
  size_t most = 0, items = 1;
  to->name = kernel->name;
  to->kernel = cl->clCreateKernel(kernel->program, kernel->name, &code);
  if (code) return odtc_opencl_fail(problem, code, kernel->name);
  for (uint32_t n = 0; n < kernel->buffers; ++n) {
    cl_mem memory;
    if (find_memory(gpu, kernel, n, from->buffers[n], &memory, problem)) return problem->code;
    if ((code = cl->clSetKernelArg(to->kernel, n, sizeof memory, &memory)))
      return odtc_opencl_fail(problem, code, kernel->name);
  }
  for (uint32_t n = 0; n < kernel->numbers; ++n)
    if ((code = cl->clSetKernelArg(to->kernel, kernel->buffers + n, kernel->bytes[n], from->numbers + n)))
      return odtc_opencl_fail(problem, code, kernel->name);
  for (int axis = 0; axis < 3; ++axis) {
    to->group[axis] = from->items[axis];
    to->items[axis] = (size_t)from->groups[axis] * from->items[axis];
    items *= from->items[axis];
  }
  /* Now, and not in the middle of a step. */
  if (!cl->clGetKernelWorkGroupInfo(to->kernel, gpu->device, CL_KERNEL_WORK_GROUP_SIZE, sizeof most, &most, NULL) &&
      items > most)
    return odtc_fail(problem, ODTC_UNSUPPORTED, "the kernel %.100s has groups of %zu work-items; %.100s takes %zu of it",
                     kernel->name, items, gpu->about.name, most);
  return ODTC_OK;
}

odtc_code odtc_opencl_prepare(odtc_gpu *gpu, const odtc_gpu_launch *launches, size_t count, odtc_gpu_list **made,
                              odtc_problem *problem) {
  odtc_code code = ODTC_OK;
  odtc_gpu_list *list = *made = calloc(1, sizeof *list);
  if (list) list->launches = calloc(count + 1, sizeof *list->launches);
  if (!list || !list->launches) {
    free(list);
    *made = NULL;
    return odtc_fail(problem, ODTC_NO_MEMORY, "there is no memory for %zu launches", count);
  }
  list->before = gpu->lists;
  if (gpu->lists) gpu->lists->after = list;
  gpu->lists = list;
  for (; list->count < count && !code; ++list->count)
    code = make(gpu, launches + list->count, list->launches + list->count, problem);
  if (!code) return ODTC_OK;
  odtc_opencl_free_list(gpu, list);
  *made = NULL;
  return code;
}

/* Of the last launch of a list's last run; NULL where nothing runs. */
static cl_event last_event(const odtc_gpu_list *list) {
  if (!list || !list->count) return NULL;
  return list->timed ? list->timed[list->count - 1] : list->last;
}

static void forget(odtc_gpu *gpu, odtc_gpu_list *list) {
  if (gpu->newest == list) gpu->newest = NULL;
  for (size_t n = 0; list->timed && n < list->count; ++n)
    if (list->timed[n]) gpu->cl->clReleaseEvent(list->timed[n]);
  free(list->timed);
  list->timed = NULL;
  if (list->last) gpu->cl->clReleaseEvent(list->last);
  list->last = NULL;
}

void odtc_opencl_free_list(odtc_gpu *gpu, odtc_gpu_list *list) {
  if (!list) return;
  forget(gpu, list);
  for (size_t n = 0; n < list->count; ++n)
    if (list->launches[n].kernel) gpu->cl->clReleaseKernel(list->launches[n].kernel);
  if (list->before) list->before->after = list->after;
  *(list->after ? &list->after->before : &gpu->lists) = list->before;
  free(list->launches);
  free(list);
}

odtc_code odtc_opencl_run(odtc_gpu *gpu, odtc_gpu_list *list, odtc_problem *problem) {
  const odtc_cl *cl = gpu->cl;
  forget(gpu, list);
  if (!gpu->queued) gpu->queued = odtc_now();
  if (gpu->is_timed && !(list->timed = calloc(list->count + 1, sizeof *list->timed)))
    return odtc_fail(problem, ODTC_NO_MEMORY, "there is no memory for the times of %zu launches", list->count);
  for (size_t n = 0; n < list->count; ++n) {
    const launch *each = list->launches + n;
    cl_event *event = list->timed ? list->timed + n : n + 1 == list->count ? &list->last : NULL;
    cl_int code = cl->clEnqueueNDRangeKernel(gpu->queue, each->kernel, 3, NULL, each->items, each->group, 0, NULL, event);
    if (!code) continue;
    odtc_opencl_fail(problem, code, each->name);
    return problem->code = ODTC_DEVICE; /* a lack of memory, too: launches before this one ran */
  }
  gpu->newest = list;
  cl_int code = cl->clFlush(gpu->queue); /* else a driver may begin only when somebody waits */
  return code ? odtc_opencl_fail(problem, code, "the queue") : ODTC_OK;
}

static void sleep_for(int64_t ns) {
  const struct timespec rest = {ns / 1000000000, ns % 1000000000};
  nanosleep(&rest, NULL);
}

/* Some drivers wait in a loop that keeps a core busy. Steps take about the same time each: the thread sleeps for most of
   it, and then asks from time to time. Once it takes twice as long as before, the driver is to wait. */
static void sleep_first(const odtc_gpu *gpu) {
  enum { LEAST = 200 * 1000, NAP = 20 * 1000, PART = 32 }; /* ns; less is not worth it */
  int64_t shortest = gpu->lasted < gpu->lasted_before ? gpu->lasted : gpu->lasted_before;
  int64_t left = gpu->queued + shortest / PART * (PART - 1) - odtc_now(), nap = shortest / (PART * PART);
  cl_event last = last_event(gpu->newest);
  cl_int status = CL_COMPLETE;
  if (!gpu->queued || left < LEAST) return;
  sleep_for(left);
  while (last && odtc_now() - gpu->queued < 2 * gpu->lasted &&
         !gpu->cl->clGetEventInfo(last, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, NULL) &&
         status > CL_COMPLETE)
    sleep_for(nap < NAP ? NAP : nap);
}

odtc_code odtc_opencl_wait(odtc_gpu *gpu, odtc_gpu_list *list, odtc_problem *problem) {
  cl_event last = last_event(list);
  if (list && !last) return ODTC_OK;
  if (!list) sleep_first(gpu);
  cl_int code = list ? gpu->cl->clWaitForEvents(1, &last) : gpu->cl->clFinish(gpu->queue);
  if (list && list->last) {
    if (gpu->newest == list) gpu->newest = NULL;
    gpu->cl->clReleaseEvent(list->last);
    list->last = NULL;
  }
  if (!list && gpu->queued) {
    gpu->lasted_before = gpu->lasted;
    gpu->lasted = odtc_now() - gpu->queued;
    gpu->queued = 0;
  }
  return code ? odtc_opencl_fail(problem, code, "waiting for the device") : ODTC_OK;
}

odtc_code odtc_opencl_times(odtc_gpu *gpu, const odtc_gpu_list *list, odtc_gpu_times *times, odtc_problem *problem) {
  for (size_t n = 0; n < list->count; ++n) {
    cl_ulong begin = 0, end = 0;
    cl_event event = list->timed ? list->timed[n] : NULL;
    if (!event ||
        gpu->cl->clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof begin, &begin, NULL) ||
        gpu->cl->clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof end, &end, NULL))
      return odtc_fail(problem, ODTC_UNSUPPORTED, "%.100s does not say when kernels ran", gpu->about.name);
    times[n] = (odtc_gpu_times){(int64_t)begin, (int64_t)end};
  }
  return ODTC_OK;
}
