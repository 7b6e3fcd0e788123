/* Numbers and structures that are Linux's own on 64-bit ARM: as our declarations of Android's C library have
   them, or as glibc's headers do. */
#ifdef OURS
#include "bionic_device.h"
#else
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <sys/auxv.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#endif

#define SIZE(type) (long long)sizeof(type)
#define AT(type, member) (long long)offsetof(type, member), SIZE(((type *)0)->member)

const long long layouts[] = {
    SIZE(off_t), SIZE(ssize_t), SIZE(mode_t), SIZE(pid_t), SIZE(uid_t), SIZE(time_t),
    SIZE(clockid_t), SIZE(socklen_t), SIZE(sa_family_t), SIZE(rlim_t), SIZE(pthread_condattr_t),
    SIZE(pthread_t), SIZE(pthread_key_t), SIZE(pthread_once_t), SIZE(cpu_set_t), SIZE(sigset_t),
    SIZE(struct stat), AT(struct stat, st_dev), AT(struct stat, st_ino), AT(struct stat, st_mode), AT(struct stat, st_uid),
    AT(struct stat, st_size), AT(struct stat, st_blksize), AT(struct stat, st_blocks),
    AT(struct stat, st_mtim),
    SIZE(struct dirent), AT(struct dirent, d_ino), AT(struct dirent, d_off),
    AT(struct dirent, d_reclen), AT(struct dirent, d_type), AT(struct dirent, d_name),
    SIZE(struct timespec), AT(struct timespec, tv_nsec), SIZE(struct pollfd),
    AT(struct pollfd, events), AT(struct pollfd, revents), SIZE(struct rlimit),
    AT(struct rlimit, rlim_max), SIZE(struct utsname), AT(struct utsname, machine),
    SIZE(struct sockaddr), AT(struct sockaddr, sa_data), SIZE(struct sockaddr_in),
    AT(struct sockaddr_in, sin_port), AT(struct sockaddr_in, sin_addr), SIZE(struct sockaddr_un),
    AT(struct sockaddr_un, sun_path), SIZE(struct ucred), AT(struct ucred, uid),
    AT(struct ucred, gid), SIZE(struct signalfd_siginfo), AT(struct signalfd_siginfo, ssi_signo),
    AT(struct dl_phdr_info, dlpi_phdr), AT(struct dl_phdr_info, dlpi_phnum), SIZE(Elf64_Phdr),
    AT(Elf64_Phdr, p_vaddr), AT(Elf64_Phdr, p_memsz),
    EINTR, EISDIR, EINVAL, ENOSPC, ENAMETOOLONG, ELOOP, EDQUOT, ENOENT, EAGAIN, EWOULDBLOCK, EMFILE,
    ENFILE, ENOMEM, ENOBUFS, ETIMEDOUT, EINPROGRESS,
    O_RDONLY, O_WRONLY, O_CREAT, O_EXCL, O_TRUNC, O_APPEND, O_NONBLOCK, O_CLOEXEC, O_NOFOLLOW,
    O_DIRECTORY, AT_FDCWD, F_GETFL, F_SETFL, AT_REMOVEDIR, X_OK, W_OK, STDIN_FILENO, LOCK_EX, LOCK_NB,
    SYS_gettid, SYS_getrandom, PROT_READ, PROT_WRITE, MAP_SHARED, MAP_PRIVATE, MAP_ANONYMOUS,
    MREMAP_MAYMOVE, MADV_DONTNEED, MADV_HUGEPAGE, AT_HWCAP, AT_HWCAP2, CLOCK_MONOTONIC,
    CLOCK_THREAD_CPUTIME_ID, RTLD_LOCAL, RTLD_NOW, CPU_SETSIZE, PTHREAD_ONCE_INIT,
    SIGINT, SIGILL, SIGABRT, SIGBUS, SIGFPE, SIGKILL, SIGSEGV, SIGPIPE, SIGTERM, SIGCHLD, SIGSYS,
    SIG_BLOCK, SIG_SETMASK, SFD_NONBLOCK, SFD_CLOEXEC, WNOHANG, WUNTRACED, PR_SET_PDEATHSIG,
    WTERMSIG(0x8b), WEXITSTATUS(0x0300), WIFSTOPPED(0x137f), WIFSTOPPED(0x1300), WIFSIGNALED(9),
    WIFSIGNALED(0x137f), WIFSIGNALED(0x100),
    POLLIN, POLLOUT, POLLERR, POLLHUP, POLLRDHUP, RLIMIT_NOFILE, RLIMIT_AS,
    (long long)RLIM_INFINITY, AF_UNIX, AF_INET, SOCK_STREAM, SOL_SOCKET, SO_REUSEADDR, SO_SNDBUF,
    SO_PEERCRED, SOCK_NONBLOCK, SOCK_CLOEXEC, SHUT_WR, SHUT_RDWR, MSG_DONTWAIT, MSG_NOSIGNAL,
    IPPROTO_TCP, TCP_NODELAY, INADDR_LOOPBACK,
};
