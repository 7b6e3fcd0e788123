/* What a kernel says before it fails: those that TVM compiles check their arguments, and say it by functions
   of TVM's names, which this program therefore exports. */
#ifndef ODTC_RAISED_H
#define ODTC_RAISED_H

#include <stdint.h>

/* tvm/ffi/c_api.h has them; parts are one message. Libraries that are loaded find them. */
#pragma GCC visibility push(default)
void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *message);
void TVMFFIErrorSetRaisedFromCStrParts(const char *kind, const char **parts, int32_t count);
#pragma GCC visibility pop

/* Copies what was said since the last call to `text`, which is empty if it was nothing. */
void odtc_take_raised(char *text, int room);

#endif
