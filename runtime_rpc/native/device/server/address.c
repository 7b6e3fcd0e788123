#define _GNU_SOURCE
#include "address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "bounds.h"

typedef union {
  struct sockaddr any;
  struct sockaddr_in tcp;
  struct sockaddr_un local;
} place;

/* Reads an address; its length, or 0. */
static socklen_t read_place(const char *address, place *to) {
  memset(to, 0, sizeof *to);
  if (!strncmp(address, "tcp:", 4)) {
    char *end;
    long port = strtol(address + 4, &end, 10);
    if (end == address + 4 || *end || port < 0 || port > 65535) return 0;
    to->tcp = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to->tcp.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return sizeof to->tcp;
  }
  const char *name = address + 9;
  if (strncmp(address, "abstract:", 9) || !*name || strlen(name) > sizeof to->local.sun_path - 1)
    return 0;
  to->local.sun_family = AF_UNIX;
  memcpy(to->local.sun_path + 1, name, strlen(name));
  return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
}

/* A socket for an address, or -1. */
static int open_socket(const char *address, place *to, socklen_t *length) {
  *length = read_place(address, to);
  if (*length) return socket(to->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  errno = EINVAL;
  return -1;
}

static int closed(int file) {
  int why = errno;
  close(file);
  errno = why;
  return -1;
}

int odtc_listen(const char *address) {
  place at;
  socklen_t length;
  int one = 1, file = open_socket(address, &at, &length);
  if (file < 0) return -1;
  setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  return bind(file, &at.any, length) || listen(file, BACKLOG) ? closed(file) : file;
}

int odtc_connect(const char *address) {
  place to;
  socklen_t length;
  int file = open_socket(address, &to, &length);
  if (file < 0) return -1;
  /* Over TCP it may be in progress: the next send shows whether it succeeded. */
  return connect(file, &to.any, length) && errno != EINPROGRESS ? closed(file) : file;
}

int odtc_port_of(int file) {
  place at;
  socklen_t length = sizeof at;
  if (getsockname(file, &at.any, &length) || at.any.sa_family != AF_INET) return 0;
  return ntohs(at.tcp.sin_port);
}

/* The user of another process of this device; -1 where the system does not say. */
static int64_t user_of(int file) {
  struct ucred user;
  socklen_t length = sizeof user;
  return getsockopt(file, SOL_SOCKET, SO_PEERCRED, &user, &length) ? -1 : (int64_t)user.uid;
}

static int is_tcp(int file, place *from) {
  socklen_t length = sizeof *from;
  return !getpeername(file, &from->any, &length) && from->any.sa_family == AF_INET;
}

uint32_t odtc_owner_of(int file) {
  place from;
  return is_tcp(file, &from) ? from.tcp.sin_addr.s_addr : (uint32_t)user_of(file);
}

int odtc_is_trusted(int file) {
  enum { ROOT = 0, SHELL = 2000 };
  place from;
  if (is_tcp(file, &from)) return 1;
  int64_t user = user_of(file);
  return user == ROOT || user == SHELL || user == (int64_t)getuid();
}
