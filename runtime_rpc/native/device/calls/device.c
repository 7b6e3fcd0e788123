/* What the device says of itself. */
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core_speeds.h"
#include "free_memory.h"
#include "frequency.h"
#include "functions.h"
#include "odtc_gpu.h"
#include "recorder.h"

void odtc_give_text(odtc_session *s, odtc_text *text, odtc_result *result) {
  if (text->failed || !text->at) {
    odtc_refuse(s, "there is no memory for an answer");
    odtc_text_end(text);
    return;
  }
  *result = (odtc_result){
      .type = VALUE_TEXT, .bytes = text->at, .count = text->used, .owned = text->at};
}

static void info(odtc_session *s, const odtc_value *v, odtc_result *result) {
  (void)v;
  odtc_text text = {0};
  odtc_text_put(&text, "{%s, \"pid\": %d}", s->about, (int)getpid());
  odtc_give_text(s, &text, result);
}

/* JSON: name and driver of the first device of an interface. */
static void gpu(odtc_session *s, const odtc_value *v, odtc_result *result) {
  odtc_found_gpu found;
  odtc_text text = {0};
  odtc_code code = odtc_find_gpu(v[0].bytes, 0, &found);
  if (code) {
    odtc_refuse(s, "odtc %d: %s", (int)code, found.message);
    return;
  }
  odtc_text_put(&text, "{\"name\": ");
  odtc_text_put_string(&text, found.name);
  odtc_text_put(&text, ", \"driver\": ");
  odtc_text_put_string(&text, found.driver);
  odtc_text_put(&text, "}");
  odtc_give_text(s, &text, result);
}

static void available_bytes(odtc_session *s, const odtc_value *v, odtc_result *result) {
  (void)v;
  int64_t bytes = odtc_available_bytes();
  if (bytes < 0) odtc_refuse(s, "the system does not say how much memory is left");
  *result = (odtc_result){.type = VALUE_NUMBER, .number = bytes};
}

static void core_speeds(odtc_session *s, const odtc_value *v, odtc_result *result) {
  (void)v;
  odtc_text text = {0};
  odtc_put_core_speeds(&text);
  odtc_give_text(s, &text, result);
}

/* See recorder.h. */
static void start_record(odtc_session *s, const odtc_value *v, odtc_result *result) {
  if (!(v[0].real >= 0.001 && v[0].real <= 60)) {
    odtc_refuse(s, "a period is from 0.001 to 60 seconds");
    return;
  }
  odtc_recorder *recorder = odtc_record(v[0].real, v[1].bytes, v[2].bytes);
  if (!recorder) odtc_refuse(s, "there is no memory, or no thread, to record with");
  if (recorder)
    *result =
        (odtc_result){.type = VALUE_NUMBER, .number = odtc_keep(s, ODTC_RECORDER, recorder, 0)};
}

static void stop_record(odtc_session *s, const odtc_value *v, odtc_result *result) {
  odtc_object *object = odtc_object_of(s, v->number, ODTC_RECORDER);
  if (!object) return;
  size_t bytes;
  uint8_t *all = odtc_recorded(object->at, &bytes);
  *object = (odtc_object){ODTC_NOTHING};
  if (!all) odtc_refuse(s, "there is no memory for what was recorded");
  if (all)
    *result = (odtc_result){.type = VALUE_BYTES, .bytes = all, .count = bytes, .owned = all};
}

/* Returns why nothing could be changed, or an empty text. */
static void cap_frequency(odtc_session *s, const odtc_value *v, odtc_result *result) {
  static const char *const LEVELS[] = {"low", "mid", "high"};
  odtc_text why = {0};
  int level = 0;
  while (level < 3 && strcmp(LEVELS[level], v[0].bytes)) ++level;
  if (level == 3) {
    odtc_refuse(s, "a cap is low, mid or high, and not %.100s", v[0].bytes);
    return;
  }
  odtc_cap_frequencies(v[1].bytes, level, &why);
  odtc_text_put(&why, "%s", "");
  odtc_give_text(s, &why, result);
}

static void uncap_frequency(odtc_session *s, const odtc_value *v, odtc_result *result) {
  (void)s, (void)v;
  odtc_uncap_frequencies(".");
  *result = (odtc_result){.type = VALUE_TEXT, .bytes = ""};
}

const odtc_named_function ODTC_DEVICE_FUNCTIONS[] = {
    {"odtc.device_info", "", info},
    {"odtc.gpu", "s", gpu},
    {"odtc.available_bytes", "", available_bytes},
    {"odtc.core_speeds", "", core_speeds},
    {"odtc.record.start", "fss", start_record},
    {"odtc.record.stop", "i", stop_record},
    {"odtc.cap_frequency", "ss", cap_frequency},
    {"odtc.uncap_frequency", "", uncap_frequency},
    {NULL, NULL, NULL},
};
