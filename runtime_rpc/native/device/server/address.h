/* Where a server listens, and where a tracker does: `tcp:PORT` of loopback, or `abstract:NAME` of Linux's
   own names. */
#ifndef ODTC_ADDRESS_H
#define ODTC_ADDRESS_H

#include <stdint.h>

/* A socket that listens, or begins to connect, and never blocks; -1 where that fails, as errno says.
   EINVAL: the text has another form. */
int odtc_listen(const char *address);
int odtc_connect(const char *address);
/* The port that a socket listens at; 0 if it is no socket of TCP. */
int odtc_port_of(int socket);
/* Whose a connection is: an address of TCP, or a user of this device. */
uint32_t odtc_owner_of(int socket);
/* Whether it is of this user, root, or the shell that adb's daemon runs as; of TCP that is unknown. On a phone
   every app can reach an abstract name. */
int odtc_is_trusted(int socket);

#endif
