/* What odtc-device uses of Android's C library beside the runtime, as bionic.h has it: constants and
   structures of Linux on 64-bit ARM. Bionic has other names and numbers only where a line says so. */
#ifndef ODTC_BIONIC_DEVICE_H
#define ODTC_BIONIC_DEVICE_H

#include "bionic.h"

typedef long time_t;
typedef int clockid_t;
typedef unsigned uid_t;

/* errno.h */
enum { ENOENT = 2, EAGAIN = 11, EWOULDBLOCK = 11, EMFILE = 24, ENFILE = 23, ENOMEM = 12 };
enum { ENOBUFS = 105, ETIMEDOUT = 110, EINPROGRESS = 115 };

/* limits.h */
#define INT_MAX __INT_MAX__

/* string.h, stdlib.h */
void *memchr(const void *, int, size_t);
char *strcat(char *, const char *);
char *strcpy(char *, const char *);
char *stpcpy(char *, const char *);
char *strdup(const char *);
char *strpbrk(const char *, const char *);
char *strstr(const char *, const char *);
char *strtok_r(char *, const char *, char **);
_Noreturn void exit(int);
char *mkdtemp(char *);
double strtod(const char *, char **);
long strtol(const char *, char **, int);
long long strtoll(const char *, char **, int);

/* stdio.h. Android has the streams under these names since version 6. */
typedef struct __sFILE FILE;
extern FILE *stderr, *stdout;
int fclose(FILE *);
int fflush(FILE *);
char *fgets(char *, int, FILE *);
FILE *fopen(const char *, const char *);
int fprintf(FILE *, const char *, ...) __attribute__((format(printf, 2, 3)));
int fputc(int, FILE *);
int fputs(const char *, FILE *);
int fscanf(FILE *, const char *, ...) __attribute__((format(scanf, 2, 3)));
int printf(const char *, ...) __attribute__((format(printf, 1, 2)));
int vfprintf(FILE *, const char *, va_list) __attribute__((format(printf, 2, 0)));

/* fcntl.h, unistd.h, sys/stat.h. O_DIRECTORY is ARM's own. */
enum { O_EXCL = 0200, O_TRUNC = 01000, O_APPEND = 02000, O_DIRECTORY = 040000 };
enum { AT_FDCWD = -100, F_GETFL = 3, F_SETFL = 4, AT_REMOVEDIR = 0x200, F_OK = 0, X_OK = 1, W_OK = 2, STDIN_FILENO = 0 };
enum { _SC_NPROCESSORS_CONF = 96 };
_Noreturn void _exit(int);
int access(const char *, int);
int chdir(const char *);
int fcntl(int, int, ...);
pid_t fork(void);
char *getcwd(char *, size_t);
pid_t getppid(void);
uid_t getuid(void);
int lstat(const char *, struct stat *);
int mkdir(const char *, mode_t);
int openat(int, const char *, int, ...);
ssize_t pread(int, void *, size_t, off_t);
int rmdir(const char *);
int setpgid(pid_t, pid_t);
int unlinkat(int, const char *, int);
int utimensat(int, const char *, const struct timespec[2], int);

/* sys/file.h, sys/syscall.h */
enum { LOCK_NB = 4, SYS_getrandom = 278 };

/* dirent.h */
typedef struct DIR DIR;
struct dirent {
  uint64_t d_ino;
  int64_t d_off;
  unsigned short d_reclen;
  unsigned char d_type;
  char d_name[256];
};
int closedir(DIR *);
DIR *fdopendir(int);
DIR *opendir(const char *);
struct dirent *readdir(DIR *);
int scandir(const char *, struct dirent ***, int (*)(const struct dirent *),
            int (*)(const struct dirent **, const struct dirent **));

/* time.h, pthread.h. A condition's attributes are a long there too. */
enum { CLOCK_THREAD_CPUTIME_ID = 3 };
int nanosleep(const struct timespec *, struct timespec *);
time_t time(time_t *);
typedef long pthread_condattr_t;
int pthread_cond_destroy(pthread_cond_t *);
int pthread_cond_init(pthread_cond_t *, const void *);
int pthread_cond_signal(pthread_cond_t *);
int pthread_cond_timedwait(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
int pthread_condattr_init(pthread_condattr_t *);
int pthread_condattr_setclock(pthread_condattr_t *, clockid_t);

/* signal.h, sys/signalfd.h, sys/wait.h, sys/prctl.h. A set of signals has 8 bytes there, and at most as
   many in glibc as here. */
enum { SIGINT = 2, SIGILL = 4, SIGABRT = 6, SIGBUS = 7, SIGFPE = 8, SIGKILL = 9, SIGSEGV = 11 };
enum { SIGPIPE = 13, SIGTERM = 15, SIGCHLD = 17, SIGSYS = 31 };
enum { SIG_BLOCK = 0, SIG_SETMASK = 2, SFD_NONBLOCK = O_NONBLOCK, SFD_CLOEXEC = O_CLOEXEC };
enum { WNOHANG = 1, WUNTRACED = 2, PR_SET_PDEATHSIG = 1 };
#define SIG_IGN ((void (*)(int))1)
#define WTERMSIG(status) ((status)&0x7f)
#define WEXITSTATUS(status) (((status) >> 8) & 0xff)
#define WIFSTOPPED(status) (((status)&0xff) == 0x7f)
#define WIFSIGNALED(status) (WTERMSIG((status) + 1) >= 2)
typedef struct {
  unsigned long own[16];
} sigset_t;
struct signalfd_siginfo {
  uint32_t ssi_signo;
  uint8_t rest[124];
};
int kill(pid_t, int);
int prctl(int, ...);
int sigaddset(sigset_t *, int);
int sigemptyset(sigset_t *);
void (*signal(int, void (*)(int)))(int);
int signalfd(int, const sigset_t *, int);
int sigprocmask(int, const sigset_t *, sigset_t *);
pid_t waitpid(pid_t, int *, int);

/* poll.h */
typedef unsigned nfds_t;
enum { POLLIN = 1, POLLOUT = 4, POLLERR = 8, POLLHUP = 16, POLLRDHUP = 0x2000 };
struct pollfd {
  int fd;
  short events, revents;
};
int poll(struct pollfd *, nfds_t, int);

/* sys/resource.h, sys/utsname.h */
enum { RLIMIT_NOFILE = 7, RLIMIT_AS = 9 };
#define RLIM_INFINITY (~0UL)
typedef unsigned long rlim_t;
struct rlimit {
  rlim_t rlim_cur, rlim_max;
};
int getrlimit(int, struct rlimit *);
int setrlimit(int, const struct rlimit *);
struct utsname {
  char sysname[65], nodename[65], release[65], version[65], machine[65], domainname[65];
};
int uname(struct utsname *);

/* sys/socket.h, sys/un.h, netinet/in.h, netinet/tcp.h, arpa/inet.h */
enum { AF_UNIX = 1, AF_INET = 2, SOCK_STREAM = 1, SOL_SOCKET = 1, SO_REUSEADDR = 2 };
enum { SO_SNDBUF = 7 };
enum { SOCK_NONBLOCK = O_NONBLOCK, SOCK_CLOEXEC = O_CLOEXEC, SO_PEERCRED = 17, SHUT_RDWR = 2 };
enum { MSG_DONTWAIT = 0x40, MSG_NOSIGNAL = 0x4000, IPPROTO_TCP = 6, TCP_NODELAY = 1, SHUT_WR = 1 };
#define INADDR_LOOPBACK 0x7f000001u
typedef uint32_t socklen_t;
typedef unsigned short sa_family_t;
struct sockaddr {
  sa_family_t sa_family;
  char sa_data[14];
};
struct in_addr {
  uint32_t s_addr;
};
struct sockaddr_in {
  sa_family_t sin_family;
  uint16_t sin_port;
  struct in_addr sin_addr;
  unsigned char sin_zero[8];
};
struct sockaddr_un {
  sa_family_t sun_family;
  char sun_path[108];
};
struct ucred {
  pid_t pid;
  uid_t uid;
  unsigned gid;
};
#define htons(number) __builtin_bswap16(number)
#define ntohs(number) __builtin_bswap16(number)
#define htonl(number) __builtin_bswap32(number)
int accept4(int, struct sockaddr *, socklen_t *, int);
int bind(int, const struct sockaddr *, socklen_t);
int connect(int, const struct sockaddr *, socklen_t);
int getpeername(int, struct sockaddr *, socklen_t *);
int getsockname(int, struct sockaddr *, socklen_t *);
int getsockopt(int, int, int, void *, socklen_t *);
int listen(int, int);
ssize_t recv(int, void *, size_t, int);
ssize_t send(int, const void *, size_t, int);
int setsockopt(int, int, int, const void *, socklen_t);
int shutdown(int, int);
int socket(int, int, int);

#endif
