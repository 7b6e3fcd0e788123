/* The functions that a client may call, by their names. */
#ifndef ODTC_FUNCTIONS_H
#define ODTC_FUNCTIONS_H

#include "session.h"
#include "text.h"

/* `takes` says what a function is given, a letter for each: i integer, f real, s text, b bytes, h handle,
   d device, t type of elements, T tensor; * stands for any others. A function is called with that. */
typedef struct {
  const char *name, *takes;
  void (*call)(odtc_session *session, const odtc_value *arguments, odtc_result *result);
} odtc_named_function;

/* Each file of functions has a table of them, which ends with a name of NULL. */
extern const odtc_named_function ODTC_DEVICE_FUNCTIONS[], ODTC_FILE_FUNCTIONS[],
    ODTC_PROGRAM_FUNCTIONS[];

/* NULL if there is none of that name. */
const odtc_named_function *odtc_find_function(const char *name);
void odtc_call_function(odtc_session *session, const odtc_named_function *function,
                        const odtc_values *values, odtc_result *result);

/* Whether values are of such types; a failure if they are not. */
int odtc_are_of(odtc_session *session, const odtc_values *values, const char *takes);

/* Whether a name is one of a file in the session's folder, and leads nowhere else; a failure if not. */
int odtc_is_own_file(odtc_session *session, const char *name);

/* Returns a text, or fails where there was no memory for all of it. */
void odtc_give_text(odtc_session *session, odtc_text *text, odtc_result *result);

/* Lets go of what a handle stands for. */
void odtc_release(odtc_object *object);

#endif
