/* The connection of a session: whole reads within a packet, and answers that leave in one piece. */
#ifndef ODTC_STREAM_H
#define ODTC_STREAM_H

#include <stddef.h>
#include <stdint.h>

enum { ODTC_STREAM_BYTES = 16384 };

typedef struct {
  int file;
  int ended;     /* the client has gone, or sent what is no packet: nothing more is read or written */
  uint64_t left; /* bytes of the packet that is read */
  size_t used;   /* bytes that wait to be sent */
  uint8_t waiting[ODTC_STREAM_BYTES];
} odtc_stream;

/* Begins with the next packet; 0 where there is none. */
int odtc_stream_next(odtc_stream *stream);
/* Reads from the packet; where it has not as many bytes, zeros, and the stream has ended. */
void odtc_stream_read(odtc_stream *stream, void *to, size_t bytes);
/* Passes what is left of the packet. */
void odtc_stream_skip(odtc_stream *stream);
/* Writes; what is small waits until the stream is flushed: each part of an answer would be a packet of
   the network's own, and the second one would wait for the first to be acknowledged. */
void odtc_stream_write(odtc_stream *stream, const void *from, size_t bytes);
void odtc_stream_flush(odtc_stream *stream);

#endif
