#include "stream.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/* Reads from the connection; 0 at its end. */
static int receive(odtc_stream *s, uint8_t *to, size_t bytes) {
  while (bytes && !s->ended) {
    ssize_t got = recv(s->file, to, bytes, 0);
    if (got > 0) {
      to += got, bytes -= (size_t)got;
    } else if (!got || errno != EINTR) {
      s->ended = 1;
    }
  }
  return !s->ended;
}

int odtc_stream_next(odtc_stream *s) {
  s->left = 0;
  while (!s->left)
    if (!receive(s, (uint8_t *)&s->left, sizeof s->left)) return 0;
  return 1;
}

void odtc_stream_read(odtc_stream *s, void *to, size_t bytes) {
  if (bytes > s->left) s->ended = 1;
  s->left -= s->ended ? 0 : bytes;
  if (!receive(s, to, bytes)) memset(to, 0, bytes);
}

void odtc_stream_skip(odtc_stream *s) {
  uint8_t passed[4096];
  while (s->left && !s->ended)
    odtc_stream_read(s, passed, s->left < sizeof passed ? (size_t)s->left : sizeof passed);
}

static void send_all(odtc_stream *s, const uint8_t *at, size_t bytes) {
  while (bytes && !s->ended) {
    ssize_t sent = send(s->file, at, bytes, MSG_NOSIGNAL);
    if (sent > 0) {
      at += sent, bytes -= (size_t)sent;
    } else if (errno != EINTR) {
      s->ended = 1;
    }
  }
}

void odtc_stream_flush(odtc_stream *s) {
  send_all(s, s->waiting, s->used);
  s->used = 0;
}

void odtc_stream_write(odtc_stream *s, const void *from, size_t bytes) {
  if (bytes > sizeof s->waiting - s->used) odtc_stream_flush(s);
  if (bytes > sizeof s->waiting) {
    send_all(s, from, bytes);
  } else if (bytes) {
    memcpy(s->waiting + s->used, from, bytes);
    s->used += bytes;
  }
}
