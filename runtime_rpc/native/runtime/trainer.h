/* A trainer: files, memory, and the calls of a step as kernels are given them. */
#ifndef ODTC_TRAINER_H
#define ODTC_TRAINER_H

#include <stdatomic.h>

#include "clock.h"
#include "device.h"
#include "library.h"
#include "memory.h"
#include "pool.h"
#include "program.h"
#include "sha256.h"

struct odtc_trainer {
  odtc_problem problem;
  uint8_t *file; /* the program's; constants are read there */
  odtc_program program;
  odtc_library library;
  const odtc_kernel *kernels; /* those of the set that was chosen */
  int set, has_run;           /* which stays the same once a kernel has run: sums differ between sets */
  odtc_pool *pool;
  odtc_pages weights; /* the file, where frozen weights are used as they lie there */
  odtc_pages state;   /* all other arguments, results, and parts of what a step is fed */
  odtc_pages *files;  /* of each argument that lies in a file of its own, or beside the weights */
  odtc_pages arena;
  odtc_tensor *arguments;       /* as their user sees them */
  uint8_t **parts;              /* where a call reads each of them */
  odtc_kernel_tensor *tensors;  /* one for each place of the program */
  odtc_kernel_value *operands;  /* pointers to these, call by call */
  uint8_t *result;              /* of a function */
  odtc_pages aside, joined;     /* samples that are evaluated; the result of several evaluations */
  int64_t shape[ODTC_MOST_RANK]; /* of the result of the last evaluation */
  const odtc_function *plan;
  odtc_clock clock;
  atomic_int cancelled;
  int torn, is_open;
  char base[ODTC_HEX_BYTES]; /* the hash of weights that are frozen, once it was asked for */
  int has_other_base;        /* than that of the program, perhaps */
  int process; /* that made it, and has its threads */
  int64_t steps;
  double loss; /* of the last step, with the mark of one that wrote what is not finite */
#ifdef ODTC_GPUS
  struct odtc_on_gpu *gpu; /* what has the tensors, where that is a GPU */
#endif
};

enum { ODTC_CANCEL_STEP = 1, ODTC_CANCEL_NOW = 2 };

/* Whether everything below is there. */
odtc_code odtc_check_open(odtc_trainer *trainer);
/* Whether what a function was given is not NULL. */
odtc_code odtc_check_given(odtc_trainer *trainer, const void *given, const char *what);
/* Whether its threads are, too: a fork has none, and would wait for them without an end. */
odtc_code odtc_check_threads(odtc_trainer *trainer);

/* Allocates what a program needs, and gives it the values that it starts from. */
odtc_code odtc_fill(odtc_trainer *trainer, const odtc_options *options);

/* Lets tensors that lie in a region be where that is now. */
void odtc_point(odtc_trainer *trainer, uint32_t region);
/* Lets what reads an argument read another's memory. */
void odtc_point_argument(odtc_trainer *trainer, uint32_t argument, uint8_t *data);

/* Runs the calls of a function, whose arena is allocated. */
odtc_code odtc_run(odtc_trainer *trainer, const odtc_function *function, int changes);
/* Gives the arena so many bytes, and its tensors their places in it. */
odtc_code odtc_set_arena(odtc_trainer *trainer, size_t bytes);

/* Checks the integers of the first samples of what is fed, and is of a role; with 0 those of a part. */
odtc_code odtc_check_fed(odtc_trainer *trainer, odtc_role role, uint32_t samples);
/* Gives a call its part of what a step is fed. */
void odtc_take_part(odtc_trainer *trainer, uint32_t part);
/* Samples in memory, from one on; each group of it holds so many of them. */
typedef struct {
  uint8_t *data;
  uint32_t first, of;
} odtc_samples;
/* Copies so many samples, each of which has so many bytes in each of the groups. */
void odtc_copy_samples(odtc_samples to, odtc_samples from, size_t groups, size_t bytes, uint32_t count);

/* Whether a step or an evaluation may begin: the weights are whole, and nobody has cancelled it. */
odtc_code odtc_check_ready(odtc_trainer *trainer);
/* An evaluation that may run; NULL, and a problem, where something is wrong. */
const odtc_function *odtc_ready_evaluation(odtc_trainer *trainer, const char *output);
/* An arena that suffices for a function. */
odtc_code odtc_need_arena(odtc_trainer *trainer, const odtc_function *function);
/* Gives back what the plan does not need; what it needs more a step asks for. */
odtc_code odtc_leave_arena(odtc_trainer *trainer);

/* Whether a loss says that something is not finite that should be, and what. A mark is taken off it. */
odtc_code odtc_check_finite(odtc_trainer *trainer, double *loss, float rate);

#endif
