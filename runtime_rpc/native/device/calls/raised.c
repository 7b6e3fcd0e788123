#include "raised.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* Tasks of a kernel may fail side by side: the first one is heard. */
static atomic_flag heard = ATOMIC_FLAG_INIT;
static char raised[400];

void TVMFFIErrorSetRaisedFromCStrParts(const char *kind, const char **parts, int32_t count) {
  if (atomic_flag_test_and_set(&heard)) return;
  size_t used = (size_t)snprintf(raised, sizeof raised, "%.40s: ", kind);
  for (int32_t n = 0; n < count; ++n) {
    if (!parts[n]) continue;
    snprintf(raised + used, sizeof raised - used, "%s", parts[n]);
    used += strlen(raised + used);
  }
}

void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message) {
  TVMFFIErrorSetRaisedFromCStrParts(kind, &message, 1);
}

/* All tasks have ended by then. */
void odtc_take_raised(char *text, int room) {
  snprintf(text, (size_t)room, "%s", raised);
  raised[0] = '\0';
  atomic_flag_clear(&heard);
}
