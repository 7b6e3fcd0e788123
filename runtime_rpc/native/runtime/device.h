/* Where the tensors of a trainer are on a GPU: what the files of the runtime ask then. Only a library that is compiled with
   ODTC_GPUS has any of it; in that for CPUs these functions are empty, and cost nothing. What lies in memory there is a
   mirror: see docs/design/gpus.md. */
#ifndef ODTC_ON_DEVICE_H
#define ODTC_ON_DEVICE_H

#include "program.h"

#ifdef ODTC_GPUS

/* Whether the kernels of a program are for a GPU. */
int odtc_is_for_gpu(const odtc_program *program);
/* Lets the host code of a library of such kernels call this runtime. */
odtc_code odtc_connect_host_code(const char *what, void *library, odtc_problem *problem);
/* Opens the device and gives it all that the trainer's memory holds; frees it. */
odtc_code odtc_start_gpu(odtc_trainer *trainer, const odtc_options *options);
void odtc_end_gpu(odtc_trainer *trainer);

/* Whether a trainer's tensors are on a GPU. The next three are for those that are. */
int odtc_is_on_gpu(const odtc_trainer *trainer);
/* Computes a function of what is fed in memory; its result is in memory then. */
odtc_code odtc_run_on_gpu(odtc_trainer *trainer, const odtc_function *function);
/* Takes all parts of a step by the plan, and gives the sum of their losses. */
odtc_code odtc_take_on_gpu(odtc_trainer *trainer, float rate, double *sum);
/* Gives the arena so many bytes, and nothing in them. */
odtc_code odtc_set_arena_on_gpu(odtc_trainer *trainer, size_t bytes);

/* What was sent ahead of a step is of another length than the next one: it is dropped. */
void odtc_leave_length_on_gpu(odtc_trainer *trainer);

/* Lets the memory of an argument hold what the device has of it, until it is left; gives the device what memory holds.
   Where memory is all that there is, nothing is to be done. */
odtc_code odtc_fetch_argument(odtc_trainer *trainer, size_t number);
odtc_code odtc_send_argument(odtc_trainer *trainer, size_t number);
void odtc_leave_argument(odtc_trainer *trainer, size_t number);
/* Whether launches are timed from now on. */
odtc_code odtc_time_gpu(odtc_trainer *trainer, int is_timed);

#else

static inline int odtc_is_for_gpu(const odtc_program *program) { return (void)program, 0; }
static inline odtc_code odtc_connect_host_code(const char *what, void *library, odtc_problem *problem) {
  return (void)what, (void)library, (void)problem, ODTC_OK;
}
static inline odtc_code odtc_start_gpu(odtc_trainer *t, const odtc_options *o) { return (void)t, (void)o, ODTC_OK; }
static inline void odtc_end_gpu(odtc_trainer *t) { (void)t; }
static inline int odtc_is_on_gpu(const odtc_trainer *t) { return (void)t, 0; }
static inline odtc_code odtc_run_on_gpu(odtc_trainer *t, const odtc_function *f) { return (void)t, (void)f, ODTC_OK; }
static inline odtc_code odtc_take_on_gpu(odtc_trainer *t, float rate, double *sum) {
  return (void)t, (void)rate, (void)sum, ODTC_OK;
}
static inline odtc_code odtc_set_arena_on_gpu(odtc_trainer *t, size_t bytes) { return (void)t, (void)bytes, ODTC_OK; }
static inline void odtc_leave_length_on_gpu(odtc_trainer *t) { (void)t; }
static inline odtc_code odtc_fetch_argument(odtc_trainer *t, size_t n) { return (void)t, (void)n, ODTC_OK; }
static inline odtc_code odtc_send_argument(odtc_trainer *t, size_t n) { return (void)t, (void)n, ODTC_OK; }
static inline void odtc_leave_argument(odtc_trainer *t, size_t n) { (void)t, (void)n; }
static inline odtc_code odtc_time_gpu(odtc_trainer *t, int is_timed) { return (void)t, (void)is_timed, ODTC_OK; }

#endif
#endif
