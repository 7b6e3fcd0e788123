/* The functions that a client may call, by their names. */
#ifndef ODTC_FUNCTIONS_H
#define ODTC_FUNCTIONS_H

#include "session.h"
#include "text.h"

/* `takes` says what a function is given, a letter for each: i integer, f real, s text, b bytes, h handle,
   d device, t type of elements, T tensor, m module; * stands for any others. A function is called with that. */
typedef struct {
  const char *name, *takes;
  void (*call)(odtc_session *session, const odtc_value *arguments, odtc_result *result);
} odtc_named_function;

/* Each file of functions has a table of them, which ends with a name of NULL. */
extern const odtc_named_function ODTC_DEVICE_FUNCTIONS[], ODTC_FILE_FUNCTIONS[],
    ODTC_PROGRAM_FUNCTIONS[], ODTC_KERNEL_FUNCTIONS[], ODTC_THREAD_FUNCTIONS[],
    ODTC_WEIGHTS_FUNCTIONS[];

/* NULL if there is none of that name. */
const odtc_named_function *odtc_find_function(const char *name);
/* Calls what a handle stands for: such a function, a kernel, or what takes the time of one. */
void odtc_call_handle(odtc_session *session, int64_t handle, const odtc_values *values,
                      odtc_result *result);

/* Whether values are of such types; a failure if they are not. */
int odtc_are_of(odtc_session *session, const odtc_values *values, const char *takes);

/* Whether a name is one of a file in the session's folder, and leads nowhere else; a failure if not. */
int odtc_is_own_file(odtc_session *session, const char *name);
/* Whether a folder is this user's, and nobody else may write there. */
int odtc_is_own_folder(const char *path);

/* Reads the numbers of cores of a text such as 4,5; returns how many, or 0 and a failure. */
int odtc_read_cores(odtc_session *session, const char *text, int cores[ODTC_MOST_THREADS]);

/* Returns a text, or fails where there was no memory for all of it. */
void odtc_give_text(odtc_session *session, odtc_text *text, odtc_result *result);

/* Lets go of what a handle stands for. */
void odtc_release(odtc_object *object);

#endif
