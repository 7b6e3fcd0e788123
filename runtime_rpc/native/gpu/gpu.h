/* What the runtime asks of an interface to GPUs, such as OpenCL: a table of functions.

   A trainer uses one device by one thread at a time, but `write` may be called by another thread while lists run, for a
   buffer that none of them reads. What is queued (lists, and what is put or taken in their order) is done
   in the order of the calls, each of them after all before it; none of these wait. Functions that can fail note
   the problem and return its code: ODTC_NO_MEMORY where a buffer is too large for the device or there is no room
   for it, ODTC_DEVICE where there is no such device, it was lost, or it reports a failure, ODTC_KERNEL where it cannot
   build a kernel, ODTC_UNSUPPORTED where it lacks what a kernel needs. After ODTC_DEVICE everything but `wait`, `free_*` and
   `close` may fail, and nothing may hang. docs/design/gpus.md has more. */
#ifndef ODTC_GPU_H
#define ODTC_GPU_H

#include <stddef.h>
#include <stdint.h>

#include "problem.h"

/* Of an interface: an open device, memory on it, and launches that are made ready to run. */
typedef struct odtc_gpu odtc_gpu;
typedef struct odtc_gpu_buffer odtc_gpu_buffer;
typedef struct odtc_gpu_list odtc_gpu_list;

/* Which device, and where what drivers compile is kept. */
typedef struct {
  int number;        /* among the devices of the interface, GPUs first */
  const char *cache; /* a folder for programs as the driver has compiled them; NULL: they are not kept */
} odtc_gpu_options;

/* What is known of a device, once it is open. */
typedef struct {
  char name[256], driver[128]; /* as the driver says; `driver` changes with its version */
  uint64_t largest_buffer;     /* bytes, as the driver says; some take more */
  uint64_t memory;             /* bytes of the device, or of what it shares with the host */
  uint64_t most_items;         /* of a work-group */
} odtc_gpu_about;

/* A buffer of a kernel, over all of the kernel's launches: by that an interface may let it be read as an image. */
typedef struct {
  uint64_t most_bytes; /* of what it is given */
  int is_alone;        /* nothing else that a launch is given lies in the same buffer */
} odtc_gpu_use;

/* A kernel: its code is OpenCL's source, or SPIR-V. Buffers come before numbers in its arguments. */
typedef struct {
  const char *name;
  uint32_t buffers, numbers;
  const struct odtc_gpu_type {
    uint8_t code, bits; /* as DLPack has them */
    uint16_t lanes;
  } *types; /* of the numbers */
  uint32_t flags; /* of a kernel of Vulkan; 1: numbers lie in a uniform buffer after the others; from bit 8 on:
                     items of each subgroup, if these multiply matrices */
  const void *code; /* which stays where it is until `load` returns; SPIR-V begins at a multiple of 4 */
  size_t code_bytes;
  const odtc_gpu_use *uses; /* of each buffer; NULL: nothing is known of them */
} odtc_gpu_kernel;

enum { ODTC_GPU_UNIFORM = 1, ODTC_GPU_SUBGROUP_SHIFT = 8 };

typedef struct {
  uint64_t offset, bytes;
} odtc_gpu_range;

/* One launch of a kernel, with buffers and numbers for all of its arguments. */
typedef struct {
  uint32_t kernel; /* among those that were loaded */
  odtc_gpu_buffer *const *buffers;
  const odtc_gpu_range *ranges; /* of each buffer, the bytes that the launch uses; NULL: it may use all of them */
  const uint64_t *numbers; /* the bytes of each from the first one on, as its type says */
  uint32_t groups[3], items[3]; /* work-groups along each axis, and work-items of a group */
} odtc_gpu_launch;

/* What is known of a kernel that the driver has compiled: bytes of memory, sizes, registers. */
enum { ODTC_GPU_MOST_FIGURES = 32, ODTC_GPU_FIGURE_NAME = 64 };
typedef struct {
  size_t count;
  struct odtc_gpu_figure {
    char name[ODTC_GPU_FIGURE_NAME]; /* "shared bytes" and the like; a driver's own words where it gives figures of its own */
    double value;
  } each[ODTC_GPU_MOST_FIGURES];
} odtc_gpu_figures;

/* When a launch began and ended, in nanoseconds of the device's clock. */
typedef struct {
  int64_t begin, end;
} odtc_gpu_times;

/* An interface. All functions are there. */
typedef struct {
  const char *name;   /* "opencl" */
  const char *module; /* what its device modules begin with: "cl" */

  odtc_code (*open)(const odtc_gpu_options *options, odtc_gpu **gpu, odtc_gpu_about *about, odtc_problem *problem);
  /* Waits for what runs, and gives back all that is left: buffers, lists and kernels, too. */
  void (*close)(odtc_gpu *gpu);

  /* Makes the driver compile kernels, or takes what it has compiled before: once, after `open`. */
  odtc_code (*load)(odtc_gpu *gpu, const odtc_gpu_kernel *kernels, size_t count, odtc_problem *problem);
  /* Figures of a kernel, by its number among those that were loaded, and what it was loaded from. What the driver does not
     say is left out. It may compile the kernel again. */
  odtc_code (*describe)(odtc_gpu *gpu, uint32_t kernel, const odtc_gpu_kernel *from, odtc_gpu_figures *figures,
                        odtc_problem *problem);

  /* A buffer of 1 byte or more, with anything in it. No list that uses it may run, or run again, once it is freed; lists
     that are freed later may have it. */
  odtc_code (*allocate)(odtc_gpu *gpu, uint64_t bytes, odtc_gpu_buffer **buffer, odtc_problem *problem);
  void (*free_buffer)(odtc_gpu *gpu, odtc_gpu_buffer *buffer);

  /* Copies that wait until they are done. `write` does not wait for lists that run, where the device has a queue of its own
     for that: nobody may use the bytes meanwhile. `read` gives what all that was queued before it leaves. */
  odtc_code (*write)(odtc_gpu *gpu, odtc_gpu_buffer *to, uint64_t offset, const void *from, uint64_t bytes,
                     odtc_problem *problem);
  odtc_code (*read)(odtc_gpu *gpu, odtc_gpu_buffer *from, uint64_t offset, void *to, uint64_t bytes,
                    odtc_problem *problem);

  /* In the order of lists. `fill` repeats a pattern of 4 bytes, from a multiple of 4 on; `put` copies at most 64 bytes, whose
     number and offset are multiples of 4, and has taken them when it returns; what `take` copies, at most 64 bytes as well, is
     at `to` once a `wait` returns. `copy` goes from one buffer to another. */
  odtc_code (*fill)(odtc_gpu *gpu, odtc_gpu_buffer *to, uint64_t offset, uint64_t bytes, uint32_t pattern,
                    odtc_problem *problem);
  odtc_code (*put)(odtc_gpu *gpu, odtc_gpu_buffer *to, uint64_t offset, const void *from, uint32_t bytes,
                   odtc_problem *problem);
  odtc_code (*take)(odtc_gpu *gpu, odtc_gpu_buffer *from, uint64_t offset, void *to, uint32_t bytes,
                    odtc_problem *problem);
  odtc_code (*copy)(odtc_gpu *gpu, odtc_gpu_buffer *to, uint64_t offset, odtc_gpu_buffer *from,
                    uint64_t from_offset, uint64_t bytes, odtc_problem *problem);

  /* Makes launches ready; nothing of what is given has to stay, but for the buffers. Each launch sees what those before
     it wrote. */
  odtc_code (*prepare)(odtc_gpu *gpu, const odtc_gpu_launch *launches, size_t count, odtc_gpu_list **list,
                       odtc_problem *problem);
  /* A list that does not run. */
  void (*free_list)(odtc_gpu *gpu, odtc_gpu_list *list);
  /* Queues all launches of a list (where that fails it is ODTC_DEVICE, whatever was missing), which does not run: its last run was waited for. Several lists may be queued. */
  odtc_code (*run)(odtc_gpu *gpu, odtc_gpu_list *list, odtc_problem *problem);
  /* Waits for the last run of a list, and all before it; of NULL for all that is queued. */
  odtc_code (*wait)(odtc_gpu *gpu, odtc_gpu_list *list, odtc_problem *problem);

  /* Whether launches are timed from now on; nothing is queued. `times` gives those of a list's last run, one for each of
     its launches, once `wait` has returned; ODTC_UNSUPPORTED where the device has no timers. */
  odtc_code (*set_timed)(odtc_gpu *gpu, int is_timed, odtc_problem *problem);
  odtc_code (*times)(odtc_gpu *gpu, const odtc_gpu_list *list, odtc_gpu_times *times, odtc_problem *problem);
} odtc_gpu_interface;

/* Adds a figure; one that there is no room for is left out. */
void odtc_add_figure(odtc_gpu_figures *figures, const char *name, double value);

/* Adds how many buffers of a kernel are read as images, a bit for each, if any is. */
void odtc_add_images(odtc_gpu_figures *figures, uint64_t images);

/* The interfaces, with NULL after the last one; a program's device module names one. */
extern const odtc_gpu_interface *const ODTC_GPU_INTERFACES[];

#endif
