/* What peers may take of the server; docs/security.md has the same table. A peer is dropped at its limit,
   with the reason if it can still read one. Where there is no room for one more, the peer goes that was
   of no use for longest: so newcomers always get in, and the client of the session that runs stays. */
#ifndef ODTC_BOUNDS_H
#define ODTC_BOUNDS_H

enum {
  QUESTION_BYTES = 1024, /* or a header of TVM's: both are far shorter */
  PEERS = 1024,          /* of all, and of one: an address of TCP, or a user of this device */
  PEERS_OF_ONE = 768,
  BACKLOG = 1024, /* connections that may wait to be accepted, and that are accepted in a turn */
  ACCEPTED_AT_ONCE = 64,
  WAITING_BYTES = 16384, /* answers that a peer does not read */
  LEAVING_BYTES = 1 << 20, /* what a refused peer may still send */
  LINES_A_MINUTE = 30,     /* of the log about peers */
  SPARE_FILES = 64         /* for all else: sessions, the tracker, the log */
};

/* From a connection to its greeting; that answers may wait; that a refused peer may take to read why; from
   one question to the next, as a multiple of a session's; of a pause where no file is left. */
#define GREETING_SECONDS 10.0
#define WAITING_SECONDS 5.0
#define LEAVING_SECONDS 1.0
#define IDLE_FACTOR 2.0
#define NO_FILES_SECONDS 0.5

#endif
