#include "frames.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int odtc_frames_begin(odtc_frames *f, int file, size_t in_room, size_t out_room) {
  *f = (odtc_frames){.file = file, .in_room = in_room, .out_room = out_room};
  f->in = malloc(in_room);
  f->out = malloc(out_room);
  if (f->in && f->out) return 1;
  odtc_frames_end(f);
  return 0;
}

void odtc_frames_leave(odtc_frames *f) {
  free(f->in);
  free(f->out);
  *f = (odtc_frames){.file = -1};
}

void odtc_frames_end(odtc_frames *f) {
  if (f->file >= 0) close(f->file);
  odtc_frames_leave(f);
}

static int would_block(void) { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

int odtc_frames_receive(odtc_frames *f) {
  if (f->in_used == f->in_room) return 1;
  ssize_t got = recv(f->file, f->in + f->in_used, f->in_room - f->in_used, 0);
  if (got > 0) f->in_used += (size_t)got;
  return got > 0 || (got < 0 && would_block());
}

int odtc_frames_flush(odtc_frames *f) {
  while (f->out_used) {
    ssize_t sent = send(f->file, f->out, f->out_used, MSG_NOSIGNAL);
    if (sent < 0) return would_block();
    f->out_used -= (size_t)sent;
    memmove(f->out, f->out + sent, f->out_used);
  }
  return 1;
}

static void pass(odtc_frames *f, size_t bytes) {
  f->in_used -= bytes;
  memmove(f->in, f->in + bytes, f->in_used);
}

int odtc_frames_number(odtc_frames *f, int32_t *number) {
  if (f->in_used < sizeof *number) return 0;
  memcpy(number, f->in, sizeof *number);
  pass(f, sizeof *number);
  return 1;
}

int odtc_frames_take(odtc_frames *f, char *to, size_t room, int32_t *length) {
  if (f->in_used < sizeof *length) return 0;
  memcpy(length, f->in, sizeof *length);
  size_t bytes = (size_t)*length;
  if (*length < 0 || bytes >= room || bytes + sizeof *length > f->in_room) return -1;
  if (f->in_used < sizeof *length + bytes) return 0;
  memcpy(to, f->in + sizeof *length, bytes);
  to[bytes] = '\0';
  pass(f, sizeof *length + bytes);
  return 1;
}

static int append(odtc_frames *f, const void *bytes, size_t count) {
  if (count > f->out_room - f->out_used) return 0;
  memcpy(f->out + f->out_used, bytes, count);
  f->out_used += count;
  return 1;
}

int odtc_frames_put_number(odtc_frames *f, int32_t number) {
  return append(f, &number, sizeof number) && odtc_frames_flush(f);
}

/* The length and the text leave together: else the text would wait for the length to be acknowledged. */
int odtc_frames_put_message(odtc_frames *f, const char *text) {
  size_t length = strlen(text);
  int32_t number = (int32_t)length;
  if (length + sizeof number > f->out_room - f->out_used) return 0;
  return append(f, &number, sizeof number) && append(f, text, length) && odtc_frames_flush(f);
}
