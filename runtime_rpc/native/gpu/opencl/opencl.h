/* A device of OpenCL at work. */
#ifndef ODTC_OPENCL_H
#define ODTC_OPENCL_H

#include "cl.h"
#include "gpu.h"

/* Formats of images, with four numbers to a pixel, and bytes of each pixel. */
enum { ODTC_OPENCL_FLOATS, ODTC_OPENCL_HALVES, ODTC_OPENCL_FORMATS };
static const unsigned ODTC_OPENCL_PIXEL[ODTC_OPENCL_FORMATS] = {16, 8};

struct odtc_gpu {
  const odtc_cl *cl;
  cl_device_id device;
  cl_context context;
  cl_command_queue queue, uploads; /* in order, both */
  odtc_gpu_about about;
  uint64_t most_pixels; /* of an image of a buffer; 0 where there are no images */
  char cache[1024]; /* a folder; empty where there is none */
  int is_timed;
  int64_t queued, lasted, lasted_before; /* when the first list was queued since the last wait; how long waits took since */
  size_t kernel_count;
  struct odtc_opencl_kernel {
    char name[256];
    cl_program program;
    uint32_t buffers, numbers;
    uint64_t images[ODTC_OPENCL_FORMATS]; /* a bit for each of the first 64 buffers that is read as one of the format */
    uint8_t *bytes; /* of each number */
  } *kernels;
  odtc_gpu_buffer *buffers; /* the last one; each has the one before it */
  odtc_gpu_list *lists;     /* likewise */
  odtc_gpu_list *newest;    /* that was queued last; NULL once it was waited for */
};

struct odtc_gpu_buffer {
  cl_mem memory, images[ODTC_OPENCL_FORMATS]; /* the latter of all its bytes; NULL until one is needed */
  uint64_t bytes;
  odtc_gpu_buffer *before, *after;
};

/* Notes what a number that OpenCL returns says. */
odtc_code odtc_opencl_fail(odtc_problem *problem, cl_int code, const char *what);

/* Of the table in gpu.h. */
odtc_code odtc_opencl_load(odtc_gpu *gpu, const odtc_gpu_kernel *kernels, size_t count, odtc_problem *problem);
void odtc_opencl_unload(odtc_gpu *gpu);
odtc_code odtc_opencl_describe(odtc_gpu *gpu, uint32_t kernel, const odtc_gpu_kernel *from, odtc_gpu_figures *figures,
                               odtc_problem *problem);

odtc_code odtc_opencl_prepare(odtc_gpu *gpu, const odtc_gpu_launch *launches, size_t count, odtc_gpu_list **list,
                              odtc_problem *problem);
void odtc_opencl_free_list(odtc_gpu *gpu, odtc_gpu_list *list);
odtc_code odtc_opencl_run(odtc_gpu *gpu, odtc_gpu_list *list, odtc_problem *problem);
odtc_code odtc_opencl_wait(odtc_gpu *gpu, odtc_gpu_list *list, odtc_problem *problem);
odtc_code odtc_opencl_times(odtc_gpu *gpu, const odtc_gpu_list *list, odtc_gpu_times *times, odtc_problem *problem);

#endif
