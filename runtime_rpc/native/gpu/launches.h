/* The launches of a program's calls. TVM's host code of each kernel runs once, when a trainer is opened, and what it asks
   to be launched is noted: with static shapes it asks for the same each time. */
#ifndef ODTC_LAUNCHES_H
#define ODTC_LAUNCHES_H

#include "device_module.h"
#include "kernel_abi.h"
#include "library.h"

/* A launch, whose buffers are places of the program. */
typedef struct {
  uint32_t kernel;          /* of the device module */
  uint32_t places, numbers; /* where those of the launch begin */
  uint32_t groups[3], items[3];
} odtc_noted_launch;

typedef struct {
  odtc_noted_launch *launches;
  uint32_t *places;
  uint64_t *numbers;
  size_t count, room, place_count, place_room, number_count, number_room;
  uint32_t *first; /* of each call of the program, and the number of all behind the last one */
  odtc_gpu_use *uses; /* of all kernels' buffers, one kernel after the other */
} odtc_launches;

/* Lets the host code of a library call this runtime. */
odtc_code odtc_connect_host_code(const char *what, void *library, odtc_problem *problem);

/* Notes the launches of all calls, whose kernels are the library's host code. `odtc_launches_end` is called in any case. */
odtc_code odtc_note_launches(const odtc_program *program, const odtc_kernel *kernels, const odtc_device_module *module,
                             odtc_launches *noted, odtc_problem *problem);
/* Gives the module's kernels the uses of their buffers. */
odtc_code odtc_note_uses(const odtc_program *program, odtc_launches *noted, odtc_device_module *module,
                         odtc_problem *problem);
void odtc_launches_end(odtc_launches *noted);

#endif
