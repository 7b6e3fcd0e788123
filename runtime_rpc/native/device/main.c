/* odtc-device: serves this device's CPU to a computer, until it is asked to stop. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "address.h"
#include "server.h"
#include "text.h"

static const char USAGE[] =
    "odtc-device --listen ADDRESS --tracker ADDRESS --key KEY --folder FOLDER\n"
    "            [--port PORT] [--idle SECONDS] [--files HASH] [--emulated] [--until-closed]\n"
    "\n"
    "Serves this device's CPU at a tracker of TVM's, one session after the other.\n"
    "\n"
    "  --listen ADDRESS   tcp:PORT of loopback (0: any), or abstract:NAME\n"
    "  --tracker ADDRESS  the same, of the tracker\n"
    "  --key KEY          device key\n"
    "  --folder FOLDER    where each session has a folder of its own\n"
    "  --port PORT        on the tracker's host (default: as of --listen)\n"
    "  --idle SECONDS     between signs of life of a session's client (default: 30)\n"
    "  --files HASH       told to clients, of what was brought to the device\n"
    "  --emulated         the device is emulated, and its times mean nothing\n"
    "  --until-closed     end when standard input is closed\n";

typedef struct {
  const char *listen, *tracker, *key, *folder, *port, *idle, *files;
  int emulated, until_closed;
} options;

static _Noreturn void fail(const char *what, const char *why) {
  fprintf(stderr, "odtc-device: %s: %s\n", what, why);
  exit(2);
}

static options read_options(int count, char **words) {
  options o = {.port = "0", .idle = "30", .files = ""};
  const struct {
    const char *name;
    const char **value;
    int *flag;
  } known[] = {
      {"--listen", &o.listen, NULL},     {"--tracker", &o.tracker, NULL},
      {"--key", &o.key, NULL},           {"--folder", &o.folder, NULL},
      {"--port", &o.port, NULL},         {"--idle", &o.idle, NULL},
      {"--files", &o.files, NULL},       {"--emulated", NULL, &o.emulated},
      {"--until-closed", NULL, &o.until_closed},
  };
  enum { KNOWN = sizeof known / sizeof *known, NEEDED = 4 };
  for (int n = 1; n < count; ++n) {
    size_t k = 0;
    if (!strcmp(words[n], "--help")) {
      fputs(USAGE, stdout);
      exit(0);
    }
    while (k < KNOWN && strcmp(words[n], known[k].name)) ++k;
    if (k == KNOWN) fail(words[n], "is not an option; --help lists them");
    if (known[k].flag) *known[k].flag = 1;
    if (known[k].value && ++n == count) fail(known[k].name, "wants a value");
    if (known[k].value) *known[k].value = words[n];
  }
  for (size_t k = 0; k < NEEDED; ++k)
    if (!*known[k].value) fail(known[k].name, "is missing; --help says what it is");
  return o;
}

static void put_member(odtc_text *text, const char *name, const char *value) {
  odtc_text_put(text, "\"%s\": ", name);
  odtc_text_put_string(text, value);
  odtc_text_put(text, ", ");
}

/* What the device is: members of a JSON object. */
static char *describe(const options *o) {
  static const uint16_t ONE = 1;
  struct utsname system;
  char abi[40];
  odtc_text text = {0};
  uname(&system);
  snprintf(abi, sizeof abi, "%zu-bit %s-endian", 8 * sizeof(void *),
           *(const uint8_t *)&ONE ? "little" : "big");
  put_member(&text, "odtc", ODTC_VERSION);
  put_member(&text, "sources", ODTC_SOURCES);
  put_member(&text, "server", "native");
  put_member(&text, "abi", abi);
  put_member(&text, "machine", system.machine);
  put_member(&text, "files", o->files);
  odtc_text_put(&text, "\"emulated\": %s, \"cpus\": %ld", o->emulated ? "true" : "false",
                sysconf(_SC_NPROCESSORS_CONF));
  if (text.failed) fail("start", "there is no memory");
  return text.at;
}

static double number_of(const char *name, const char *text, double most) {
  char *end;
  double value = strtod(text, &end);
  if (end == text || *end || !(value >= 0 && value <= most)) fail(name, "is not a number in its range");
  return value;
}

/* Locks a folder. A server that was killed, or a session of it, may need a moment to end, and has the
   lock until then: threads and a driver's memory go first. */
static int lock(int folder, const char *path) {
  static const double ENDING_SECONDS = 5;
  static const struct timespec PAUSE = {0, 10 * 1000000l};
  for (double until = odtc_seconds() + ENDING_SECONDS; flock(folder, LOCK_EX | LOCK_NB);) {
    if (errno != EWOULDBLOCK && errno != EINTR) fail(path, strerror(errno));
    if (odtc_seconds() > until) return 0;
    nanosleep(&PAUSE, NULL);
  }
  return 1;
}

/* Makes a folder this server's own until it ends, and removes what one that was killed has left there. */
static void take_folder(const char *path) {
  int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) fail(path, strerror(errno));
  if (!lock(folder, path)) fail(path, "another server has its sessions there");
  if (access(path, W_OK | X_OK)) fail(path, strerror(errno));
  odtc_remove_sessions(path);
}

int main(int count, char **words) {
  static odtc_server server;
  options o = read_options(count, words);
  signal(SIGPIPE, SIG_IGN);
  server.listener = odtc_listen(o.listen);
  if (server.listener < 0)
    fail(o.listen, errno == EINVAL ? "is not tcp:PORT or abstract:NAME" : strerror(errno));
  int is_made = !mkdir(o.folder, 0700);
  take_folder(o.folder);
  server.until_closed = o.until_closed ? STDIN_FILENO : -1;
  server.key = o.key, server.about = describe(&o);
  server.idle = number_of("--idle", o.idle, 1e9);
  server.folders = realpath(o.folder, NULL);
  int port = (int)number_of("--port", o.port, 65535);
  server.registration = (odtc_registration){
      .tracker = o.tracker, .key = o.key, .host = "127.0.0.1",
      .port = port ? port : odtc_port_of(server.listener), .frames.file = -1};
  printf("{%s, \"pid\": %d}\n", server.about, (int)getpid());
  fflush(stdout);
  odtc_server_run(&server);
  odtc_remove_sessions(server.folders);
  if (is_made) rmdir(server.folders);
  return 0;
}
