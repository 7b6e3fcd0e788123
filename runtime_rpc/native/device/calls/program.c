/* Trainers of a session: what odtc.h does, for a client. A failure of the runtime is told with its code:
   `odtc 8: the step needs ...`. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core_speeds.h"
#include "functions.h"
#include "log.h"
#include "odtc_gpu.h"
#include "text.h"
#include "steps.h"
#include "trainer.h"

odtc_trainer *odtc_trainer_of(odtc_session *s, const odtc_value *v) {
  odtc_object *object = odtc_object_of(s, v->number, ODTC_TRAINER);
  return object ? object->at : NULL;
}

int odtc_is_well(odtc_session *s, const odtc_trainer *t, odtc_code code) {
  if (code) odtc_refuse(s, "odtc %d: %s", (int)code, odtc_message(t));
  return !code;
}

/* Makes a folder and those around it; where that fails, what needs it says so. */
static void make_folders(char *path) {
  for (char *at = path + 1; *at; ++at) {
    if (*at != '/') continue;
    *at = '\0';
    mkdir(path, 0700);
    *at = '/';
  }
  mkdir(path, 0700);
}

/* Beside the folders of sessions, and not of one that ends with it. */
static const char COMPILED[] = "../gpu-programs";

/* Of the session's folder: program, weights and library. Storage and weights beside may be elsewhere; empty for
   the session's folder. */
static void open_program(odtc_session *s, const odtc_value *v, odtc_result *result) {
  for (int n = 0; n < 3; ++n)
    if (!odtc_is_own_file(s, v[n].bytes)) return;
  /* A path without a slash is a name that the system's loader would look for elsewhere. */
  char library[300] = "./";
  if (v[2].count > 255) {
    odtc_refuse(s, "the name of the library is too long");
    return;
  }
  strcat(library, v[2].bytes);
  if (v[3].count) make_folders(v[3].bytes);
  mkdir(COMPILED, 0700);
  int is_own = odtc_is_own_folder(COMPILED); /* drivers run what they find there */
  odtc_options options = {.program = v[0].bytes,
                          .weights = v[1].bytes,
                          .library = library,
                          .storage = v[3].count ? v[3].bytes : ".",
                          .threads = 1,
                          .offload_state = (size_t)v[4].number,
                          .gpu_cache = is_own ? COMPILED : NULL,
                          .beside = v[5].count ? v[5].bytes : NULL};
  odtc_trainer *t;
  odtc_code code = odtc_open(&options, &t);
  int is_on_gpu = t && odtc_gpu_name(t);
  if (!is_on_gpu) rmdir(COMPILED); /* which stays where something is in it */
  if (is_on_gpu && !is_own)
    odtc_say("what the GPU's driver compiles is not kept: gpu-programs, next to the folders of sessions, is not a "
             "folder that only this user may write to; remove it, or give another --folder");
  if (!t) odtc_refuse(s, "odtc %d: there is no memory for a trainer", (int)ODTC_NO_MEMORY);
  if (t && odtc_is_well(s, t, code))
    *result = (odtc_result){.type = VALUE_NUMBER, .number = odtc_keep(s, ODTC_TRAINER, t, 0)};
  if (s->failure[0]) odtc_close(t);
}

static void close_program(odtc_session *s, const odtc_value *v, odtc_result *result) {
  (void)result;
  odtc_object *object = odtc_object_of(s, v->number, ODTC_TRAINER);
  if (object) odtc_release(object);
}

/* JSON: role, name, code and bits of an element, and shape of each tensor. */
static void tensors(odtc_session *s, const odtc_value *v, odtc_result *result) {
  odtc_trainer *t = odtc_trainer_of(s, v);
  odtc_text text = {0};
  const odtc_tensor *tensor;
  if (!t) return;
  for (size_t n = 0; (tensor = odtc_tensor_at(t, n)); ++n) {
    odtc_text_put(&text, "%s[%d, ", n ? ", " : "[", (int)tensor->role);
    odtc_text_put_string(&text, tensor->name);
    odtc_text_put(&text, ", %d, %d, [", tensor->code, tensor->bits);
    for (int d = 0; d < tensor->rank; ++d)
      odtc_text_put(&text, "%s%lld", d ? ", " : "", (long long)tensor->shape[d]);
    odtc_text_put(&text, "]]");
  }
  odtc_text_put(&text, "]");
  odtc_give_text(s, &text, result);
}

static void state(odtc_session *s, const odtc_value *v, odtc_result *result) {
  odtc_trainer *t = odtc_trainer_of(s, v);
  odtc_text text = {0};
  if (!t) return;
  odtc_text_put(&text, "{\"arena\": %llu, \"held\": %llu, \"steps\": %lld}",
                (unsigned long long)odtc_arena_bytes(t), (unsigned long long)odtc_held_bytes(t),
                (long long)odtc_steps(t));
  odtc_give_text(s, &text, result);
}

/* A thread of the trainer's for each core; see threads.c. */
static void use_cores(odtc_session *s, const odtc_value *v, odtc_result *result) {
  (void)result;
  int cores[ODTC_MOST_THREADS];
  odtc_trainer *t = odtc_trainer_of(s, v);
  int count = t ? odtc_read_cores(s, v[1].bytes, cores) : 0;
  if (!count) return;
  /* Threads are born where the one is that starts them. */
  odtc_use_all_cores();
  if (!odtc_is_well(s, t, odtc_set_cores(t, cores, count))) return;
  if (v[2].number && odtc_use_core(cores[0]))
    odtc_refuse(s, "no thread may run on core %d", cores[0]);
}

/* A tensor and so many of its bytes; NULL, and a failure, where it has not as many. */
static uint8_t *bytes_at(odtc_session *s, odtc_trainer *t, const odtc_value *number, uint64_t from,
                         uint64_t count) {
  const odtc_tensor *tensor = number->number < 0 ? NULL : odtc_tensor_at(t, (size_t)number->number);
  if (tensor && from <= tensor->bytes && count <= tensor->bytes - from)
    return (uint8_t *)tensor->data + from;
  odtc_refuse(s, "%llu bytes from %llu on are not in tensor %lld", (unsigned long long)count,
              (unsigned long long)from, (long long)number->number);
  return NULL;
}

static void write_tensor(odtc_session *s, const odtc_value *v, odtc_result *result) {
  (void)result;
  odtc_trainer *t = odtc_trainer_of(s, v);
  uint8_t *to = t ? bytes_at(s, t, v + 1, (uint64_t)v[2].number, v[3].count) : NULL;
  if (!to) return;
  /* On a GPU memory is a mirror, of which the rest is fetched first. */
  size_t number = (size_t)v[1].number;
  if (v[3].count < odtc_tensor_at(t, number)->bytes && !odtc_is_well(s, t, odtc_fetch(t, number))) return;
  memcpy(to, v[3].bytes, v[3].count);
  odtc_is_well(s, t, odtc_send(t, number));
}

static void read_tensor(odtc_session *s, const odtc_value *v, odtc_result *result) {
  odtc_trainer *t = odtc_trainer_of(s, v);
  const uint8_t *from =
      t ? bytes_at(s, t, v + 1, (uint64_t)v[2].number, (uint64_t)v[3].number) : NULL;
  if (from && odtc_is_well(s, t, odtc_fetch(t, (size_t)v[1].number)))
    *result = (odtc_result){.type = VALUE_BYTES, .bytes = from, .count = (size_t)v[3].number};
}

static void set_steps(odtc_session *s, const odtc_value *v, odtc_result *result) {
  (void)result;
  odtc_trainer *t = odtc_trainer_of(s, v);
  if (t) odtc_is_well(s, t, odtc_set_steps(t, v[1].number));
}

static void set_budget(odtc_session *s, const odtc_value *v, odtc_result *result) {
  (void)result;
  odtc_trainer *t = odtc_trainer_of(s, v);
  if (t) odtc_is_well(s, t, odtc_set_budget(t, (uint64_t)v[1].number));
}

/* At which length tensors are from now on, and evaluations. */
static void set_length(odtc_session *s, const odtc_value *v, odtc_result *result) {
  (void)result;
  odtc_trainer *t = odtc_trainer_of(s, v);
  if (t) odtc_is_well(s, t, odtc_set_length(t, (uint64_t)v[1].number));
}

/* What a micro-batch is fed of one input or feature, for `evaluate`. */
static void write_part(odtc_session *s, const odtc_value *v, odtc_result *result) {
  (void)result;
  odtc_trainer *t = odtc_trainer_of(s, v);
  const odtc_tensor *tensor =
      t && v[1].number >= 0 ? odtc_tensor_at(t, (size_t)v[1].number) : NULL;
  if (!t) return;
  if (!tensor || (tensor->role != ODTC_INPUT && tensor->role != ODTC_FEATURES) ||
      odtc_part_bytes(&t->program, (size_t)v[1].number) != v[2].count) {
    odtc_refuse(s, "%zu bytes are not a micro-batch of tensor %lld", v[2].count,
                (long long)v[1].number);
    return;
  }
  memcpy(odtc_part_at(t, (size_t)v[1].number), v[2].bytes, v[2].count);
}

static void evaluate(odtc_session *s, const odtc_value *v, odtc_result *result) {
  odtc_trainer *t = odtc_trainer_of(s, v);
  odtc_tensor found;
  if (t && odtc_is_well(s, t, odtc_evaluate_part(t, v[1].bytes, v[2].number != 0, &found)))
    *result = (odtc_result){.type = VALUE_BYTES, .bytes = found.data, .count = found.bytes};
}

/* Of the first samples of what was written to the inputs. */
static void evaluate_samples(odtc_session *s, const odtc_value *v, odtc_result *result) {
  odtc_trainer *t = odtc_trainer_of(s, v);
  odtc_tensor found;
  uint32_t samples = v[3].number < 0 || v[3].number > UINT32_MAX ? 0 : (uint32_t)v[3].number;
  if (t && odtc_is_well(s, t, odtc_evaluate_samples(t, v[1].bytes, v[2].number != 0, samples, &found)))
    *result = (odtc_result){.type = VALUE_BYTES, .bytes = found.data, .count = found.bytes};
}

/* Nanoseconds of each of so many runs of an evaluation, int64, by the timers of a GPU. */
static void time_evaluation(odtc_session *s, const odtc_value *v, odtc_result *result) {
  odtc_trainer *t = odtc_trainer_of(s, v);
  size_t runs = v[2].number < 1 || v[2].number > 65536 ? 0 : (size_t)v[2].number;
  int64_t *times = t && runs ? calloc(runs, sizeof *times) : NULL;
  if (t && !times) odtc_refuse(s, "there is no memory for times, or their number is not from 1 to 65536");
  if (times && odtc_is_well(s, t, odtc_time_evaluation(t, v[1].bytes, runs, times)))
    *result = (odtc_result){.type = VALUE_BYTES, .bytes = times, .count = runs * sizeof *times, .owned = times};
  else
    free(times);
}

/* JSON: what kernels launch on a GPU, and take of it. */
static void describe_kernels(odtc_session *s, const odtc_value *v, odtc_result *result) {
  odtc_trainer *t = odtc_trainer_of(s, v);
  odtc_text text = {0};
  const char *json;
  if (!t || !odtc_is_well(s, t, odtc_describe_kernels(t, &json))) return;
  odtc_text_put(&text, "%s", json);
  odtc_give_text(s, &text, result);
}

static void start_clock(odtc_session *s, const odtc_value *v, odtc_result *result) {
  (void)result;
  odtc_trainer *t = odtc_trainer_of(s, v);
  if (t) odtc_is_well(s, t, odtc_start_clock(t));
}

/* JSON: name of the kernel, begin and end of each call, in nanoseconds of the monotonic clock. */
static void stop_clock(odtc_session *s, const odtc_value *v, odtc_result *result) {
  odtc_trainer *t = odtc_trainer_of(s, v);
  const odtc_timed_call *calls;
  size_t count;
  odtc_text text = {0};
  if (!t || !odtc_is_well(s, t, odtc_stop_clock(t, &calls, &count))) return;
  odtc_text_put(&text, "[");
  for (size_t n = 0; n < count; ++n) {
    odtc_text_put(&text, n ? ", [" : "[");
    odtc_text_put_string(&text, calls[n].kernel);
    odtc_text_put(&text, ", %lld, %lld]", (long long)calls[n].begin, (long long)calls[n].end);
  }
  odtc_text_put(&text, "]");
  odtc_give_text(s, &text, result);
}

const odtc_named_function ODTC_PROGRAM_FUNCTIONS[] = {
    {"odtc.program.open", "ssssis", open_program},
    {"odtc.program.close", "i", close_program},
    {"odtc.program.tensors", "i", tensors},
    {"odtc.program.state", "i", state},
    {"odtc.program.use_cores", "isi", use_cores},
    {"odtc.program.write", "iiib", write_tensor},
    {"odtc.program.read", "iiii", read_tensor},
    {"odtc.program.set_steps", "ii", set_steps},
    {"odtc.program.set_budget", "ii", set_budget},
    {"odtc.program.set_length", "ii", set_length},
    {"odtc.program.take_steps", "iibb", odtc_take_steps},
    {"odtc.program.take_steps_at_lengths", "iibbb", odtc_take_steps_at_lengths},
    {"odtc.program.take_steps_over_features", "iibbb", odtc_take_steps_over_features},
    {"odtc.program.write_part", "iib", write_part},
    {"odtc.program.evaluate", "isi", evaluate},
    {"odtc.program.evaluate_samples", "isii", evaluate_samples},
    {"odtc.program.time_evaluation", "isi", time_evaluation},
    {"odtc.program.describe_kernels", "i", describe_kernels},
    {"odtc.program.start_clock", "i", start_clock},
    {"odtc.program.stop_clock", "i", stop_clock},
    {NULL, NULL, NULL},
};
