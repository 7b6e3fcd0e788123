#include "raised.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* Tasks of a kernel may fail side by side: the first one is heard. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char raised[400];

void TVMFFIErrorSetRaisedFromCStrParts(const char *kind, const char **parts, int32_t count) {
  pthread_mutex_lock(&lock);
  if (!raised[0]) {
    size_t used = (size_t)snprintf(raised, sizeof raised, "%.40s: ", kind);
    for (int32_t n = 0; n < count; ++n) {
      if (!parts[n]) continue;
      snprintf(raised + used, sizeof raised - used, "%s", parts[n]);
      used += strlen(raised + used);
    }
  }
  pthread_mutex_unlock(&lock);
}

void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message) {
  TVMFFIErrorSetRaisedFromCStrParts(kind, &message, 1);
}

void odtc_take_raised(char *text, int room) {
  pthread_mutex_lock(&lock);
  snprintf(text, (size_t)room, "%s", raised);
  raised[0] = '\0';
  pthread_mutex_unlock(&lock);
}
