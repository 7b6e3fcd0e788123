/* Sets of kernels: a library may have those of several CPUs, of which one runs a trainer's steps. */
#ifndef ODTC_SETS_H
#define ODTC_SETS_H

#include "cores.h"
#include "program.h"

/* The most sets of a program. */
enum { ODTC_MOST_SETS = 8 };

/* What a program says of a set; NULL where it says nothing. Facts of the first set have plain names,
   those of others their number behind a dot, as their kernels have. */
const char *odtc_fact_of(const odtc_program *program, const char *name, int set);

int odtc_count_sets(const odtc_program *program);

/* Finds the set for the cores of some threads among those that this CPU can run: compiled for the same
   cores, else for cores of the same kind; of sets that are alike by that, the one that needs the most of
   a CPU. Fails where it can run none. */
odtc_code odtc_choose_set(const odtc_program *program, const odtc_core *cores, int count, int *set,
                          odtc_problem *problem);

#endif
