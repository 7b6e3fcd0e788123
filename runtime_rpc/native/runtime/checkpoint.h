/* Checkpoints: files of tensors with hashes, which the trainer of Python reads and writes as well. Its
   odtc/core/disk/tensor_file.py and runtime_rpc/state/checkpoint.py say what is in them. */
#ifndef ODTC_CHECKPOINT_H
#define ODTC_CHECKPOINT_H

#include "sha256.h"
#include "trainer.h"

#define ODTC_CHECKPOINT_FORMAT "odtc-checkpoint-3"
/* The same without the base: without what is frozen. */
#define ODTC_ADAPTER_FORMAT "odtc-adapter-checkpoint-1"
/* Where the latter says of which base it is; and the fact of a program. */
#define ODTC_BASE "base_sha256"

/* The hash of bytes in hexadecimal digits, with a zero after them. */
void odtc_hash_text(const uint8_t *data, size_t bytes, char text[ODTC_HEX_BYTES]);

/* Whether a checkpoint may hold an argument, and whether one after so many steps does: sums of
   gradients are of no use right after an update. */
int odtc_is_kept(const odtc_program *program, size_t argument);
int odtc_is_saved(const odtc_program *program, size_t argument, int64_t steps);
/* Whether one of an adapter alone does. */
int odtc_is_of_adapter(const odtc_program *program, size_t argument, int64_t steps);

/* Puts the hash of the base into a trainer: none where no weight is frozen. */
odtc_code odtc_know_base(odtc_trainer *trainer);
/* Says that the base may be another one now. */
void odtc_forget_base(odtc_trainer *trainer);

#endif
