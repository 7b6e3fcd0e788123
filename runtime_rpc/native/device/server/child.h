/* The process of a session, as the server sees it: its folder, its limits, and its end. */
#ifndef ODTC_CHILD_H
#define ODTC_CHILD_H

#include <sys/types.h>

#include "peer.h"

#define ODTC_SESSION_PREFIX "odtc-session-"

typedef struct {
  pid_t process;       /* 0 where no session runs */
  int connection;      /* to tell its client why it ended */
  char key[MOST_KEY];
  char folder[4096];
  char why[160];       /* it ended; empty as long as all is well */
  double began, beaten, left; /* beaten and left: 0 until there was a sign of life, until it has gone */
  double seconds, idle;       /* limits: in all, 0 without end; from one sign of life to the next */
} odtc_child;

/* Begins a session in a folder of its own below another; `leave` closes what is the server's, in the
   session's process. 0 where that fails, as errno says; the connection is closed then. */
int odtc_child_begin(odtc_child *child, int connection, const char *folders, const char *about,
                     void (*leave)(void *server), void *server);
/* Ends it if it has to end; whether it has ended, and is cleaned up. */
int odtc_child_ended(odtc_child *child);
/* Ends it at once. */
void odtc_child_kill(odtc_child *child);

/* Removes a folder with what is in it, as far as that is allowed; the same of a session, with the caps that it
   set; and what servers before this one left of their sessions in a folder, which may hold other things. */
void odtc_remove_tree(const char *path);
void odtc_remove_folder(const char *path);
void odtc_remove_sessions(const char *folders);

#endif
