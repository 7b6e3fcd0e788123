#include "session.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "functions.h"

/* Codes of messages. */
enum { SHUTDOWN = 1, INIT = 2, CALL = 3, COPY_FROM = 6, COPY_TO = 7 };
static const char PROTOCOL[] = "0.8.0";

enum { MOST_OBJECTS = 1 << 16 };

int64_t odtc_keep(odtc_session *s, odtc_kind kind, void *at, uint64_t bytes) {
  size_t n = 0;
  while (n < s->room && s->objects[n].kind != ODTC_NOTHING) ++n;
  if (n == s->room) {
    size_t room = s->room ? 2 * s->room : 32;
    odtc_object *more =
        room > MOST_OBJECTS ? NULL : realloc(s->objects, room * sizeof *s->objects);
    if (!more) return odtc_refuse(s, "there is no room for one more handle"), 0;
    memset(more + s->room, 0, (room - s->room) * sizeof *more);
    s->objects = more, s->room = room;
  }
  s->objects[n] = (odtc_object){kind, at, bytes};
  return (int64_t)n + 1;
}

odtc_object *odtc_object_of(odtc_session *s, int64_t handle, odtc_kind kind) {
  if (handle > 0 && (uint64_t)handle <= s->room && s->objects[handle - 1].kind == kind)
    return s->objects + handle - 1;
  odtc_refuse(s, "%lld is not a handle of that kind", (long long)handle);
  return NULL;
}

void odtc_refuse(odtc_session *s, const char *format, ...) {
  va_list list;
  va_start(list, format);
  vsnprintf(s->failure, sizeof s->failure, format, list);
  va_end(list);
  odtc_make_utf8(s->failure); /* names of a client's files are in it, whole or cut */
}

/* The first message: the client's version, and no other kind of session. */
static void begin(odtc_session *s) {
  char version[sizeof PROTOCOL] = "";
  uint64_t length;
  odtc_values values;
  const char *why;
  if (s->is_begun) {
    odtc_refuse(s, "the session has begun already");
    return;
  }
  odtc_stream_read(&s->stream, &length, sizeof length);
  if (length == sizeof version - 1) {
    odtc_stream_read(&s->stream, version, sizeof version - 1);
    if (!odtc_read_values(&s->stream, &values, &why) && values.count)
      odtc_refuse(s, "this server begins no sessions with other devices");
    odtc_free_values(&values);
  }
  if (strcmp(version, PROTOCOL))
    odtc_refuse(s, "this server speaks version %s of TVM's RPC protocol, and the client another",
                PROTOCOL);
  s->is_begun = !s->failure[0];
  if (s->is_begun) odtc_write_value(&s->stream, &(odtc_result){VALUE_NONE});
}

/* Calls, of a function by its handle or of the system by a code. */
static void call(odtc_session *s, int32_t code) {
  odtc_values values;
  odtc_result result = {VALUE_NONE};
  const char *why;
  int64_t handle = 0;
  if (code == CALL) odtc_stream_read(&s->stream, &handle, sizeof handle);
  if (odtc_read_values(&s->stream, &values, &why)) {
    odtc_refuse(s, "%s", why);
  } else if (s->stream.ended) {
    /* Nobody waits for an answer. */
  } else if (code == CALL) {
    odtc_call_handle(s, handle, &values, &result);
  } else if (!odtc_call_system(s, code, &values, &result)) {
    odtc_refuse(s, "this server has no call of code %d", (int)code);
  }
  odtc_free_values(&values);
  if (!s->failure[0]) {
    if (code == CALL) odtc_write_result(&s->stream, &result);
    if (code != CALL) odtc_write_value(&s->stream, &result);
  }
  free(result.owned);
}

/* Takes one message; 0 at the end of the session. */
static int take_message(odtc_session *s) {
  int32_t code;
  odtc_stream_read(&s->stream, &code, sizeof code);
  s->failure[0] = '\0';
  if (s->stream.ended || code == SHUTDOWN) return 0;
  if (code == INIT) {
    begin(s);
  } else if (!s->is_begun) {
    odtc_refuse(s, "a session begins with the version of its client");
  } else if (code == COPY_TO) {
    odtc_copy_to_device(s);
  } else if (code == COPY_FROM) {
    odtc_copy_from_device(s);
  } else {
    call(s, code);
  }
  odtc_stream_skip(&s->stream);
  if (s->failure[0]) odtc_write_failure(&s->stream, s->failure);
  odtc_stream_flush(&s->stream);
  return !s->stream.ended;
}

void odtc_serve(int connection, const char *about) {
  odtc_session session = {.stream.file = connection, .about = about};
  int at_once = 1;
  setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once); /* or it is no TCP */
  while (odtc_stream_next(&session.stream) && take_message(&session)) continue;
  for (size_t n = 0; n < session.room; ++n) odtc_release(session.objects + n);
  odtc_pool_end(session.pool);
  free(session.objects);
}
