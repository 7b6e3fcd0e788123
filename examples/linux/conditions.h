/* Whether a computer is to train now, by what Linux says of it. */
#ifndef CONDITIONS_H
#define CONDITIONS_H

/* The reason to leave training for later; NULL if there is none. `sys` is /sys, or a folder like it. */
const char *reason_to_wait(const char *sys);

#endif
