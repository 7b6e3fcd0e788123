#define _GNU_SOURCE
#include "registration.h"

#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "address.h"
#include "bounds.h"
#include "json.h"
#include "log.h"
#include "text.h"

enum { TRACKER_MAGIC = 0x2f271, PUT = 3, UPDATE_INFO = 5, PENDING_KEYS = 7 };

/* A key that the tracker gave to a client that does not come, such as one that was killed, is replaced
   after this time. With the time between two questions it is less than the next client waits. */
static const double AGAIN_SECONDS = 1, ASK_SECONDS = 1, UNUSED_SECONDS = 3, SILENT_SECONDS = 10;

static void lose(odtc_registration *r, const char *why) {
  odtc_say_of_peers("the tracker at %s is lost: %s", r->tracker, why);
  odtc_frames_end(&r->frames);
  r->is_greeted = r->waiting = 0;
}

/* Sends a message, whose reply is one of keys or of no interest. */
static void ask(odtc_registration *r, odtc_text *text, int is_of_keys) {
  if (!r->waiting) r->heard = odtc_seconds(); /* it had nothing to send until now */
  int is_sent = !text->failed && r->waiting < MOST_REPLIES &&
                odtc_frames_put_message(&r->frames, text->at);
  odtc_text_end(text);
  if (is_sent) r->replies[r->waiting++] = is_of_keys;
  if (!is_sent) lose(r, "it takes no more");
}

static void put_offer(odtc_registration *r) {
  odtc_text text = {0};
  odtc_text_put(&text, "[%d, ", PUT);
  odtc_text_put_string(&text, r->key);
  odtc_text_put(&text, ", [%d, ", r->port);
  odtc_text_put_string(&text, r->match);
  odtc_text_put(&text, "], ");
  odtc_text_put_string(&text, r->host);
  odtc_text_put(&text, "]");
  ask(r, &text, 0);
}

void odtc_offer(odtc_registration *r) {
  uint64_t number = 0;
  /* It distinguishes clients, and protects nothing. */
  if (syscall(SYS_getrandom, &number, sizeof number, 0) < 0) number = (uint64_t)(odtc_seconds() * 1e9);
  r->former[0] = '\0';
  snprintf(r->match, sizeof r->match, "%.200s:%016llx", r->key, (unsigned long long)number);
  r->seen = odtc_seconds();
  if (r->is_greeted) put_offer(r);
}

int odtc_knows(const odtc_registration *r, const char *key) {
  return *key && (!strcmp(key, r->match) || !strcmp(key, r->former));
}

void odtc_withdraw(odtc_registration *r, const char *key) {
  int is_late = strcmp(key, r->match) != 0;
  r->match[0] = r->former[0] = '\0';
  /* The tracker has another key by now, and takes back what is offered when it is left. */
  if (is_late) lose(r, "a client has come late");
}

/* Says once that there is no tracker, until there is one. */
static void note_absent(odtc_registration *r) {
  if (!r->is_absent) odtc_say("no tracker answers at %s; it is asked each second", r->tracker);
  r->is_absent = 1;
}

static void begin(odtc_registration *r) {
  r->tried = r->heard = odtc_seconds();
  int file = odtc_connect(r->tracker);
  if (file < 0) note_absent(r);
  if (file < 0 || !odtc_frames_begin(&r->frames, file, MOST_TRACKER_MESSAGE, WAITING_BYTES)) return;
  r->is_greeted = r->waiting = 0;
  /* In progress, it waits until the connection is there. */
  if (!odtc_frames_put_number(&r->frames, TRACKER_MAGIC)) {
    note_absent(r);
    odtc_frames_end(&r->frames);
  }
}

static void introduce(odtc_registration *r) {
  odtc_text text = {0};
  char name[MOST_KEY];
  if (r->is_absent) odtc_say("the tracker at %s answers", r->tracker);
  r->is_greeted = 1, r->is_absent = 0;
  snprintf(name, sizeof name, "server:%.200s", r->key);
  odtc_text_put(&text, "[%d, {\"key\": ", UPDATE_INFO);
  odtc_text_put_string(&text, name);
  odtc_text_put(&text, ", \"addr\": [");
  odtc_text_put_string(&text, r->host);
  odtc_text_put(&text, ", %d]}]", r->port);
  ask(r, &text, 0);
  if (r->is_greeted && r->match[0]) odtc_offer(r);
}

/* Whether a list of keys has the one that is offered; -1 if it is no list of texts. */
static int has_match(const odtc_registration *r, char *text, size_t length) {
  static char strings[MOST_TRACKER_MESSAGE + 1];
  odtc_json json = {text, text + length, strings};
  int found = 0;
  odtc_json_expect(&json, '[');
  for (int n = 0; json.at && !odtc_json_is(&json, ']'); ++n) {
    if (n) odtc_json_expect(&json, ',');
    json.strings = strings;
    const char *key = odtc_json_string(&json);
    if (key && !strcmp(key, r->match)) found = 1;
  }
  return json.at ? found : -1;
}

static void note_keys(odtc_registration *r, char *text) {
  int found = has_match(r, text, strlen(text));
  double now = odtc_seconds();
  if (found < 0) {
    lose(r, "keys that are no list of texts");
  } else if (found) {
    r->seen = now;
  } else if (r->match[0] && now - r->seen > UNUSED_SECONDS) {
    char late[MOST_KEY];
    strcpy(late, r->match);
    odtc_say_of_peers("a client that was given this device does not come; others may");
    odtc_offer(r);
    strcpy(r->former, late); /* it may still come */
  }
}

static int take_greeting(odtc_registration *r) {
  int32_t magic;
  if (!odtc_frames_number(&r->frames, &magic)) return 0;
  r->heard = odtc_seconds();
  if (magic == TRACKER_MAGIC) introduce(r);
  if (magic != TRACKER_MAGIC) lose(r, "it is no tracker");
  return r->is_greeted;
}

void odtc_registration_turn(odtc_registration *r) {
  static char text[MOST_TRACKER_MESSAGE];
  if (!odtc_frames_flush(&r->frames) || !odtc_frames_receive(&r->frames)) {
    /* While there is none, this would be in the log every second. */
    if (r->is_greeted) lose(r, "it has gone");
    if (r->frames.file >= 0) note_absent(r);
    odtc_frames_end(&r->frames);
    return;
  }
  if (!r->is_greeted && !take_greeting(r)) return;
  int32_t length;
  for (int taken; r->frames.file >= 0 &&
                  (taken = odtc_frames_take(&r->frames, text, sizeof text, &length));) {
    if (taken < 0 || !r->waiting) {
      lose(r, "a message that nobody asked for, or a longer one than any is");
      return;
    }
    r->heard = odtc_seconds();
    int is_of_keys = r->replies[0];
    memmove(r->replies, r->replies + 1, (size_t)--r->waiting * sizeof *r->replies);
    if (is_of_keys) note_keys(r, text);
  }
}

void odtc_registration_tick(odtc_registration *r) {
  double now = odtc_seconds();
  if (r->frames.file < 0) {
    if (now - r->tried > AGAIN_SECONDS) begin(r);
  } else if ((r->waiting || !r->is_greeted) && now - r->heard > SILENT_SECONDS) {
    lose(r, "it does not answer");
  } else if (r->is_greeted && r->match[0] && !r->waiting && now - r->asked > ASK_SECONDS) {
    odtc_text text = {0};
    r->asked = now;
    odtc_text_put(&text, "[%d]", PENDING_KEYS);
    ask(r, &text, 1);
  }
}
