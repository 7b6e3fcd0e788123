/* What the runtime uses of Android's C library on 64-bit ARM, where no NDK is: each header of C that it
   includes stands for this one. Constants and structures are Linux's; what bionic has in addition is the
   name of errno and the number of _SC_NPROCESSORS_ONLN. */
#ifndef ODTC_BIONIC_H
#define ODTC_BIONIC_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

typedef long off_t;
typedef long ssize_t;
typedef unsigned mode_t;
typedef int pid_t;

/* errno.h */
int *__errno(void);
#define errno (*__errno())
enum { EINTR = 4, EIO = 5, EISDIR = 21, EINVAL = 22, ENOSPC = 28, ENAMETOOLONG = 36 };
enum { ELOOP = 40, EDQUOT = 122 };

/* string.h */
void *memmem(const void *, size_t, const void *, size_t);
void *memcpy(void *, const void *, size_t);
void *memmove(void *, const void *, size_t);
void *memset(void *, int, size_t);
int memcmp(const void *, const void *, size_t);
char *strchr(const char *, int);
char *strrchr(const char *, int);
int strcmp(const char *, const char *);
size_t strcspn(const char *, const char *);
char *strerror(int);
size_t strlen(const char *);
int strncmp(const char *, const char *, size_t);
char *strstr(const char *, const char *);

/* stdlib.h */
void *calloc(size_t, size_t);
void free(void *);
void *malloc(size_t);
int mkstemp(char *);
int posix_memalign(void **, size_t, size_t);
void qsort(void *, size_t, size_t, int (*)(const void *, const void *));
void *realloc(void *, size_t);
char *realpath(const char *, char *);
unsigned long strtoul(const char *, char **, int);

/* stdio.h */
int rename(const char *, const char *);
int snprintf(char *, size_t, const char *, ...) __attribute__((format(printf, 3, 4)));
int vsnprintf(char *, size_t, const char *, va_list) __attribute__((format(printf, 3, 0)));

/* math.h */
#define isfinite(x) __builtin_isfinite(x)
#define isnan(x) __builtin_isnan(x)

/* fcntl.h, unistd.h */
enum { O_RDONLY = 0, O_WRONLY = 1, O_CREAT = 0100, O_NONBLOCK = 04000, O_CLOEXEC = 02000000 };
enum { O_NOFOLLOW = 0100000 };
enum { _SC_PAGESIZE = 39, _SC_NPROCESSORS_ONLN = 97 };
int open(const char *, int, ...);
int posix_fallocate(int, off_t, off_t);
int close(int);
int fsync(int);
int ftruncate(int, off_t);
pid_t getpid(void);
ssize_t read(int, void *, size_t);
ssize_t readlink(const char *, char *, size_t);
long syscall(long, ...);
long sysconf(int);
int unlink(const char *);
ssize_t write(int, const void *, size_t);

/* sys/syscall.h */
enum { SYS_futex = 98, SYS_gettid = 178 };

/* time.h */
struct timespec {
  long tv_sec, tv_nsec;
};
enum { CLOCK_MONOTONIC = 1 };
int clock_gettime(int, struct timespec *);

/* sys/stat.h */
struct stat {
  uint64_t st_dev, st_ino;
  mode_t st_mode;
  uint32_t st_nlink, st_uid, st_gid;
  uint64_t st_rdev, pad;
  off_t st_size;
  int32_t st_blksize, more_pad;
  int64_t st_blocks;
  struct timespec st_atim, st_mtim, st_ctim;
  int64_t unused;
};
#define S_ISREG(mode) (((mode)&0170000) == 0100000)
#define S_ISDIR(mode) (((mode)&0170000) == 0040000)
int fstat(int, struct stat *);
int stat(const char *, struct stat *);

/* sys/file.h */
enum { LOCK_EX = 2 };
int flock(int, int);

/* sys/mman.h */
enum { PROT_READ = 1, PROT_WRITE = 2, MAP_SHARED = 1, MAP_PRIVATE = 2, MAP_ANONYMOUS = 0x20 };
enum { MREMAP_MAYMOVE = 1 };
#define MADV_DONTNEED 4
#define MADV_HUGEPAGE 14
#define MAP_FAILED ((void *)-1)
int madvise(void *, size_t, int);
void *mmap(void *, size_t, int, int, int, off_t);
void *mremap(void *, size_t, size_t, int, ...);
int munmap(void *, size_t);

/* sys/auxv.h */
enum { AT_HWCAP = 16, AT_HWCAP2 = 26 };
unsigned long getauxval(unsigned long);

/* sched.h */
typedef struct {
  unsigned long bits[16];
} cpu_set_t;
int __sched_cpucount(size_t, const cpu_set_t *);
#define CPU_SETSIZE 1024
#define CPU_COUNT(set) __sched_cpucount(sizeof(cpu_set_t), set)
#define CPU_ISSET(core, set) ((set)->bits[(core) / 64] >> (core) % 64 & 1)
#define CPU_SET(core, set) ((set)->bits[(core) / 64] |= 1UL << (core) % 64)
#define CPU_ZERO(set) memset(set, 0, sizeof(cpu_set_t))
int sched_getcpu(void);
int sched_getaffinity(pid_t, size_t, cpu_set_t *);
int sched_setaffinity(pid_t, size_t, const cpu_set_t *);
int sched_yield(void);

/* pthread.h. A mutex and a condition have 40 and 48 bytes there, and at most as many in glibc as here. */
typedef long pthread_t;
typedef int pthread_key_t, pthread_once_t;
typedef struct {
  long own[8];
} pthread_mutex_t, pthread_cond_t;
#define PTHREAD_ONCE_INIT 0
#define PTHREAD_MUTEX_INITIALIZER {{0}}
#define PTHREAD_COND_INITIALIZER {{0}}
int pthread_create(pthread_t *, const void *, void *(*)(void *), void *);
int pthread_join(pthread_t, void **);
int pthread_mutex_init(pthread_mutex_t *, const void *);
int pthread_mutex_destroy(pthread_mutex_t *);
int pthread_mutex_lock(pthread_mutex_t *);
int pthread_mutex_unlock(pthread_mutex_t *);
int pthread_cond_wait(pthread_cond_t *, pthread_mutex_t *);
int pthread_cond_broadcast(pthread_cond_t *);
int pthread_key_create(pthread_key_t *, void (*)(void *));
void *pthread_getspecific(pthread_key_t);
int pthread_setspecific(pthread_key_t, const void *);
int pthread_once(pthread_once_t *, void (*)(void));

/* dlfcn.h, link.h */
enum { RTLD_LOCAL = 0, RTLD_NOW = 2 };
int dlclose(void *);
char *dlerror(void);
void *dlopen(const char *, int);
void *dlsym(void *, const char *);
typedef struct {
  uint32_t p_type, p_flags;
  uint64_t p_offset, p_vaddr, p_paddr, p_filesz, p_memsz, p_align;
} Elf64_Phdr;
#define ElfW(name) Elf64_##name
struct dl_phdr_info {
  uint64_t dlpi_addr;
  const char *dlpi_name;
  const Elf64_Phdr *dlpi_phdr;
  uint16_t dlpi_phnum;
};
int dl_iterate_phdr(int (*)(struct dl_phdr_info *, size_t, void *), void *);

#endif
