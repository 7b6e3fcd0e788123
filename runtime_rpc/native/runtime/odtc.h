/* odtc: training steps on a device, without Python and without TVM.

   A trainer is made of three files of an artifact: the program (program.bin), which says what a step
   calls; the weights (parameters.safetensors); and the library of its kernels (step.so).

       odtc_options options = {.program = "program.bin", .weights = "parameters.safetensors",
                               .library = "step.so", .threads = 2};
       odtc_trainer *trainer;
       float pixels[32 * 64];
       int32_t classes[32];
       double loss;
       if (odtc_open(&options, &trainer)) return puts(odtc_message(trainer));
       const odtc_tensor *image = odtc_find(trainer, "image"), *label = odtc_find(trainer, "label");
       if (image->bytes != sizeof pixels || label->bytes != sizeof classes) abort();
       memcpy(image->data, pixels, sizeof pixels);
       memcpy(label->data, classes, sizeof classes);
       if (odtc_step(trainer, 0.05f, &loss)) puts(odtc_message(trainer));
       odtc_close(trainer);

   Class numbers are int32_t, where PyTorch has them as int64: odtc_tensor says by code, bits and bytes what each
   tensor takes, and so does `odtc inspect`.

   Functions return ODTC_OK or what went wrong, and odtc_message() then says it in words; NULL for what
   one needs is ODTC_USAGE, but a trainer is never NULL. One thread
   at a time may use a trainer; several trainers share nothing. docs/native_runtime.md has more. */
#ifndef ODTC_H
#define ODTC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define ODTC_API __attribute__((visibility("default")))
#else
#define ODTC_API
#endif

typedef struct odtc_trainer odtc_trainer;

typedef enum {
  ODTC_OK = 0,
  ODTC_USAGE = 1,       /* an argument that the function does not take */
  ODTC_NO_FILE = 2,     /* a file cannot be read, or written */
  ODTC_DAMAGED = 3,     /* a file is not what odtc wrote */
  ODTC_MISFIT = 4,      /* files are whole, and do not belong together */
  ODTC_NO_MEMORY = 5,   /* the system has no memory */
  ODTC_DATA = 6,        /* a label, an index or the learning rate is out of its bounds */
  ODTC_NOT_FINITE = 7,  /* the step was taken, and what it computed is not finite */
  ODTC_BUDGET = 8,      /* no plan of the step fits the budget */
  ODTC_CANCELLED = 9,   /* odtc_cancel() was called */
  ODTC_TORN = 10,       /* a step was cancelled half way, and no checkpoint was loaded since */
  ODTC_KERNEL = 11,     /* a kernel failed */
  ODTC_UNSUPPORTED = 12, /* the file asks for what this version does not do */
  ODTC_CPU = 13,        /* the CPU lacks an instruction of the kernels */
  ODTC_NO_ROOM = 14,    /* a disk is full, or a quota: nothing of a checkpoint is written; or a folder has no room for a
                           file in place of memory, or cannot be written */
  ODTC_DEVICE = 15      /* there is no such GPU, or it was lost, or its driver reports a failure */
} odtc_code;

typedef enum {
  ODTC_INPUT,         /* what a step is fed */
  ODTC_LABEL,         /* what it is compared with */
  ODTC_LEARNING_RATE, /* written by odtc_step() */
  ODTC_STEP,          /* number of the call of a step, written by odtc_step() */
  ODTC_PARAMETER,     /* trained */
  ODTC_FROZEN,        /* a weight that is not trained */
  ODTC_STATISTIC,     /* a running statistic, such as a mean of batch normalisation */
  ODTC_STATE,         /* of the optimizer, such as a momentum */
  ODTC_AVERAGE,       /* the moving average of a parameter */
  ODTC_STORAGE,       /* where tensors of a step wait that its arena has no room for */
  ODTC_FEATURES       /* what frozen layers make of inputs: see odtc_step_over_features() */
} odtc_role;

/* A tensor, dense and little endian. Its data are the trainer's own memory, from a multiple of 64
   bytes, and stay where they are until odtc_close(): write inputs and labels there, and read weights. */
typedef struct {
  const char *name;     /* the name in the ONNX model; a state's is slot/parameter */
  odtc_role role;
  int code, bits;       /* of an element, as DLPack has them: code 0 int, 1 uint, 2 float, 6 bool */
  int rank;
  const int64_t *shape; /* of a whole step, though it runs in micro-batches */
  size_t bytes;
  void *data;
} odtc_tensor;

/* Kernels that are linked into the program that trains; `odtc export-app` writes such a table. */
typedef struct {
  uint8_t program[32]; /* SHA-256 of the program that they are of */
  size_t count;
  const struct odtc_named_kernel {
    const char *name;
    int (*code)(void *, const void *, int32_t, void *);
    void **launch; /* where it looks up what runs its tasks; NULL if it runs none */
  } *kernels;
} odtc_kernels;

/* What a trainer is made of; what is left out is 0. Of library, name and kernels one is given. */
typedef struct {
  const char *program, *weights, *library; /* paths */
  const char *storage;                     /* a folder for files in place of memory; the current one if NULL */
  int threads;                             /* 0: one for each core, as far as the kernels allow it */
  const char *name;            /* of a library that the system's loader finds, as one in an app's package */
  const odtc_kernels *kernels; /* that are linked in; they stay where they are */
  size_t offload_state;                    /* optimizer state and averages of so many bytes or more lie in such
                                              files; 0: none does */
  int unchecked_weights; /* not 0: weights are not compared with the hashes that there are of them */
  int gpu;               /* of a step for GPUs, the number of the device: see odtc_gpu.h */
  const char *gpu_cache; /* a folder for kernels as the GPU's driver has compiled them; NULL: they are not kept */
  const char *beside;    /* of an artifact that leaves weights in a file of the model, the folder with that; NULL: that
                            of the weights */
} odtc_options;

/* Makes a trainer. The file of weights is read once as a whole, to compare its hash with that in the program: one that
   was damaged on its way is ODTC_DAMAGED. For large weights that stay in their file an app may leave this out
   (unchecked_weights) where it has checked a download itself; and so may one that trains other weights of the
   same names and shapes. Where opening fails the trainer only holds the message, and is to be closed all the
   same; it is NULL where there is no memory for that. */
ODTC_API odtc_code odtc_open(const odtc_options *options, odtc_trainer **trainer);
ODTC_API void odtc_close(odtc_trainer *trainer);

/* What went wrong in the last call that did not return ODTC_OK. */
ODTC_API const char *odtc_message(const odtc_trainer *trainer);

/* The tensors of the step, in its order; NULL after the last one, and for an unknown name or none. */
ODTC_API const odtc_tensor *odtc_tensor_at(const odtc_trainer *trainer, size_t number);
ODTC_API const odtc_tensor *odtc_find(const odtc_trainer *trainer, const char *name);

/* Takes a step with what lies in the inputs and labels, which it leaves there. `loss` is the mean loss of the batch before
   the update; NULL if it is not wanted. It may be infinite or NaN where the step leaves out such updates by itself.
   With ODTC_NOT_FINITE it is the one that the message has: where the loss was finite, and only the update was not,
   to a part in 16,000. Of a batch without a label that counts, as where all are those that the loss ignores, it is 0, and
   so are the gradients: the step is taken, by which momentum and decay move weights. Leave its loss out of a mean over
   steps; where a loss ignores labels, such a mean is of each step's loss times the number of its labels that count. */
ODTC_API odtc_code odtc_step(odtc_trainer *trainer, float learning_rate, double *loss);

/* Takes a step of which frozen layers' part is left out: what they make of the inputs lies in the arguments of the role
   ODTC_FEATURES whose names begin with that of the step's plan. odtc_evaluate_part() of PLAN/features gives them, for a
   micro-batch, as one row of bytes. The loss and the update have the bits of odtc_step(). A step that trains
   all of its layers is refused, and one on a GPU. */
ODTC_API odtc_code odtc_step_over_features(odtc_trainer *trainer, float learning_rate, double *loss);

/* The number of steps that were taken, those of a checkpoint included. */
ODTC_API int64_t odtc_steps(const odtc_trainer *trainer);

/* Computes an output in inference mode from what lies in the inputs; the first one if its name is
   NULL. With `averages` not 0 the moving averages take the places of parameters. The result is
   described by the tensor that is given; its data stay until the next step or evaluation. */
ODTC_API odtc_code odtc_evaluate(odtc_trainer *trainer, const char *output, int averages,
                                 odtc_tensor *result);

/* The same of the first samples of what lies in the inputs, 1 to as many as a step has; the result has as
   many. What the rest of the inputs holds is not read. For more than a step has, an app feeds and evaluates
   them in turns, the last time those that are left; for few of them, evaluations of fewer samples can be
   compiled (`odtc compile --eval-batch`). An output in which samples are not apart is refused. */
ODTC_API odtc_code odtc_evaluate_samples(odtc_trainer *trainer, const char *output, int averages,
                                         uint32_t samples, odtc_tensor *result);
/* The samples of a step; 0 where the trainer was not opened. */
ODTC_API uint32_t odtc_samples_of_step(const odtc_trainer *trainer);

/* The same as odtc_evaluate() for one micro-batch of a step, whose inputs lie where odtc_part_at() says; the result is its
   own. A step that is not cut is one micro-batch. */
ODTC_API odtc_code odtc_evaluate_part(odtc_trainer *trainer, const char *output, int averages,
                                      odtc_tensor *result);
/* Where a micro-batch is read of the argument of that number; NULL after the last one. */
ODTC_API void *odtc_part_at(const odtc_trainer *trainer, size_t number);

/* Takes steps and evaluations from now on at one of the lengths that the step was compiled for, such as numbers of
   tokens (`odtc compile --lengths`), by its fastest plan. Shapes and bytes of inputs and labels are those of that length
   then. Their data stay where they are, and hold what that length takes from their beginning on, dense: so what was fed for
   another length is to be fed anew. Weights and state are the same at all lengths. */
ODTC_API odtc_code odtc_set_length(odtc_trainer *trainer, uint64_t length);
/* The lengths, of which the first is the longest, and that with which a trainer begins; 0 after the last one, and where
   the step is compiled for one size alone. */
ODTC_API uint64_t odtc_length_at(const odtc_trainer *trainer, size_t number);

/* Takes steps from now on by the fastest plan whose tensors fit in so many bytes. */
ODTC_API odtc_code odtc_set_budget(odtc_trainer *trainer, uint64_t bytes);
/* Bytes of the arena of the plan that steps are taken by. */
ODTC_API uint64_t odtc_arena_bytes(const odtc_trainer *trainer);
/* Bytes of it that are allocated: 0 before the first step. */
ODTC_API uint64_t odtc_held_bytes(const odtc_trainer *trainer);

/* Takes steps from now on with so many threads; 0 as of odtc_options. On Linux and Android each but the
   caller's has a core of its own, where there are enough: the fastest, and not the caller's. */
ODTC_API odtc_code odtc_set_threads(odtc_trainer *trainer, int threads);
/* The same with one thread for each of some cores, which are its only one. The first thread is the
   caller's: whoever takes steps binds it, or leaves it free. Linux and Android. */
ODTC_API odtc_code odtc_set_cores(odtc_trainer *trainer, const int *cores, int count);

/* Writes weights, state and the number of steps to a file, whole or not at all, and takes them up again. A link
   is followed, and stays; what is a folder, a pipe or a device is not replaced. What does not fit, or is damaged,
   changes nothing. odtc's trainer in Python reads and writes them, too. */
ODTC_API odtc_code odtc_save(odtc_trainer *trainer, const char *path);
ODTC_API odtc_code odtc_load(odtc_trainer *trainer, const char *path);

/* Writes the same without weights that are not trained: of a step with adapters (LoRA) one adapter with its state and
   number of steps, and nothing of the base. odtc_load() and odtc_load_bytes() take it up, too, and leave the base as it
   is: several adapters over one base are loaded one after the other. The file says which base that is, and over another
   one it is refused with ODTC_MISFIT; frozen weights that the caller has written are not seen by this. */
ODTC_API odtc_code odtc_save_adapter(odtc_trainer *trainer, const char *path);

/* A whole checkpoint in memory, which is to be given to free(); NULL where that fails. */
ODTC_API odtc_code odtc_save_bytes(odtc_trainer *trainer, void **bytes, size_t *count);
ODTC_API odtc_code odtc_load_bytes(odtc_trainer *trainer, const void *bytes, size_t count);

/* Says that weights and state, which the caller has written, are those after so many steps. */
ODTC_API odtc_code odtc_set_steps(odtc_trainer *trainer, int64_t steps);

/* Lets the step that runs, or the next one, return ODTC_CANCELLED. Any thread may call this at any
   time. The step that runs is finished first; with `now` not 0 it ends after the kernel that runs,
   and unless nothing ran yet the weights are torn: only odtc_load() makes them whole again. */
ODTC_API void odtc_cancel(odtc_trainer *trainer, int now);

/* A call of a kernel: the name of its symbol; when it began and ended, in nanoseconds of CLOCK_MONOTONIC. */
typedef struct {
  const char *kernel;
  int64_t begin, end;
} odtc_timed_call;

/* Takes the time of each call from now on, until it is stopped; the calls stay until the next start. */
ODTC_API odtc_code odtc_start_clock(odtc_trainer *trainer);
ODTC_API odtc_code odtc_stop_clock(odtc_trainer *trainer, const odtc_timed_call **calls,
                                   size_t *count);

/* Says what the program was made from: odtc, target, triple, model, model_sha256, base_sha256 (of
   weights that are not trained), loss, optimizer, run; and of the kernels that were chosen for this
   CPU and these threads: core, features. */
ODTC_API const char *odtc_fact(const odtc_trainer *trainer, const char *name);

#ifdef __cplusplus
}
#endif
#endif
