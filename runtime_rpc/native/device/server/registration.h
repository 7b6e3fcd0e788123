/* The server's registration at a tracker of TVM's, renewed whenever the tracker returns. */
#ifndef ODTC_REGISTRATION_H
#define ODTC_REGISTRATION_H

#include "frames.h"
#include "peer.h"

enum { MOST_TRACKER_MESSAGE = 1 << 16, MOST_REPLIES = 8 };

typedef struct {
  const char *tracker, *key; /* its address; of the device */
  const char *host;          /* at which clients reach the server, and the port there */
  int port;
  odtc_frames frames;
  /* What the next client has to show, and what one that was given the device and has not come yet has;
     empty where there is none. */
  char match[MOST_KEY], former[MOST_KEY];
  int is_greeted, is_absent, replies[MOST_REPLIES], waiting; /* whether each reply that waits is one of keys */
  double tried, asked, heard, seen;
} odtc_registration;

/* Offers the device under a new key and no other. */
void odtc_offer(odtc_registration *registration);
/* Whether a client with this key was given the device. */
int odtc_knows(const odtc_registration *registration, const char *key);
/* Notes that a client with this key has come. */
void odtc_withdraw(odtc_registration *registration, const char *key);
/* What is due from time to time: connects, asks, gives up. */
void odtc_registration_tick(odtc_registration *registration);
/* Takes what the tracker has sent. */
void odtc_registration_turn(odtc_registration *registration);

#endif
