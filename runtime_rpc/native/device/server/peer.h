/* A peer: a connection until it asks for a session, or one that only asks questions.

   It begins with a number. TVM's own is followed by `client:KEY -timeout=SECONDS`, and asks for a session;
   odtc's is followed by questions, JSON objects of texts, one answer to each:
     {"ask": "status"}                        what the device is, and whether it is in use
     {"ask": "beat", "session": KEY}          a sign of life of the session's client; whether the
                                              session is alive, and why it is not
     {"ask": "stop"}                          ends the server
   A peer that is refused is told why: {"refused": WHY}. */
#ifndef ODTC_PEER_H
#define ODTC_PEER_H

#include "frames.h"

enum { ODTC_TVM_MAGIC = 0xff271, ODTC_GREETING = 0x6F647463, MOST_KEY = 256 };

typedef struct {
  odtc_frames frames;
  uint32_t owner;         /* an address of TCP, or a user of this device */
  int32_t magic;          /* 0 until it has come */
  double useful;          /* when it came, or its last question */
  double waiting;         /* since when answers wait; 0 if none do */
  double left;            /* when it was refused; 0 if it was not */
  size_t passed;          /* bytes that came after that */
  int is_shut;            /* nothing more is sent to it */
  char session[MOST_KEY]; /* that it gave a sign of life of */
} odtc_peer;

typedef enum { ODTC_PEER_STAYS, ODTC_PEER_GOES, ODTC_PEER_CALLS } odtc_turn;

/* What a question says; empty where it does not. */
typedef struct {
  char ask[32], session[MOST_KEY];
} odtc_question;

/* Takes a connection over; 0, and it is closed, where there is no memory for it. */
int odtc_peer_begin(odtc_peer *peer, int file, uint32_t owner);

/* Lets a peer have its turn. It calls for a session with a `key`, of so many `seconds` (0: without end);
   each question of it is given to `answer`, which puts its answer. */
odtc_turn odtc_peer_turn(odtc_peer *peer, void (*answer)(void *server, odtc_peer *, odtc_question *),
                         void *server, char *key, double *seconds);
/* Writes which of its limits has passed to `why`; 0 if none has. */
int odtc_peer_is_late(const odtc_peer *peer, double idle_seconds, char *why, size_t room);
/* Sends a last message, lets the peer read it, and passes over what it still sends: else the end of its
   connection might overtake that. */
void odtc_peer_leave(odtc_peer *peer);
/* The same with why it is refused. */
void odtc_peer_refuse(odtc_peer *peer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Closes the connection at once; the peer reads why if it can. */
void odtc_peer_close(odtc_peer *peer, const char *why);

/* Seconds of the monotonic clock. */
double odtc_seconds(void);

#endif
