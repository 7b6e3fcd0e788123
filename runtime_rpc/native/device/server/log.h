/* The server's log, on standard error. A disk that is full loses lines, and ends nothing. */
#ifndef ODTC_LOG_H
#define ODTC_LOG_H

void odtc_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* About peers, who may cause as many lines as they like: the most that a minute has are written. */
void odtc_say_of_peers(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
