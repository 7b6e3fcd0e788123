/* Weights that lie in another file than the artifact's own: one that the user of a model keeps. */
#ifndef ODTC_BESIDE_H
#define ODTC_BESIDE_H

#include "sha256.h"
#include "trainer.h"

/* Maps the bytes of an argument to its own pages, at whose end they lie, and compares them with their
   hash. The text says where they are: 64 digits of their sha256, where they begin in a file, and its
   path from the folder that the options have, with a space between. It leads nowhere else: neither as it
   is written, nor through links. */
odtc_code odtc_map_beside(odtc_trainer *trainer, const odtc_options *options, size_t number,
                          const char *text);

/* The hash of pages of a file, of which none stays resident for this. */
void odtc_hash_pages(const uint8_t *at, size_t bytes, char text[ODTC_HEX_BYTES]);

#endif
