/* Trainers of a session, and steps that they take. */
#ifndef ODTC_STEPS_H
#define ODTC_STEPS_H

#include "odtc.h"
#include "session.h"

/* What a handle stands for; NULL, and a failure, where it is no trainer. */
odtc_trainer *odtc_trainer_of(odtc_session *session, const odtc_value *handle);
/* Whether a call of the runtime succeeded; a failure with its code and message, if not. */
int odtc_is_well(odtc_session *session, const odtc_trainer *trainer, odtc_code code);

/* Takes steps: one for each learning rate, a float32, with what each is fed, one after the other in the
   order of the tensors. The number of steps before them is the client's count, which holds.
   Returns how many were taken and a code, uint32 each; the loss of each, float64; and what the code says,
   if it is not 0. A step whose numbers are not finite was taken. On a GPU what a step is fed is sent while the step
   before it runs. */
void odtc_take_steps(odtc_session *session, const odtc_value *values, odtc_result *result);

/* The same of steps each of which is taken at a length: an int64 for each comes before what they are fed, of which each has
   as much as its length takes. The trainer stays at the length of the last one that was begun. */
void odtc_take_steps_at_lengths(odtc_session *session, const odtc_value *values, odtc_result *result);

/* The same of steps that go on from features: the numbers of the tensors that each is fed, int32, come before that. */
void odtc_take_steps_over_features(odtc_session *session, const odtc_value *values, odtc_result *result);

#endif
