/* The cores that this process may use. */
#ifndef ODTC_CORE_SPEEDS_H
#define ODTC_CORE_SPEEDS_H

#include "text.h"

enum { MOST_CORES = 1024 };

/* JSON: the highest frequency of each core, in kHz, by its number; 0 where it is unknown. */
void odtc_put_core_speeds(odtc_text *text);

/* Lets the calling thread run on one core, or on all that the process had as it began; not 0 where that is
   not allowed. */
int odtc_use_core(int core);
int odtc_use_all_cores(void);

#endif
