/* odtc.h for steps on a GPU: a library that is compiled with GPUs runs them by the same functions, and has these as well.

   Inputs and labels are fed as on a CPU. Of all other tensors `data` holds nothing but between odtc_fetch() and the
   next call of any function: fetch a tensor before it is read, and send it after it was written. Checkpoints need neither. */
#ifndef ODTC_GPU_API_H
#define ODTC_GPU_API_H

#include "odtc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Lets the memory of the tensor of that number hold what the device has; and gives the device what memory holds. On a CPU
   there is nothing to do. */
ODTC_API odtc_code odtc_fetch(odtc_trainer *trainer, size_t number);
ODTC_API odtc_code odtc_send(odtc_trainer *trainer, size_t number);

/* A function that each step calls once, when all of it is queued and before it waits: there the next batch may be written
   to inputs and labels, and sent ahead by odtc_send_next(), while the device computes. NULL for none. */
ODTC_API void odtc_while_waiting(odtc_trainer *trainer, void (*function)(void *), void *with);
/* Gives the device what the next step is fed: that step reads it as it is now, unless odtc_drop_next() is called. Of a
   step of micro-batches, the first of them. Where there is no memory for a second set of inputs, nothing is done. Where the
   next step has another length, odtc_set_length() comes before: it drops what was sent for one of another length. */
ODTC_API void odtc_send_next(odtc_trainer *trainer);
/* The same of a step without micro-batches, without a copy in between: `data` has an address for each tensor that is fed
   from there, by the tensor's number, and NULL where its own memory has what is fed. Whether it was sent; where it was
   not, that memory has to be written before the step. Integers are checked there, so that they have to be written to it. */
ODTC_API int odtc_send_next_from(odtc_trainer *trainer, const void *const *data);
ODTC_API void odtc_drop_next(odtc_trainer *trainer);

/* Name and driver of the device, in one text; NULL on a CPU. */
ODTC_API const char *odtc_gpu_name(const odtc_trainer *trainer);

/* Runs an evaluation so many times, of what the last one was fed, and gives the time that the device says each took: from
   where its first kernel began to where its last one ended. It leaves no result. */
ODTC_API odtc_code odtc_time_evaluation(odtc_trainer *trainer, const char *output, size_t runs, int64_t *nanoseconds);

/* What the step's kernels take of the device. JSON: for each kernel, by the name that odtc_stop_clock() has for it, what it
   launches: [{"name": ..., "groups": [3], "items": [3], "figures": {"shared bytes": ..., ...}}]. Figures are what the driver
   says: OpenCL of shared and private memory, and of work-groups; Vulkan's drivers what they call statistics, by their
   names, where they have VK_KHR_pipeline_executable_properties. The driver may compile kernels again. The text stays until
   the next call of this, or the trainer's end. */
ODTC_API odtc_code odtc_describe_kernels(odtc_trainer *trainer, const char **json);

/* What a device says of itself, beside any trainer; `message` says why there is nothing to say. */
typedef struct {
  char name[256], driver[128], message[512];
} odtc_found_gpu;

/* Looks a device up: of "opencl" or "vulkan", by its number as in odtc_options. */
ODTC_API odtc_code odtc_find_gpu(const char *interface, int number, odtc_found_gpu *found);

#ifdef __cplusplus
}
#endif

#endif
