/* A trainer's tensors on a GPU, and the lists of launches that compute with them. */
#ifndef ODTC_ON_GPU_H
#define ODTC_ON_GPU_H

#include "device_module.h"
#include "gpu.h"
#include "launches.h"
#include "odtc_gpu.h"
#include "text.h"
#include "trainer.h"

enum { ODTC_SETS = 2 };

struct odtc_on_gpu {
  const odtc_gpu_interface *api;
  odtc_gpu *device;
  odtc_gpu_about about;
  char name[512]; /* for its user */
  odtc_device_module module;
  odtc_launches launches;

  odtc_gpu_buffer **arguments;  /* one for each */
  odtc_gpu_buffer **second;     /* another one for each that is fed; NULL until there are two sets */
  odtc_gpu_buffer *constants, *arena, *result;
  uint32_t *average_of;         /* of each argument, the number of its average, or ODTC_NONE */
  uint32_t *place_of;           /* of each argument, one of its places, or ODTC_NONE */
  uint8_t *computed;            /* memory for a result that has none of its own */

  odtc_gpu_list **lists;        /* of each function, by the set that it reads and whether it reads averages */
  uint32_t last;                /* set that the last part of a step read: the next one reads the other */
  int is_ahead;                 /* whether that has its elements */
  odtc_gpu_list *reads[ODTC_SETS]; /* what was run last on each set, perhaps of another length; NULL for nothing */
  int is_alone;                 /* there is no memory for a second set */
  float *losses;                /* of the parts of a step */
  odtc_gpu_times *times;        /* of the launches of a list */
  odtc_text described;          /* what its user was told of kernels */

  void (*waiting)(void *);      /* of the trainer's user */
  void *waiting_with;
};

/* Whether an argument is written before each step by its user. */
int odtc_is_fed(const odtc_program *program, size_t argument);

/* Allocates all buffers but the arena's, and gives them what memory holds. */
odtc_code odtc_fill_gpu(odtc_trainer *trainer);
/* Allocates the second set, unless it is there; whether it is there then. */
int odtc_need_second_set(odtc_trainer *trainer);
/* The buffer of an argument that a set is of. */
odtc_gpu_buffer *odtc_buffer_of(const struct odtc_on_gpu *gpu, const odtc_program *program, size_t argument, uint32_t set);
/* The buffer that a place lies in. */
odtc_gpu_buffer *odtc_buffer_at(const struct odtc_on_gpu *gpu, const odtc_program *program, const odtc_place *place,
                                uint32_t set, int averages);

/* The launches of a function, ready to run; NULL, and a problem, where that fails. */
odtc_gpu_list *odtc_list_of(odtc_trainer *trainer, const odtc_function *function, uint32_t set, int averages);
/* Frees all lists, after what runs. */
void odtc_free_lists(odtc_trainer *trainer);

/* Adds the times of a function's calls to a clock that is on. */
odtc_code odtc_note_list(odtc_trainer *trainer, const odtc_function *function, const odtc_gpu_list *list);

#endif
