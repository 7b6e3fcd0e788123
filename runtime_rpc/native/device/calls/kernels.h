/* Kernels of a library that a client has uploaded, as TVM's client loads, calls and times them: whoever
   measures kernels gives them tensors of the session. */
#ifndef ODTC_KERNELS_H
#define ODTC_KERNELS_H

#include "kernel_abi.h"
#include "library.h"
#include "session.h"

/* A library, for as long as the client or a kernel of it has a use for it. */
typedef struct {
  odtc_library library;
  int uses;
} odtc_module;

/* How the time of a kernel is taken; see timer.c. */
typedef struct {
  int64_t number, repeat, least_ms, most_zeros, cooldown_ms, cooldown_every, flushed;
} odtc_timing;

/* A kernel; with a timing, if its kind is ODTC_A_TIMER. */
typedef struct {
  odtc_module *module;
  odtc_kernel code;
  char name[256];
  odtc_timing timing;
} odtc_module_kernel;

/* What a kernel is called with. */
typedef struct {
  odtc_kernel_tensor tensors[MOST_VALUES];
  odtc_kernel_value values[MOST_VALUES];
  int32_t count;
} odtc_kernel_arguments;

/* Not 0, and a failure, where one of the values is no number, and no tensor of the session. */
int odtc_take_arguments(odtc_session *session, const odtc_values *values,
                        odtc_kernel_arguments *arguments);
/* Not 0, and a failure, where the kernel says that it failed. It runs in the pool of the session. */
int odtc_run_kernel(odtc_session *session, const odtc_module_kernel *kernel,
                    const odtc_kernel_arguments *arguments);

/* Calls of a handle that is a kernel, or that takes the time of one. */
void odtc_call_kernel(odtc_session *session, const void *kernel, const odtc_values *values,
                      odtc_result *result);
void odtc_time_kernel(odtc_session *session, const void *kernel, const odtc_values *values,
                      odtc_result *result);

/* A kernel of a module, with a timing; 0 where there is none of that name, or a failure. */
int64_t odtc_keep_kernel(odtc_session *session, const odtc_value *module, const char *name,
                         odtc_kind kind, const odtc_timing *timing);
/* runtime.RPCTimeEvaluator. */
void odtc_make_timer(odtc_session *session, const odtc_value *values, odtc_result *result);

void odtc_leave_module(odtc_module *module);
void odtc_free_kernel(odtc_module_kernel *kernel);

#endif
