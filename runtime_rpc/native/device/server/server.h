/* The server's one loop: it accepts, answers, looks after its session, and stays at its tracker. Nothing
   in it waits for anybody, so that a session can be forked at any time, and no peer can stop it. */
#ifndef ODTC_SERVER_H
#define ODTC_SERVER_H

#include "bounds.h"
#include "child.h"
#include "registration.h"

typedef struct {
  int listener, until_closed; /* -1: it serves until it is told to stop */
  const char *key, *folders;
  const char *about;  /* members of a JSON object */
  double idle;        /* seconds from one sign of life of a session's client to the next */
  odtc_registration registration;
  odtc_peer peers[PEERS];
  int count, most;        /* as many as there are files for */
  double no_files;        /* until when nobody is accepted: there is no file for one more */
  odtc_child child;
  char ended[MOST_KEY], why[160]; /* the last session, and what it ended of */
  long long sessions;
  int stopping;
} odtc_server;

/* Serves until it is asked to stop. */
void odtc_server_run(odtc_server *server);

#endif
