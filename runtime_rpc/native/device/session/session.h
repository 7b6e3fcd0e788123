/* A session: one client of TVM's RPC protocol, version 0.8.0, in a process of its own.

   It calls functions of one table (functions.h). What it is given are handles, small numbers, and no
   pointers: whatever a client sends, it reads and writes its own memory alone. */
#ifndef ODTC_SESSION_H
#define ODTC_SESSION_H

#include <stdint.h>

#include "odtc.h"
#include "packed.h"
#include "pool.h"

typedef enum {
  ODTC_NOTHING,
  ODTC_A_FUNCTION,
  ODTC_MEMORY,
  ODTC_TRAINER,
  ODTC_RECORDER,
  ODTC_A_MODULE,
  ODTC_A_KERNEL,
  ODTC_A_TIMER
} odtc_kind;

/* What a handle stands for. */
typedef struct {
  odtc_kind kind;
  void *at; /* a function of the table, memory, a trainer, ... */
  uint64_t bytes; /* of memory */
} odtc_object;

typedef struct {
  odtc_stream stream;
  const char *about;  /* JSON: what the device is */
  odtc_object *objects; /* by handle - 1 */
  size_t room;
  odtc_pool *pool;    /* of kernels that the client calls itself; NULL until there is one */
  int is_begun;       /* the client's version was checked */
  char failure[768];  /* of the call that runs; empty if there is none */
} odtc_session;

/* Serves until the client goes. The current folder is the session's own. */
void odtc_serve(int connection, const char *about);

/* A new handle; 0 where there is no memory. */
int64_t odtc_keep(odtc_session *session, odtc_kind kind, void *at, uint64_t bytes);
/* What a handle stands for; NULL, and a failure, where it is none of that kind. */
odtc_object *odtc_object_of(odtc_session *session, int64_t handle, odtc_kind kind);

/* Lets the call that runs fail. */
void odtc_refuse(odtc_session *session, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Bytes of a tensor's elements; UINT64_MAX where there is no such number. */
uint64_t odtc_remote_bytes(const odtc_remote_tensor *tensor);
/* Where so many bytes of a tensor lie; NULL, and a failure, where its memory has not as many. */
uint8_t *odtc_remote_place(odtc_session *session, const odtc_remote_tensor *tensor, uint64_t bytes);
/* Reads from, or writes to, a tensor of the client's: so many bytes of the packet. */
void odtc_copy_to_device(odtc_session *session);
void odtc_copy_from_device(odtc_session *session);
/* A call of the system by its code; 0 if there is none of that code. */
int odtc_call_system(odtc_session *session, int32_t code, const odtc_values *values,
                     odtc_result *result);

#endif
