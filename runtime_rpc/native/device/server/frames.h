/* A connection of the server's loop: messages with their length in front, an int32, and nothing that
   blocks. */
#ifndef ODTC_FRAMES_H
#define ODTC_FRAMES_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
  int file; /* -1 where there is no connection */
  char *in, *out;
  size_t in_used, in_room, out_used, out_room;
} odtc_frames;

/* Takes a connection over; 0, and it is closed, where there is no memory for it. */
int odtc_frames_begin(odtc_frames *frames, int file, size_t in_room, size_t out_room);
/* Closes it. */
void odtc_frames_end(odtc_frames *frames);
/* The same, and leaves the connection open. */
void odtc_frames_leave(odtc_frames *frames);

/* Reads what has come, or sends what waits; 0 where the other side has gone. */
int odtc_frames_receive(odtc_frames *frames);
int odtc_frames_flush(odtc_frames *frames);

/* Takes a number; 0 if it is not all there. */
int odtc_frames_number(odtc_frames *frames, int32_t *number);
/* Takes a message, with a zero after it: the most bytes of it are one less than there is room.
   0 if it is not all there, -1 if its length is more, or negative; that is told. */
int odtc_frames_take(odtc_frames *frames, char *to, size_t room, int32_t *length);

/* Sends, or lets wait; 0 where there is no room for it, or the other side has gone. */
int odtc_frames_put_number(odtc_frames *frames, int32_t number);
int odtc_frames_put_message(odtc_frames *frames, const char *text);

#endif
