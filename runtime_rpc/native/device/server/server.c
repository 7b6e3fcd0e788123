#define _GNU_SOURCE
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "address.h"
#include "log.h"
#include "text.h"

enum { TICK_MS = 250 };

static void drop(odtc_server *s, int number, const char *why) {
  odtc_peer_close(s->peers + number, why);
  s->peers[number] = s->peers[--s->count];
}

static int has_session(const odtc_server *s, const odtc_peer *p) {
  return s->child.process && p->session[0] && !strcmp(p->session, s->child.key);
}

/* The peer that was of no use for longest, of an owner if there is one; that of the session that runs
   stays. -1 if there is none. */
static int least_useful(const odtc_server *s, const uint32_t *owner) {
  int found = -1;
  for (int n = 0; n < s->count; ++n) {
    const odtc_peer *p = s->peers + n;
    if (has_session(s, p) || (owner && p->owner != *owner)) continue;
    if (found < 0 || p->useful < s->peers[found].useful) found = n;
  }
  return found;
}

static int count_of(const odtc_server *s, uint32_t owner) {
  int count = 0;
  for (int n = 0; n < s->count; ++n) count += s->peers[n].owner == owner;
  return count;
}

/* Makes room for one more of an owner. */
static void make_room(odtc_server *s, uint32_t owner) {
  char why[80];
  int is_of_one = count_of(s, owner) >= PEERS_OF_ONE;
  if (!is_of_one && s->count < s->most) return;
  snprintf(why, sizeof why, "%d connections%s are the most", is_of_one ? PEERS_OF_ONE : s->most,
           is_of_one ? " of one peer" : "");
  int goes = least_useful(s, is_of_one ? &owner : NULL);
  if (goes >= 0) drop(s, goes, why);
}

static int is_waiting(int listener) {
  struct pollfd ask = {.fd = listener, .events = POLLIN};
  return poll(&ask, 1, 0) > 0;
}

/* Frees a file for the next connection; 0 where there is none to be had. */
static int free_file(odtc_server *s) {
  int goes = least_useful(s, NULL);
  if (goes >= 0) drop(s, goes, "no file is left for one more connection");
  if (goes < 0) s->no_files = odtc_seconds() + NO_FILES_SECONDS;
  return goes >= 0;
}

static void take_in(odtc_server *s, int file) {
  uint32_t owner = odtc_owner_of(file);
  if (!odtc_is_trusted(file)) {
    odtc_say_of_peers("user %u of this device was refused", (unsigned)owner);
    close(file);
    return;
  }
  make_room(s, owner);
  if (s->count == s->most)
    close(file);
  else if (odtc_peer_begin(s->peers + s->count, file, owner))
    ++s->count;
}

static void accept_peers(odtc_server *s) {
  for (int n = 0; n < ACCEPTED_AT_ONCE; ++n) {
    int file = accept4(s->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (file >= 0) {
      take_in(s, file);
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      /* The system looks for a free file first, and only then whether a peer waits. */
      if (!is_waiting(s->listener) || !free_file(s)) return;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return;
    } /* else the peer has left before it was accepted */
  }
}

/* Raises the limit of open files as far as that is allowed; the number of peers that fit. */
static int most_peers(void) {
  struct rlimit limit;
  rlim_t wanted = PEERS + SPARE_FILES;
  if (getrlimit(RLIMIT_NOFILE, &limit)) return 1;
  if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < wanted) wanted = limit.rlim_max;
  if (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < wanted) {
    struct rlimit more = {wanted, limit.rlim_max};
    if (!setrlimit(RLIMIT_NOFILE, &more)) limit = more;
  }
  if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= PEERS + SPARE_FILES) return PEERS;
  return limit.rlim_cur > SPARE_FILES ? (int)(limit.rlim_cur - SPARE_FILES) : 1;
}

static void put_beat(odtc_server *s, odtc_peer *p, const odtc_question *question, odtc_text *text) {
  int is_alive = s->child.process && !strcmp(s->child.key, question->session);
  const char *why = is_alive                                ? s->child.why
                    : !strcmp(s->ended, question->session) ? s->why
                                                           : "";
  snprintf(p->session, sizeof p->session, "%s", question->session);
  if (is_alive) s->child.beaten = odtc_seconds();
  odtc_text_put(text, "{\"alive\": %s, \"why\": ", is_alive ? "true" : "false");
  odtc_text_put_string(text, why);
  odtc_text_put(text, "}");
}

static void answer(void *server, odtc_peer *p, odtc_question *question) {
  odtc_server *s = server;
  odtc_text text = {0};
  if (!strcmp(question->ask, "beat")) {
    put_beat(s, p, question, &text);
  } else if (!strcmp(question->ask, "stop")) {
    s->stopping = 1;
    odtc_text_put(&text, "{\"stopping\": true}");
  } else {
    odtc_text_put(&text, "{%s, \"busy\": %s, \"sessions\": %lld, \"server_pid\": %d, \"time\": %lld}",
                  s->about, s->child.process ? "true" : "false", s->sessions, (int)getpid(),
                  (long long)time(NULL));
  }
  if (text.failed || !odtc_frames_put_message(&p->frames, text.at)) odtc_peer_leave(p);
  odtc_text_end(&text);
}

/* In the session's process, where nothing of the server may stay open. */
static void leave(void *server) {
  odtc_server *s = server;
  close(s->listener);
  odtc_frames_end(&s->registration.frames);
  for (int n = 0; n < s->count; ++n) odtc_frames_end(&s->peers[n].frames);
}

/* Begins a session, if the client has the right key and no other session runs. */
static void begin_session(odtc_server *s, int number, const char *key, double seconds) {
  odtc_peer *p = s->peers + number;
  if (s->child.process || !odtc_knows(&s->registration, key)) {
    odtc_say_of_peers("a client with another key was refused");
    odtc_frames_put_number(&p->frames, ODTC_TVM_MAGIC + 2);
    odtc_peer_leave(p);
    return;
  }
  char name[MOST_KEY];
  snprintf(name, sizeof name, "server:%.200s", s->key);
  /* The first bytes of a connection always fit in its buffer. */
  odtc_frames_put_number(&p->frames, ODTC_TVM_MAGIC);
  odtc_frames_put_message(&p->frames, name);
  odtc_withdraw(&s->registration, key);
  int connection = p->frames.file;
  odtc_frames_leave(&p->frames);
  s->peers[number] = s->peers[--s->count];
  ++s->sessions;
  snprintf(s->child.key, sizeof s->child.key, "%s", key);
  s->child.seconds = seconds, s->child.idle = s->idle;
  if (odtc_child_begin(&s->child, connection, s->folders, s->about, leave, s)) return;
  snprintf(s->ended, sizeof s->ended, "%s", key);
  snprintf(s->why, sizeof s->why, "no session can begin in %.60s: %s", s->folders, strerror(errno));
  odtc_say("%s", s->why);
  odtc_offer(&s->registration);
}

static void take_turn(odtc_server *s, int number) {
  char key[MOST_KEY];
  double seconds;
  switch (odtc_peer_turn(s->peers + number, answer, s, key, &seconds)) {
    case ODTC_PEER_STAYS: break;
    case ODTC_PEER_GOES: drop(s, number, "it has gone"); break;
    case ODTC_PEER_CALLS: begin_session(s, number, key, seconds); break;
  }
}

static void look_after_child(odtc_server *s) {
  if (!s->child.process || !odtc_child_ended(&s->child)) return;
  snprintf(s->ended, sizeof s->ended, "%s", s->child.key);
  snprintf(s->why, sizeof s->why, "%s", s->child.why);
  odtc_offer(&s->registration);
}

/* Nothing is read from whoever does not take what waits for it. */
static short wants(const odtc_frames *f) { return f->out_used ? POLLOUT : POLLIN; }

/* SIGTERM is the one signal that ends the server; SIGCHLD only wakes it. */
static int wake_on_signals(void) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGCHLD);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigprocmask(SIG_BLOCK, &signals, NULL);
  return signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
}

static int is_told_to_stop(int signals) {
  struct signalfd_siginfo came;
  while (read(signals, &came, sizeof came) == sizeof came)
    if (came.ssi_signo != SIGCHLD) return 1;
  return 0;
}

/* Whether a file has ended that ends the server. */
static int is_over(int file, const struct pollfd *asked) {
  char passed[256];
  if (!(asked->revents & (POLLIN | POLLHUP | POLLERR))) return 0;
  return read(file, passed, sizeof passed) <= 0;
}

static void send_late_away(odtc_server *s) {
  char why[80];
  for (int n = s->count - 1; n >= 0; --n)
    if (odtc_peer_is_late(s->peers + n, s->idle, why, sizeof why)) drop(s, n, why);
}

/* Waits for files, at most for a tick. Where the limit of open files has fallen below their number, the
   system asks for one at a time. */
static void wait_for(struct pollfd *asked, nfds_t count) {
  if (poll(asked, count, TICK_MS) >= 0) return;
  struct timespec tick = {0, TICK_MS * 1000000l};
  if (errno != EINTR) nanosleep(&tick, NULL);
  for (nfds_t n = 0; n < count; ++n) {
    asked[n].revents = 0;
    poll(asked + n, 1, 0);
  }
}

/* Waits until there is something to do, at most for a tick, and does it; 0 if the server is to stop. */
static int turn(odtc_server *s, int signals) {
  enum { SIGNALS, UNTIL, TRACKER, LISTENER, FIRST };
  struct pollfd asked[FIRST + PEERS];
  int has_files = odtc_seconds() >= s->no_files;
  asked[SIGNALS] = (struct pollfd){signals, POLLIN, 0};
  asked[UNTIL] = (struct pollfd){s->until_closed, POLLIN, 0};
  asked[TRACKER] =
      (struct pollfd){s->registration.frames.file, wants(&s->registration.frames), 0};
  asked[LISTENER] = (struct pollfd){has_files ? s->listener : -1, POLLIN, 0};
  for (int n = 0; n < s->count; ++n)
    asked[FIRST + n] = (struct pollfd){s->peers[n].frames.file, wants(&s->peers[n].frames), 0};
  int count = s->count;
  wait_for(asked, (nfds_t)(FIRST + count));
  if (asked[SIGNALS].revents && is_told_to_stop(signals)) return 0;
  if (s->until_closed >= 0 && is_over(s->until_closed, asked + UNTIL)) {
    odtc_say("standard input was closed");
    return 0;
  }
  look_after_child(s);
  if (asked[TRACKER].revents && s->registration.frames.file >= 0)
    odtc_registration_turn(&s->registration);
  /* From the last one on: one that goes leaves its place to a later one, which had its turn. */
  for (int n = count - 1; n >= 0; --n)
    if (asked[FIRST + n].revents) take_turn(s, n);
  send_late_away(s);
  if (asked[LISTENER].revents) accept_peers(s);
  return !s->stopping;
}

void odtc_server_run(odtc_server *s) {
  int signals = wake_on_signals();
  s->most = most_peers();
  odtc_offer(&s->registration);
  do {
    odtc_registration_tick(&s->registration);
  } while (turn(s, signals));
  if (s->child.process) odtc_child_kill(&s->child);
  leave(s);
}
