#define _GNU_SOURCE
#include "child.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "frequency.h"
#include "log.h"
#include "session.h"

/* The session of a client that has gone has this long to finish what it computes. */
static const double GRACE_SECONDS = 3;

static void remove_all(int folder) {
  DIR *list = fdopendir(folder);
  if (!list) {
    close(folder);
    return;
  }
  for (struct dirent *each; (each = readdir(list));) {
    if (!strcmp(each->d_name, ".") || !strcmp(each->d_name, "..")) continue;
    int inner = openat(folder, each->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (inner >= 0) remove_all(inner);
    unlinkat(folder, each->d_name, inner >= 0 ? AT_REMOVEDIR : 0);
  }
  closedir(list);
}

void odtc_remove_sessions(const char *folders) {
  char path[4600];
  DIR *list = opendir(folders);
  for (struct dirent *each; list && (each = readdir(list));) {
    if (strncmp(each->d_name, ODTC_SESSION_PREFIX, sizeof ODTC_SESSION_PREFIX - 1)) continue;
    snprintf(path, sizeof path, "%s/%s", folders, each->d_name);
    odtc_remove_folder(path);
  }
  if (list) closedir(list);
}

void odtc_remove_folder(const char *path) {
  odtc_uncap_frequencies(path); /* of a session that could not do so */
  odtc_remove_tree(path);
}

void odtc_remove_tree(const char *path) {
  int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (folder >= 0) remove_all(folder);
  rmdir(path);
}

/* The session's process: it ends with the server, as the next one would not know of it. */
static _Noreturn void run(int connection, const char *folder, const char *about, pid_t server) {
  sigset_t none;
  setpgid(0, 0);
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != server || chdir(folder)) _exit(1);
  fcntl(connection, F_SETFL, fcntl(connection, F_GETFL) & ~O_NONBLOCK);
  odtc_serve(connection, about);
  _exit(0);
}

static int not_begun(odtc_child *c, int connection) {
  int why = errno;
  c->process = 0;
  close(connection);
  errno = why;
  return 0;
}

int odtc_child_begin(odtc_child *c, int connection, const char *folders, const char *about,
                     void (*leave)(void *server), void *server) {
  pid_t own = getpid();
  snprintf(c->folder, sizeof c->folder, "%s/" ODTC_SESSION_PREFIX "XXXXXX", folders);
  if (!mkdtemp(c->folder)) return not_begun(c, connection);
  c->process = fork();
  if (!c->process) {
    leave(server);
    run(connection, c->folder, about, own);
  }
  if (c->process < 0) {
    int why = errno;
    odtc_remove_folder(c->folder);
    errno = why;
    return not_begun(c, connection);
  }
  setpgid(c->process, c->process);
  c->connection = connection, c->why[0] = '\0';
  c->began = odtc_seconds(), c->beaten = c->left = 0;
  return 1;
}

/* Whether the client has closed the connection, even if there is more to read. */
static int is_closed(int connection) {
  struct pollfd ask = {.fd = connection, .events = POLLRDHUP};
  return poll(&ask, 1, 0) > 0;
}

/* Fails the client's call, or its next one, with the reason; the first one counts. */
static void tell(odtc_child *c, const char *why) {
  enum { EXCEPTION = 5, TEXT = 8 };
  if (c->why[0]) return;
  snprintf(c->why, sizeof c->why, "the session ended: %s", why);
  odtc_say("%s", c->why);
  uint64_t length = strlen(c->why);
  struct __attribute__((packed)) {
    uint64_t bytes;
    int32_t code, count, type;
    uint64_t length;
    char text[sizeof c->why];
  } packet = {sizeof(int32_t) * 3 + sizeof length + length, EXCEPTION, 1, TEXT, length, ""};
  memcpy(packet.text, c->why, length);
  /* A client that reads nothing may not stop the server. */
  if (!is_closed(c->connection))
    send(c->connection, &packet, sizeof packet.bytes + packet.bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
  shutdown(c->connection, SHUT_RDWR);
}

static void finish(odtc_child *c, const char *format, ...) {
  char why[120];
  va_list list;
  va_start(list, format);
  vsnprintf(why, sizeof why, format, list);
  va_end(list);
  kill(-c->process, SIGKILL);
  kill(c->process, SIGKILL);
  tell(c, why);
}

static void check_limits(odtc_child *c) {
  double now = odtc_seconds();
  if (c->why[0]) return;
  if (c->seconds > 0 && now - c->began > c->seconds) {
    finish(c, "it has expired after %g s (RPCSessionTimeoutError)", c->seconds);
  } else if (c->beaten > 0 && now - c->beaten > c->idle) {
    finish(c, "its client gave no sign of life for %g s", c->idle);
  } else if (is_closed(c->connection)) {
    if (!c->left) c->left = now;
    if (now - c->left > GRACE_SECONDS) finish(c, "its client has gone");
  }
}

static const char *name_of(int number) {
  static const struct {
    int number;
    const char *name;
  } NAMES[] = {{SIGILL, "SIGILL"},   {SIGBUS, "SIGBUS"},   {SIGSEGV, "SIGSEGV"},
               {SIGFPE, "SIGFPE"},   {SIGABRT, "SIGABRT"}, {SIGKILL, "SIGKILL"},
               {SIGTERM, "SIGTERM"}, {SIGINT, "SIGINT"},   {SIGSYS, "SIGSYS"}};
  for (size_t n = 0; n < sizeof NAMES / sizeof *NAMES; ++n)
    if (NAMES[n].number == number) return NAMES[n].name;
  return "a signal";
}

static void tell_status(odtc_child *c, int status) {
  char why[80] = "";
  if (WIFSIGNALED(status))
    snprintf(why, sizeof why, "its process was ended by %s", name_of(WTERMSIG(status)));
  else if (WEXITSTATUS(status))
    snprintf(why, sizeof why, "its process ended with status %d", WEXITSTATUS(status));
  if (why[0]) tell(c, why);
}

static void clean(odtc_child *c) {
  kill(-c->process, SIGKILL); /* processes that it started */
  close(c->connection);
  odtc_remove_folder(c->folder);
  c->process = 0;
}

int odtc_child_ended(odtc_child *c) {
  int status;
  pid_t found = waitpid(c->process, &status, WNOHANG | WUNTRACED);
  if (!found) {
    check_limits(c);
    return 0;
  }
  if (found > 0 && WIFSTOPPED(status)) {
    finish(c, "its process was stopped");
    return 0;
  }
  if (found > 0) tell_status(c, status);
  clean(c);
  return 1;
}

void odtc_child_kill(odtc_child *c) {
  kill(-c->process, SIGKILL);
  kill(c->process, SIGKILL);
  waitpid(c->process, NULL, 0);
  clean(c);
}
