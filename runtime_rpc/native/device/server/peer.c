#define _GNU_SOURCE
#include "peer.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "bounds.h"
#include "clock.h"
#include "json.h"
#include "log.h"
#include "text.h"

double odtc_seconds(void) { return (double)odtc_now() / 1e9; }

int odtc_peer_begin(odtc_peer *p, int file, uint32_t owner) {
  int size = WAITING_BYTES; /* of the system's own buffer, too */
  setsockopt(file, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
  *p = (odtc_peer){.useful = odtc_seconds(), .owner = owner};
  return odtc_frames_begin(&p->frames, file, QUESTION_BYTES + sizeof(int32_t), WAITING_BYTES);
}

/* Reads a question: an object of texts, and nothing within each other. */
static int read_question(char *text, odtc_question *question) {
  char strings[QUESTION_BYTES + 1];
  odtc_json json = {text, text + strlen(text), strings};
  *question = (odtc_question){"", ""};
  odtc_json_expect(&json, '{');
  for (int n = 0; json.at && !odtc_json_is(&json, '}'); ++n) {
    if (n) odtc_json_expect(&json, ',');
    const char *name = odtc_json_string(&json);
    odtc_json_expect(&json, ':');
    const char *value = odtc_json_string(&json);
    if (!name || !value) return 0;
    if (!strcmp(name, "ask")) snprintf(question->ask, sizeof question->ask, "%s", value);
    if (!strcmp(name, "session"))
      snprintf(question->session, sizeof question->session, "%s", value);
  }
  return json.at && json.at == json.end;
}

/* Reads what a client of TVM's asks for. */
static int read_call(odtc_peer *p, char *text, char *key, double *seconds) {
  static const char CLIENT[] = "client:", TIMEOUT[] = "-timeout=";
  char *rest = NULL, *name = strtok_r(text, " ", &rest), *word;
  *seconds = 0;
  if (!name || strncmp(name, CLIENT, sizeof CLIENT - 1) ||
      strlen(name) - (sizeof CLIENT - 1) >= MOST_KEY) {
    odtc_peer_refuse(p, "no client");
    return 0;
  }
  strcpy(key, name + sizeof CLIENT - 1);
  while ((word = strtok_r(NULL, " ", &rest))) {
    if (strncmp(word, TIMEOUT, sizeof TIMEOUT - 1)) continue;
    *seconds = strtod(word + sizeof TIMEOUT - 1, NULL);
    if (isfinite(*seconds) && *seconds >= 0) continue;
    odtc_peer_refuse(p, "a session of %.20s s", word + sizeof TIMEOUT - 1);
    return 0;
  }
  return 1;
}

static int put_refusal(odtc_peer *p, const char *why) {
  odtc_text text = {0};
  odtc_text_put(&text, "{\"refused\": ");
  odtc_text_put_string(&text, why);
  odtc_text_put(&text, "}");
  int is_put = !text.failed && odtc_frames_put_message(&p->frames, text.at);
  odtc_text_end(&text);
  return is_put;
}

void odtc_peer_leave(odtc_peer *p) {
  p->left = odtc_seconds();
  p->frames.in_used = 0;
}

void odtc_peer_refuse(odtc_peer *p, const char *format, ...) {
  char why[160];
  va_list list;
  va_start(list, format);
  vsnprintf(why, sizeof why, format, list);
  va_end(list);
  odtc_say_of_peers("a connection was refused: %s", why);
  put_refusal(p, why);
  odtc_peer_leave(p);
}

void odtc_peer_close(odtc_peer *p, const char *why) {
  if (!p->left) odtc_say_of_peers("a connection ended: %s", why);
  if (!p->left && !p->frames.out_used) put_refusal(p, why);
  odtc_frames_end(&p->frames);
}

static odtc_turn see_off(odtc_peer *p) {
  if (!odtc_frames_flush(&p->frames)) return ODTC_PEER_GOES;
  if (p->frames.out_used) return ODTC_PEER_STAYS;
  if (!p->is_shut) shutdown(p->frames.file, SHUT_WR);
  p->is_shut = 1;
  int is_there = odtc_frames_receive(&p->frames);
  p->passed += p->frames.in_used;
  p->frames.in_used = 0;
  return is_there && p->passed <= LEAVING_BYTES ? ODTC_PEER_STAYS : ODTC_PEER_GOES;
}

static odtc_turn take_all(odtc_peer *p, void (*answer)(void *, odtc_peer *, odtc_question *),
                          void *server, char *key, double *seconds) {
  char text[QUESTION_BYTES + 1];
  odtc_question question;
  int32_t length;
  while (!p->left && !p->frames.out_used) {
    int taken = odtc_frames_take(&p->frames, text, sizeof text, &length);
    if (!taken) break;
    if (taken < 0) {
      odtc_peer_refuse(p, "a message of %d bytes, where %d are the most", (int)length,
                       QUESTION_BYTES);
    } else if (p->magic == ODTC_TVM_MAGIC) {
      if (read_call(p, text, key, seconds)) return ODTC_PEER_CALLS;
    } else if (!read_question(text, &question)) {
      odtc_peer_refuse(p, "a question that is no object of texts");
    } else {
      p->useful = odtc_seconds();
      answer(server, p, &question);
    }
  }
  return p->left ? see_off(p) : ODTC_PEER_STAYS;
}

odtc_turn odtc_peer_turn(odtc_peer *p, void (*answer)(void *, odtc_peer *, odtc_question *),
                         void *server, char *key, double *seconds) {
  if (p->left) return see_off(p);
  if (!odtc_frames_flush(&p->frames)) return ODTC_PEER_GOES;
  if (p->frames.out_used) return ODTC_PEER_STAYS; /* it is to read its answers first */
  p->waiting = 0;
  if (!odtc_frames_receive(&p->frames)) return ODTC_PEER_GOES;
  if (!p->magic && !odtc_frames_number(&p->frames, &p->magic)) return ODTC_PEER_STAYS;
  if (p->magic != ODTC_TVM_MAGIC && p->magic != ODTC_GREETING) {
    odtc_peer_refuse(p, "another protocol");
    return see_off(p);
  }
  odtc_turn turn = take_all(p, answer, server, key, seconds);
  if (p->frames.out_used && !p->waiting) p->waiting = odtc_seconds();
  return turn;
}

int odtc_peer_is_late(const odtc_peer *p, double idle_seconds, char *why, size_t room) {
  double now = odtc_seconds(), since = now - p->useful, idle = IDLE_FACTOR * idle_seconds;
  int is_greeted = p->magic == ODTC_GREETING;
  if (p->left) {
    if (now - p->left <= LEAVING_SECONDS) return 0;
    return snprintf(why, room, "it was refused");
  }
  if (p->waiting && now - p->waiting > WAITING_SECONDS)
    return snprintf(why, room, "its answers were not read for %g s", WAITING_SECONDS);
  if (!is_greeted && since > GREETING_SECONDS)
    return snprintf(why, room, "no greeting came within %g s", GREETING_SECONDS);
  if (is_greeted && since > idle)
    return snprintf(why, room, "no whole question came for %g s", idle);
  return 0;
}
