/* Loops that a compiler makes vectors of, of each type: what a C library has none of. */
enum { N = 999 };
#define EACH for (int i = 0; i < N; ++i)
#define LOOPS(type)                                                                \
  void add_##type(type *x, type *y, type *z) { EACH x[i] += y[i] * z[i]; }         \
  void part_##type(type *x, type *y, type z) { EACH x[i] -= y[i] * z + y[i] / x[i]; } \
  type sum_##type(type *x, type *y) { type s = 0; EACH s += x[i] * y[i]; return s; } \
  void larger_##type(type *x, type *y) { EACH x[i] = x[i] > y[i] ? x[i] : y[i]; }

typedef _Float16 half;
LOOPS(half)
LOOPS(float)
LOOPS(double)
LOOPS(int)

int dot(signed char *x, signed char *y) { int s = 0; EACH s += x[i] * y[i]; return s; }
unsigned udot(unsigned char *x, unsigned char *y) { unsigned s = 0; EACH s += x[i] * y[i]; return s; }
void roots(float *x) { EACH x[i] = __builtin_sqrtf(x[i]); }
void double_roots(double *x) { EACH x[i] = __builtin_sqrt(x[i]); }
