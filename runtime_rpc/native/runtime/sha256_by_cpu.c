/* Ten times as fast as any CPU's other instructions: a file of weights is hashed whenever it is opened. */
#include <stdatomic.h>

#include "cpu.h"
#include "sha256.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

static int has_instructions(void) {
  enum { SSSE3 = 1 << 9, SSE4_1 = 1 << 19, SHA = 1 << 29 };
  const unsigned basic = SSSE3 | SSE4_1;
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d) || (c & basic) != basic) return 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & SHA);
}

__attribute__((target("sha,sse4.1"))) static void take(uint32_t state[8], const uint8_t *data,
                                                       size_t blocks) {
  const __m128i swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
  /* The instructions want the variables as ABEF and CDGH. */
  __m128i low = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)state), 0xB1);
  __m128i high = _mm_shuffle_epi32(_mm_loadu_si128((const __m128i *)(state + 4)), 0x1B);
  __m128i abef = _mm_alignr_epi8(low, high, 8), cdgh = _mm_blend_epi16(high, low, 0xF0);
  for (; blocks; --blocks, data += ODTC_SHA256_BLOCK) {
    const __m128i abef_before = abef, cdgh_before = cdgh;
    __m128i w[4];
    for (int i = 0; i < 4; ++i)
      w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)data + i), swap);
    for (int i = 0; i < 16; ++i) {
      __m128i rounds = _mm_loadu_si128((const __m128i *)ODTC_SHA256_ROUNDS + i);
      __m128i m = _mm_add_epi32(w[0], rounds);
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, m);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(m, 0x0E));
      __m128i next = _mm_add_epi32(_mm_sha256msg1_epu32(w[0], w[1]), _mm_alignr_epi8(w[3], w[2], 4));
      next = _mm_sha256msg2_epu32(next, w[3]);
      w[0] = w[1], w[1] = w[2], w[2] = w[3], w[3] = next;
    }
    abef = _mm_add_epi32(abef, abef_before), cdgh = _mm_add_epi32(cdgh, cdgh_before);
  }
  low = _mm_shuffle_epi32(abef, 0x1B), high = _mm_shuffle_epi32(cdgh, 0xB1);
  _mm_storeu_si128((__m128i *)state, _mm_blend_epi16(low, high, 0xF0));
  _mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(high, low, 8));
}

#elif defined(__aarch64__)
#include <string.h>

typedef uint32_t words __attribute__((vector_size(16)));

static int has_instructions(void) {
  odtc_problem none;
  return !odtc_check_cpu("sha2", &none);
}

/* As text, since compilers differ in what they call these, and in which options they want for them. Clang 14 takes
   the extension `crypto`, and then refuses these all the same. */
#define SHA2 ".arch_extension sha2\n\t"

static void take(uint32_t state[8], const uint8_t *data, size_t blocks) {
  words abcd, efgh;
  memcpy(&abcd, state, sizeof abcd), memcpy(&efgh, state + 4, sizeof efgh);
  for (; blocks; --blocks, data += ODTC_SHA256_BLOCK) {
    const words abcd_before = abcd, efgh_before = efgh;
    words w[4];
    memcpy(w, data, sizeof w);
    for (int i = 0; i < 4; ++i) __asm__("rev32 %0.16b, %0.16b" : "+w"(w[i]));
    for (int i = 0; i < 16; ++i) {
      words m, before = abcd, next = w[0];
      memcpy(&m, ODTC_SHA256_ROUNDS + 4 * i, sizeof m);
      m += w[0];
      __asm__(SHA2 "sha256h %q0, %q1, %2.4s" : "+w"(abcd) : "w"(efgh), "w"(m));
      __asm__(SHA2 "sha256h2 %q0, %q1, %2.4s" : "+w"(efgh) : "w"(before), "w"(m));
      __asm__(SHA2 "sha256su0 %0.4s, %1.4s" : "+w"(next) : "w"(w[1]));
      __asm__(SHA2 "sha256su1 %0.4s, %1.4s, %2.4s" : "+w"(next) : "w"(w[2]), "w"(w[3]));
      w[0] = w[1], w[1] = w[2], w[2] = w[3], w[3] = next;
    }
    abcd += abcd_before, efgh += efgh_before;
  }
  memcpy(state, &abcd, sizeof abcd), memcpy(state + 4, &efgh, sizeof efgh);
}
#endif

int odtc_sha256_by_cpu(uint32_t state[8], const uint8_t *data, size_t blocks) {
  enum { UNKNOWN, NONE, SOME };
  static atomic_int known = UNKNOWN; /* to ask costs a trap in a virtual machine */
  int found = atomic_load_explicit(&known, memory_order_relaxed);
  if (found == UNKNOWN) {
    found = has_instructions() ? SOME : NONE;
    atomic_store_explicit(&known, found, memory_order_relaxed);
  }
  if (found == SOME) take(state, data, blocks);
  return found == SOME;
}
