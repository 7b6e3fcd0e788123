/* Files of a pattern such as sys/class/thermal/thermal_zone*\/temp. */
#ifndef ODTC_MATCHING_H
#define ODTC_MATCHING_H

enum { MOST_PATH = 512 };

/* Calls `found` with each path below a root that a pattern may be of, in the order of its numbers; whether
   there is a file is not looked at, except where a part of the pattern has a star. Where a folder cannot
   be listed, `why` is errno, else 0. */
void odtc_match(const char *root, const char *pattern,
                void (*found)(void *with, const char *path, int why), void *with);

#endif
