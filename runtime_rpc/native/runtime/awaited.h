/* A number that threads wait for: they look at it for a while, and then sleep. */
#ifndef ODTC_AWAITED_H
#define ODTC_AWAITED_H

#include <stdatomic.h>
#include <stdint.h>

typedef struct {
  _Alignas(64) _Atomic uint64_t value;
  atomic_int sleepers;
} odtc_awaited;

/* Waits until the value is 0, or until it is not. */
void odtc_await(odtc_awaited *awaited, int is_zero);

/* Wakes those who sleep; to be called when the value has come to be what they wait for. */
void odtc_awaken(odtc_awaited *awaited);

#endif
