/* The connection of a session: whole reads and writes, within the packet that is read or written. */
#ifndef ODTC_STREAM_H
#define ODTC_STREAM_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
  int file;
  int ended;     /* the client has gone, or sent what is no packet: nothing more is read or written */
  uint64_t left; /* bytes of the packet that is read */
} odtc_stream;

/* Begins with the next packet; 0 where there is none. */
int odtc_stream_next(odtc_stream *stream);
/* Reads from the packet; where it has not as many bytes, zeros, and the stream has ended. */
void odtc_stream_read(odtc_stream *stream, void *to, size_t bytes);
/* Passes what is left of the packet. */
void odtc_stream_skip(odtc_stream *stream);
void odtc_stream_write(odtc_stream *stream, const void *from, size_t bytes);

#endif
