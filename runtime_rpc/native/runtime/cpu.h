/* What a CPU has to have for kernels: without an instruction of theirs they end the process. */
#ifndef ODTC_CPU_H
#define ODTC_CPU_H

#include "problem.h"

/* Checks features, by LLVM's names with a space between any two. */
odtc_code odtc_check_cpu(const char *features, odtc_problem *problem);

#endif
