/* A library that is preloaded into a program (LD_PRELOAD) and stands between it and the calls that change files.

   INTERPOSER_ORDERS names a file of one page, which the test that started the program shares with it: `struct orders`.
   INTERPOSER_DISK is a directory: only calls for files of its file system count. At the call that the orders name, the
   whole program is stopped (SIGSTOP) when so many hundredths of the call are done, or the call fails with an errno,
   once, or the device takes nothing while the call is made: INTERPOSER_DEVICE, the file it is kept in, is immutable then.
   INTERPOSER_BOOT is a file that is read in place of the system's boot identifier.
   With `indirect`, the disk takes no direct writes (O_DIRECT). With `syncless`, calls that wait for the medium do nothing, and files are opened without the flags that have each
   write wait for it: what a program looks like that syncs nothing. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITE = 1, SYNC = 2, NAME = 4, SECTOR = 512, PAGE = 4096 };

struct orders {
    int64_t left;       /* calls of these kinds until the one that is meant; 0 when none is */
    int64_t calls;      /* calls so far, of whatever kind */
    uint32_t kinds;
    uint32_t hundredths; /* of the call are done before the stop: 0 is before it, 100 after it */
    uint32_t error;     /* instead of a stop */
    uint32_t syncless;
    uint32_t indirect;
    uint32_t device;    /* fails during the call, instead of a stop */
    uint32_t met;       /* set when the call has come */
    char only[64];      /* calls for files that have this in their names count; "" for all */
    char what[256];     /* which it was: "pwrite64 log.0" */
};

static struct orders *orders;
static dev_t disk;

__attribute__((constructor)) static void begin(void)
{
    const char *file = getenv("INTERPOSER_ORDERS"), *directory = getenv("INTERPOSER_DISK");
    struct stat found;
    if (file == NULL || directory == NULL || stat(directory, &found) != 0)
        return;
    int (*real_open)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
    int fd = real_open(file, O_RDWR | O_CLOEXEC);
    void *shared = fd < 0 ? MAP_FAILED : mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (shared == MAP_FAILED)
        abort();
    close(fd);
    disk = found.st_dev;
    orders = shared;
}

/* Whether this call is the one that the orders name. */
static int meant(uint32_t kind, const struct stat *file, const char *call, const char *name)
{
    if (orders == NULL || file->st_dev != disk)
        return 0;
    __atomic_add_fetch(&orders->calls, 1, __ATOMIC_SEQ_CST);
    if (!(orders->kinds & kind) || strstr(name, orders->only) == NULL)
        return 0;
    if (__atomic_load_n(&orders->left, __ATOMIC_SEQ_CST) <= 0)
        return 0;
    if (__atomic_sub_fetch(&orders->left, 1, __ATOMIC_SEQ_CST) != 0)
        return 0;
    snprintf(orders->what, sizeof orders->what, "%s %s", call, name);
    return 1;
}

static int meant_file(uint32_t kind, int fd, const char *call)
{
    struct stat file;
    char link[32], path[PAGE];
    if (orders == NULL || fstat(fd, &file) != 0 || !(S_ISREG(file.st_mode) || S_ISDIR(file.st_mode)))
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = 0;
    char *slash = strrchr(path, '/');
    return meant(kind, &file, call, slash == NULL ? path : slash + 1);
}

static int meant_name(const char *path, const char *call)
{
    struct stat file;
    char directory[PAGE];
    if (orders == NULL || strlen(path) >= sizeof directory)
        return 0;
    strcpy(directory, path);
    char *slash = strrchr(directory, '/');
    if (slash == NULL)
        strcpy(directory, ".");
    else
        slash[slash == directory] = 0;
    if (stat(directory, &file) != 0)
        return 0;
    slash = strrchr(path, '/');
    return meant(NAME, &file, call, slash == NULL ? path : slash + 1);
}

/* Carry out the orders. Returns an error to be reported instead of the call's result; else not until it is resumed. */
static int act(void)
{
    __atomic_store_n(&orders->met, 1, __ATOMIC_SEQ_CST);
    if (orders->error)
        return orders->error;
    kill(getpid(), SIGSTOP);
    return 0;
}

/* Have the device take nothing, or everything again. The error of the call in between is kept. */
static void set_failing(int failing)
{
    int kept = errno, fd = open(getenv("INTERPOSER_DEVICE"), O_RDONLY | O_CLOEXEC);
    long flags = 0;
    if (fd < 0 || ioctl(fd, FS_IOC_GETFLAGS, &flags) != 0)
        abort();
    flags = failing ? flags | FS_IMMUTABLE_FL : flags & ~FS_IMMUTABLE_FL;
    if (ioctl(fd, FS_IOC_SETFLAGS, &flags) != 0)
        abort();
    close(fd);
    errno = kept;
}

/* The result of a call that is made while the device takes nothing. */
#define WITHOUT_DEVICE(result, call) \
    do { \
        __atomic_store_n(&orders->met, 1, __ATOMIC_SEQ_CST); \
        set_failing(1); \
        result failed = call; \
        set_failing(0); \
        return failed; \
    } while (0)

/* How much of a write is done before the stop: whole sectors. */
static size_t share(size_t bytes)
{
    if (orders->error || orders->hundredths == 0)
        return 0;
    return orders->hundredths >= 100 ? bytes : bytes * orders->hundredths / 100 / SECTOR * SECTOR;
}

#define REAL(result, name, ...) \
    static result (*real)(__VA_ARGS__); \
    if (real == NULL) \
        real = dlsym(RTLD_NEXT, name)

#define FAIL_OR_STOP() \
    do { \
        int error = act(); \
        if (error) { \
            errno = error; \
            return -1; \
        } \
    } while (0)

/* A call that is one step: stopped before it or after it. */
#define STEP(is_meant, call) \
    do { \
        if (!(is_meant)) \
            return call; \
        if (orders->device) \
            WITHOUT_DEVICE(int, call); \
        if (orders->error || orders->hundredths < 100) { \
            FAIL_OR_STOP(); \
            return call; \
        } \
        int result = call; \
        FAIL_OR_STOP(); \
        return result; \
    } while (0)

/* Writes */

static ssize_t write_parts(int fd, const struct iovec *parts, int count, off64_t offset, int flags, const char *call)
{
    REAL(ssize_t, "pwritev64v2", int, const struct iovec *, int, off64_t, int);
    if (orders != NULL && orders->syncless)
        flags &= ~(RWF_DSYNC | RWF_SYNC);
    if (!meant_file(WRITE, fd, call))
        return real(fd, parts, count, offset, flags);
    if (orders->device)
        WITHOUT_DEVICE(ssize_t, real(fd, parts, count, offset, flags));
    struct iovec some[count];
    size_t bytes = 0;
    for (int i = 0; i < count; i++)
        bytes += parts[i].iov_len;
    size_t wanted = share(bytes), left = wanted;
    int used = 0;
    for (; used < count && left > 0; used++) {
        some[used] = parts[used];
        if (some[used].iov_len > left)
            some[used].iov_len = left;
        left -= some[used].iov_len;
    }
    ssize_t written = wanted == 0 ? 0 : real(fd, some, used, offset, flags);
    FAIL_OR_STOP();
    return written == (ssize_t)bytes ? written : real(fd, parts, count, offset, flags);
}

ssize_t pwritev64v2(int fd, const struct iovec *parts, int count, off64_t offset, int flags)
{
    return write_parts(fd, parts, count, offset, flags, "pwritev2");
}

ssize_t pwritev2(int fd, const struct iovec *parts, int count, off64_t offset, int flags)
{
    return write_parts(fd, parts, count, offset, flags, "pwritev2");
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t offset)
{
    return write_parts(fd, parts, count, offset, 0, "pwritev");
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off64_t offset)
{
    return write_parts(fd, parts, count, offset, 0, "pwritev");
}

ssize_t pwrite64(int fd, const void *data, size_t bytes, off64_t offset)
{
    struct iovec part = {(void *)data, bytes};
    return write_parts(fd, &part, 1, offset, 0, "pwrite64");
}

ssize_t pwrite(int fd, const void *data, size_t bytes, off64_t offset)
{
    return pwrite64(fd, data, bytes, offset);
}

ssize_t write(int fd, const void *data, size_t bytes)
{
    REAL(ssize_t, "write", int, const void *, size_t);
    if (!meant_file(WRITE, fd, "write"))
        return real(fd, data, bytes);
    if (orders->device)
        WITHOUT_DEVICE(ssize_t, real(fd, data, bytes));
    size_t wanted = share(bytes);
    ssize_t written = wanted == 0 ? 0 : real(fd, data, wanted);
    FAIL_OR_STOP();
    return written > 0 ? written : real(fd, data, bytes);
}

/* Syncs */

#define IS_SYNCLESS (orders != NULL && orders->syncless)

int fsync(int fd)
{
    REAL(int, "fsync", int);
    STEP(meant_file(SYNC, fd, "fsync"), IS_SYNCLESS ? 0 : real(fd));
}

int fdatasync(int fd)
{
    REAL(int, "fdatasync", int);
    STEP(meant_file(SYNC, fd, "fdatasync"), IS_SYNCLESS ? 0 : real(fd));
}

int sync_file_range(int fd, off64_t offset, off64_t bytes, unsigned flags)
{
    REAL(int, "sync_file_range", int, off64_t, off64_t, unsigned);
    return IS_SYNCLESS ? 0 : real(fd, offset, bytes, flags);
}

int msync(void *start, size_t bytes, int flags)
{
    REAL(int, "msync", void *, size_t, int);
    return IS_SYNCLESS ? 0 : real(start, bytes, flags);
}

int syncfs(int fd)
{
    REAL(int, "syncfs", int);
    return IS_SYNCLESS ? 0 : real(fd);
}

void sync(void)
{
    REAL(void, "sync", void);
    if (!IS_SYNCLESS)
        real();
}

/* Names and sizes */

static int asked(int flags)
{
    return IS_SYNCLESS ? flags & ~(O_SYNC | O_DSYNC | O_DIRECT) : flags;
}

static mode_t mode_of(int flags, va_list more)
{
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(more, mode_t) : 0;
}

static int open_at(int directory, const char *path, int flags, mode_t mode)
{
    REAL(int, "openat64", int, const char *, int, ...);
    if (orders != NULL && orders->indirect && flags & O_DIRECT) {
        errno = EINVAL;
        return -1;
    }
    if (orders != NULL && strcmp(path, "/proc/sys/kernel/random/boot_id") == 0)
        path = getenv("INTERPOSER_BOOT");
    STEP(flags & O_CREAT && meant_name(path, "creat"), real(directory, path, asked(flags), mode));
}

#define OPEN(name) \
    int name(const char *path, int flags, ...) \
    { \
        va_list more; \
        va_start(more, flags); \
        mode_t mode = mode_of(flags, more); \
        va_end(more); \
        return open_at(AT_FDCWD, path, flags, mode); \
    }

#define OPENAT(name) \
    int name(int directory, const char *path, int flags, ...) \
    { \
        va_list more; \
        va_start(more, flags); \
        mode_t mode = mode_of(flags, more); \
        va_end(more); \
        return open_at(directory, path, flags, mode); \
    }

OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

int __open_2(const char *path, int flags)
{
    return open_at(AT_FDCWD, path, flags, 0);
}

int __open64_2(const char *path, int flags)
{
    return open_at(AT_FDCWD, path, flags, 0);
}

int rename(const char *from, const char *to)
{
    REAL(int, "rename", const char *, const char *);
    STEP(meant_name(to, "rename"), real(from, to));
}

int renameat(int old, const char *from, int new, const char *to)
{
    REAL(int, "renameat", int, const char *, int, const char *);
    STEP(meant_name(to, "rename"), real(old, from, new, to));
}

int unlink(const char *path)
{
    REAL(int, "unlink", const char *);
    STEP(meant_name(path, "unlink"), real(path));
}

int unlinkat(int directory, const char *path, int flags)
{
    REAL(int, "unlinkat", int, const char *, int);
    STEP(meant_name(path, "unlink"), real(directory, path, flags));
}

int mkdir(const char *path, mode_t mode)
{
    REAL(int, "mkdir", const char *, mode_t);
    STEP(meant_name(path, "mkdir"), real(path, mode));
}

int ftruncate64(int fd, off64_t size)
{
    REAL(int, "ftruncate64", int, off64_t);
    STEP(meant_file(NAME, fd, "ftruncate"), real(fd, size));
}

int ftruncate(int fd, off64_t size)
{
    return ftruncate64(fd, size);
}

int fallocate64(int fd, int mode, off64_t offset, off64_t bytes)
{
    REAL(int, "fallocate64", int, int, off64_t, off64_t);
    STEP(meant_file(NAME, fd, "fallocate"), real(fd, mode, offset, bytes));
}

int fallocate(int fd, int mode, off64_t offset, off64_t bytes)
{
    return fallocate64(fd, mode, offset, bytes);
}

int posix_fallocate64(int fd, off64_t offset, off64_t bytes)
{
    REAL(int, "posix_fallocate64", int, off64_t, off64_t);
    int is_meant = meant_file(NAME, fd, "fallocate"), error;
    if (is_meant && (error = act()))
        return error;
    return real(fd, offset, bytes);
}

int posix_fallocate(int fd, off64_t offset, off64_t bytes)
{
    return posix_fallocate64(fd, offset, bytes);
}
