/* Caps of the frequencies that the governor may choose, where the system allows it.

   What files held before is written down in the session's folder, so that they get it back however the
   session ends. */
#ifndef ODTC_FREQUENCY_H
#define ODTC_FREQUENCY_H

#include "text.h"

/* Caps the frequency of all cores below a root, so many halves up the list of each. Puts why nothing could
   be changed; nothing if it was done. */
void odtc_cap_frequencies(const char *root, int halves, odtc_text *why);
/* Restores what a session has changed that has, or had, a folder. */
void odtc_uncap_frequencies(const char *folder);

#endif
