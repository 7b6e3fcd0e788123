/* Bytes of memory that this process can still take. */
#ifndef ODTC_FREE_MEMORY_H
#define ODTC_FREE_MEMORY_H

#include <stdint.h>

/* The least of what the machine has left, and what control groups and `ulimit -v` leave; -1 where the
   system says nothing of its memory. */
int64_t odtc_available_bytes(void);

#endif
