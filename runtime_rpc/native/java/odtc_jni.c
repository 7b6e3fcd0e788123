/* odtc.h for the JVM: what io.odtc.Trainer declares. */
#include <jni.h>
#include <stdlib.h>
#include <string.h>

#include "odtc.h"

#define NATIVE(type, name) JNIEXPORT type JNICALL Java_io_odtc_Trainer_##name

static odtc_trainer *trainer_of(jlong handle) { return (odtc_trainer *)(intptr_t)handle; }

/* The message goes to Java as bytes: a name that was cut in it may end in the middle of a character. */
static void complain(JNIEnv *env, jint code, const char *message) {
  jsize length = (jsize)strlen(message);
  jclass kind = (*env)->FindClass(env, "io/odtc/TrainerException");
  jmethodID make = kind ? (*env)->GetMethodID(env, kind, "<init>", "(I[B)V") : NULL;
  jbyteArray text = make ? (*env)->NewByteArray(env, length) : NULL;
  if (text) (*env)->SetByteArrayRegion(env, text, 0, length, (const jbyte *)message);
  jobject made = text ? (*env)->NewObject(env, kind, make, code, text) : NULL;
  if (made) (*env)->Throw(env, made);
}

/* Throws where a function did not do what it was asked for. */
static int failed(JNIEnv *env, odtc_trainer *trainer, odtc_code code) {
  if (code) complain(env, (jint)code, odtc_message(trainer));
  return code != ODTC_OK;
}

/* A string that Java gives as bytes of UTF-8 and a zero, until it is given back; NULL of none. Where there
   is no memory for one it throws, and takes no more. */
static const char *taken(JNIEnv *env, jbyteArray text) {
  if (!text || (*env)->ExceptionCheck(env)) return NULL;
  return (const char *)(*env)->GetByteArrayElements(env, text, NULL);
}
static void given_back(JNIEnv *env, jbyteArray text, const char *bytes) {
  if (bytes) (*env)->ReleaseByteArrayElements(env, text, (jbyte *)(uintptr_t)bytes, JNI_ABORT);
}

NATIVE(jlong, open)(JNIEnv *env, jclass kind, jbyteArray program, jbyteArray weights,
                    jbyteArray library, jint threads, jbyteArray storage) {
  (void)kind;
  odtc_options options = {.program = taken(env, program), .weights = taken(env, weights),
                          .storage = taken(env, storage), .threads = threads};
  const char *kernels = taken(env, library);
  /* A name without a folder is that of a library in the app's package. */
  if (kernels && strchr(kernels, '/'))
    options.library = kernels;
  else
    options.name = kernels;
  odtc_trainer *trainer = NULL;
  odtc_code code = (*env)->ExceptionCheck(env) ? ODTC_OK : odtc_open(&options, &trainer);
  given_back(env, program, options.program);
  given_back(env, weights, options.weights);
  given_back(env, storage, options.storage);
  given_back(env, library, kernels);
  if (!failed(env, trainer, code)) return (jlong)(intptr_t)trainer;
  odtc_close(trainer);
  return 0;
}

static const odtc_tensor *found(JNIEnv *env, jlong handle, jbyteArray name) {
  const char *bytes = taken(env, name);
  const odtc_tensor *tensor = bytes ? odtc_find(trainer_of(handle), bytes) : NULL;
  given_back(env, name, bytes);
  return tensor;
}

NATIVE(jobject, memory)(JNIEnv *env, jclass kind, jlong handle, jbyteArray name) {
  (void)kind;
  const odtc_tensor *tensor = found(env, handle, name);
  return tensor ? (*env)->NewDirectByteBuffer(env, tensor->data, (jlong)tensor->bytes) : NULL;
}

NATIVE(jlongArray, shape)(JNIEnv *env, jclass kind, jlong handle, jbyteArray name) {
  (void)kind;
  const odtc_tensor *tensor = found(env, handle, name);
  jlongArray shape = tensor ? (*env)->NewLongArray(env, tensor->rank) : NULL;
  for (int axis = 0; shape && axis < tensor->rank; ++axis) {
    jlong size = tensor->shape[axis];
    (*env)->SetLongArrayRegion(env, shape, axis, 1, &size);
  }
  return shape;
}

NATIVE(jdouble, step)(JNIEnv *env, jclass kind, jlong handle, jfloat rate) {
  (void)kind;
  double loss = 0;
  failed(env, trainer_of(handle), odtc_step(trainer_of(handle), rate, &loss));
  return loss;
}

NATIVE(jlong, steps)(JNIEnv *env, jclass kind, jlong handle) {
  (void)env, (void)kind;
  return (jlong)odtc_steps(trainer_of(handle));
}

NATIVE(jint, samplesOfStep)(JNIEnv *env, jclass kind, jlong handle) {
  (void)env, (void)kind;
  return (jint)odtc_samples_of_step(trainer_of(handle));
}

NATIVE(jobject, evaluate)(JNIEnv *env, jclass kind, jlong handle, jbyteArray output,
                          jboolean averages, jint samples) {
  (void)kind;
  odtc_tensor result;
  const char *name = taken(env, output);
  if (output && !name) return NULL; /* it has thrown */
  uint32_t count = samples < 0 ? 0 : (uint32_t)samples;
  odtc_code code = odtc_evaluate_samples(trainer_of(handle), name, averages, count, &result);
  given_back(env, output, name);
  if (failed(env, trainer_of(handle), code)) return NULL;
  return (*env)->NewDirectByteBuffer(env, result.data, (jlong)result.bytes);
}

NATIVE(jlongArray, lengths)(JNIEnv *env, jclass kind, jlong handle) {
  (void)kind;
  jsize count = 0;
  while (odtc_length_at(trainer_of(handle), (size_t)count)) ++count;
  jlongArray lengths = (*env)->NewLongArray(env, count);
  for (jsize n = 0; lengths && n < count; ++n) {
    jlong length = (jlong)odtc_length_at(trainer_of(handle), (size_t)n);
    (*env)->SetLongArrayRegion(env, lengths, n, 1, &length);
  }
  return lengths;
}

NATIVE(void, setLength)(JNIEnv *env, jclass kind, jlong handle, jlong length) {
  (void)kind;
  if (length < 0)
    complain(env, ODTC_USAGE, "a length is 1 or more");
  else
    failed(env, trainer_of(handle), odtc_set_length(trainer_of(handle), (uint64_t)length));
}

NATIVE(void, setBudget)(JNIEnv *env, jclass kind, jlong handle, jlong bytes) {
  (void)kind;
  uint64_t budget = bytes < 0 ? 0 : (uint64_t)bytes;
  failed(env, trainer_of(handle), odtc_set_budget(trainer_of(handle), budget));
}

static void with_path(JNIEnv *env, jlong handle, jbyteArray path,
                      odtc_code (*call)(odtc_trainer *, const char *)) {
  if (!path) {
    complain(env, ODTC_USAGE, "a path is needed");
    return;
  }
  const char *bytes = taken(env, path);
  if (!bytes) return; /* it has thrown */
  odtc_code code = call(trainer_of(handle), bytes);
  given_back(env, path, bytes);
  failed(env, trainer_of(handle), code);
}

NATIVE(void, save)(JNIEnv *env, jclass kind, jlong handle, jbyteArray path) {
  (void)kind;
  with_path(env, handle, path, odtc_save);
}

NATIVE(void, saveAdapter)(JNIEnv *env, jclass kind, jlong handle, jbyteArray path) {
  (void)kind;
  with_path(env, handle, path, odtc_save_adapter);
}

NATIVE(void, load)(JNIEnv *env, jclass kind, jlong handle, jbyteArray path) {
  (void)kind;
  with_path(env, handle, path, odtc_load);
}

NATIVE(jbyteArray, saveBytes)(JNIEnv *env, jclass kind, jlong handle) {
  (void)kind;
  void *bytes;
  size_t count;
  if (failed(env, trainer_of(handle), odtc_save_bytes(trainer_of(handle), &bytes, &count))) return NULL;
  jbyteArray array = NULL;
  if (count > INT32_MAX)
    complain(env, ODTC_NO_MEMORY, "the checkpoint is more than an array of the JVM");
  else
    array = (*env)->NewByteArray(env, (jsize)count); /* throws where there is no memory */
  if (array) (*env)->SetByteArrayRegion(env, array, 0, (jsize)count, bytes);
  free(bytes);
  return array;
}

NATIVE(void, loadBytes)(JNIEnv *env, jclass kind, jlong handle, jbyteArray checkpoint) {
  (void)kind;
  if (!checkpoint) {
    complain(env, ODTC_USAGE, "a checkpoint is needed");
    return;
  }
  jsize count = (*env)->GetArrayLength(env, checkpoint);
  jbyte *bytes = (*env)->GetByteArrayElements(env, checkpoint, NULL);
  if (!bytes) return; /* it has thrown */
  odtc_code code = odtc_load_bytes(trainer_of(handle), bytes, (size_t)count);
  (*env)->ReleaseByteArrayElements(env, checkpoint, bytes, JNI_ABORT);
  failed(env, trainer_of(handle), code);
}

NATIVE(void, cancel)(JNIEnv *env, jclass kind, jlong handle, jboolean now) {
  (void)env, (void)kind;
  odtc_cancel(trainer_of(handle), now);
}

NATIVE(void, close)(JNIEnv *env, jclass kind, jlong handle) {
  (void)env, (void)kind;
  odtc_close(trainer_of(handle));
}
