#include "log.h"

#include <stdarg.h>
#include <stdio.h>

#include "bounds.h"
#include "peer.h"

static void say(const char *format, va_list list) {
  vfprintf(stderr, format, list);
  fputc('\n', stderr);
}

void odtc_say(const char *format, ...) {
  va_list list;
  va_start(list, format);
  say(format, list);
  va_end(list);
}

void odtc_say_of_peers(const char *format, ...) {
  static double began;
  static long long said;
  double now = odtc_seconds();
  if (!began || now - began >= 60) {
    if (said > LINES_A_MINUTE) odtc_say("%lld lines like these were left out", said - LINES_A_MINUTE);
    began = now, said = 0;
  }
  if (++said > LINES_A_MINUTE) return;
  va_list list;
  va_start(list, format);
  say(format, list);
  va_end(list);
}
