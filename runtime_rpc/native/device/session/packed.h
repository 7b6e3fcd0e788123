/* What a call is given and what it returns, as TVM 0.27's RPC protocol writes it: see
   src/runtime/rpc/minrpc/rpc_reference.h and rpc_local_session.cc there. All is little endian. */
#ifndef ODTC_PACKED_H
#define ODTC_PACKED_H

#include "stream.h"

/* Types of values, of tvm/ffi/c_api.h. */
enum {
  VALUE_NONE = 0,
  VALUE_NUMBER = 1,
  VALUE_BOOL = 2,
  VALUE_REAL = 3,
  VALUE_HANDLE = 4,
  VALUE_DTYPE = 5,
  VALUE_DEVICE = 6,
  VALUE_TENSOR = 7,
  VALUE_TEXT = 8,
  VALUE_BYTES = 9,
  VALUE_SMALL_TEXT = 11,
  VALUE_SMALL_BYTES = 12,
  VALUE_TEXT_OBJECT = 65,
  VALUE_BYTES_OBJECT = 66,
  VALUE_FUNCTION = 68,
  VALUE_MODULE = 73
};

enum { MOST_VALUES = 64, MOST_TENSOR_RANK = 16 };

/* A tensor of the client's, whose memory is one that it was given. */
typedef struct {
  uint64_t memory, offset; /* handle; bytes from its begin */
  int32_t device_type, device_id;
  int32_t rank;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t shape[MOST_TENSOR_RANK];
} odtc_remote_tensor;

typedef struct {
  int32_t type; /* a text's is VALUE_TEXT, and that of bytes VALUE_BYTES, whatever the client calls them */
  int64_t number; /* or handle */
  double real;
  char *bytes; /* with a zero after them */
  size_t count;
  odtc_remote_tensor tensor;
} odtc_value;

typedef struct {
  odtc_value values[MOST_VALUES];
  int32_t count;
} odtc_values;

/* Reads the values of a packet. Not 0 where there are too many, one is of another type, or there is no
   memory for it; `why` says that. */
int odtc_read_values(odtc_stream *stream, odtc_values *values, const char **why);
void odtc_free_values(odtc_values *values);
/* Reads a tensor without its type. */
void odtc_read_tensor(odtc_stream *stream, odtc_remote_tensor *tensor);

/* What a function returns. Bytes are the function's until the answer is written; then they are freed if
   `owned` is them. */
typedef struct {
  int32_t type;
  int64_t number;
  double real;
  const void *bytes;
  size_t count;
  void *owned;
} odtc_result;

/* Answers a call of a function, which returned this; answers a call of the system, whose value stands
   alone; and says why there is no answer. */
void odtc_write_result(odtc_stream *stream, const odtc_result *result);
void odtc_write_value(odtc_stream *stream, const odtc_result *value);
void odtc_write_failure(odtc_stream *stream, const char *why);

#endif
