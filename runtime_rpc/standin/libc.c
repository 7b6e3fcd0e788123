/* What Android's C library has under names and numbers of its own, on that of glibc: the stand-in's phone
   has no other. The numbers of what sysconf is asked for are those of bionic and, behind them, glibc's. */
#include <errno.h>
#include <stddef.h>
#include <unistd.h>

int __libc_start_main(int (*)(int, char **, char **), int, char **, void (*)(void), void (*)(void),
                      void (*)(void), void *);
long __sysconf(int);
int *__errno(void);
_Noreturn void __libc_init(void *, void (*)(void), int (*)(int, char **, char **), const void *);

int *__errno(void) { return &errno; }

_Noreturn void __libc_init(void *words, void (*leave)(void), int (*start)(int, char **, char **),
                           const void *structors) {
  (void)structors;
  __libc_start_main(start, (int)*(long *)words, (char **)words + 1, NULL, NULL, leave, words);
  _exit(127);
}

long sysconf(int name) {
  static const struct {
    int bionic, glibc;
  } NAMES[] = {{39, _SC_PAGESIZE}, {96, _SC_NPROCESSORS_CONF}, {97, _SC_NPROCESSORS_ONLN}};
  for (size_t n = 0; n < sizeof NAMES / sizeof *NAMES; ++n)
    if (NAMES[n].bionic == name) return __sysconf(NAMES[n].glibc);
  errno = EINVAL;
  return -1;
}
