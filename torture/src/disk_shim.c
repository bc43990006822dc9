/* LD_PRELOAD shim between a child process and its files. It records every file change in order, records
 * acknowledgements (writes to standard output) in the same order, kills the process at a chosen operation, or makes
 * operations fail. Ignores `-shm` and the lock files, because their contents are not persistent data.
 *
 *   TORTURE_FOLDER  directory of the traced files
 *   TORTURE_TRACE   output file of the trace
 *   TORTURE_KILL    dbwrite:N or walsync:N: SIGKILL before the N-th write to the database, or sync of its log
 *   TORTURE_FAULT   write:N:K:ERRNO or sync:N:K:ERRNO: K operations fail from the N-th on
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define FILES 4096

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *names[FILES];
static const char *folder;
static int trace = -1;
static char kill_kind[16], fault_kind[16];
static long kill_at, fault_at, fault_count, fault_errno;
static long db_writes, wal_syncs, writes, syncs;

static int (*real_open)(const char *, int, ...);
static int (*real_close)(int);
static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static int (*real_ftruncate)(int, off_t);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static int (*real_unlink)(const char *);
static int (*real_rename)(const char *, const char *);
static int (*real_linkat)(int, const char *, int, const char *, int);

static int ends(const char *text, const char *with) {
    size_t length = strlen(text), end = strlen(with);
    return length >= end && strcmp(text + length - end, with) == 0;
}

/* Name of a traced file, or NULL. */
static const char *name_of(const char *path) {
    if (!folder) return NULL;
    size_t length = strlen(folder);
    if (strncmp(path, folder, length) != 0 || path[length] != '/') return NULL;
    path += length + 1;
    return ends(path, "-shm") || ends(path, "-queue") || ends(path, "-turn") ? NULL : path;
}

static const char *file(int fd) { return fd >= 0 && fd < FILES ? names[fd] : NULL; }

static void put(const void *data, size_t length) {
    const char *from = data;
    while (length > 0) {
        ssize_t done = real_write(trace, from, length);
        if (done <= 0) abort();
        from += done;
        length -= done;
    }
}

static void note(char what, const char *name, long long number, const void *data, size_t length) {
    if (trace < 0) return;
    char head[512];
    int used = snprintf(head, sizeof head, "%c %s %lld %zu\n", what, name, number, length);
    put(head, used);
    if (length) put(data, length);
}

__attribute__((constructor)) static void begin(void) {
    real_open = dlsym(RTLD_NEXT, "open");
    real_close = dlsym(RTLD_NEXT, "close");
    real_write = dlsym(RTLD_NEXT, "write");
    real_pwrite = dlsym(RTLD_NEXT, "pwrite");
    real_ftruncate = dlsym(RTLD_NEXT, "ftruncate");
    real_fsync = dlsym(RTLD_NEXT, "fsync");
    real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
    real_unlink = dlsym(RTLD_NEXT, "unlink");
    real_rename = dlsym(RTLD_NEXT, "rename");
    real_linkat = dlsym(RTLD_NEXT, "linkat");
    const char *text = getenv("TORTURE_KILL");
    if (text) sscanf(text, "%15[^:]:%ld", kill_kind, &kill_at);
    text = getenv("TORTURE_FAULT");
    if (text) sscanf(text, "%15[^:]:%ld:%ld:%ld", fault_kind, &fault_at, &fault_count, &fault_errno);
    text = getenv("TORTURE_TRACE");
    if (text) trace = real_open(text, O_WRONLY | O_CREAT | O_APPEND, 0600);
    folder = getenv("TORTURE_FOLDER");
    note('G', "process", getpid(), NULL, 0);
}

static void maybe_kill(const char *kind, long count) {
    if (kill_at && count == kill_at && strcmp(kind, kill_kind) == 0) kill(getpid(), SIGKILL);
}

static int maybe_fail(const char *kind, long count) {
    if (!fault_at || strcmp(kind, fault_kind) != 0) return 0;
    if (count < fault_at || count >= fault_at + fault_count) return 0;
    errno = (int)fault_errno;
    return 1;
}

static int opened(const char *path, int flags, mode_t mode) {
    int fd = real_open(path, flags, mode);
    const char *name = name_of(path);
    if (fd >= 0 && fd < FILES && name && !(flags & O_DIRECTORY)) {
        pthread_mutex_lock(&lock);
        free(names[fd]);
        names[fd] = strdup(name);
        if (flags & O_CREAT) note('C', name, 0, NULL, 0);
        if (flags & O_TRUNC) note('T', name, 0, NULL, 0);
        pthread_mutex_unlock(&lock);
    }
    return fd;
}

#define OPEN(NAME)                                                                                                     \
    int NAME(const char *path, int flags, ...) {                                                                       \
        va_list rest;                                                                                                  \
        va_start(rest, flags);                                                                                         \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;                                        \
        va_end(rest);                                                                                                  \
        return opened(path, flags, mode);                                                                              \
    }
OPEN(open)
OPEN(open64)

int close(int fd) {
    if (file(fd)) {
        pthread_mutex_lock(&lock);
        free(names[fd]);
        names[fd] = NULL;
        pthread_mutex_unlock(&lock);
    }
    return real_close(fd);
}

static ssize_t written(int fd, const void *data, size_t length, off_t at, int positioned) {
    pthread_mutex_lock(&lock);
    const char *name = names[fd];
    if (strcmp(name, "flyball.db") == 0) maybe_kill("dbwrite", ++db_writes);
    ssize_t done = -1;
    if (!maybe_fail("write", ++writes)) {
        off_t place = positioned ? at : lseek(fd, 0, SEEK_CUR);
        done = positioned ? real_pwrite(fd, data, length, at) : real_write(fd, data, length);
        if (done > 0) note('W', name, place, data, done);
    }
    int saved = errno;
    pthread_mutex_unlock(&lock);
    errno = saved;
    return done;
}

ssize_t write(int fd, const void *data, size_t length) {
    if (file(fd)) return written(fd, data, length, 0, 0);
    if (fd == 1 && trace >= 0) {
        pthread_mutex_lock(&lock);
        note('A', "stdout", 0, data, length);
        ssize_t done = real_write(fd, data, length);
        pthread_mutex_unlock(&lock);
        return done;
    }
    return real_write(fd, data, length);
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t at) {
    return file(fd) ? written(fd, data, length, at, 1) : real_pwrite(fd, data, length, at);
}

ssize_t pwrite64(int fd, const void *data, size_t length, off_t at) { return pwrite(fd, data, length, at); }

int ftruncate(int fd, off_t size) {
    if (!file(fd)) return real_ftruncate(fd, size);
    pthread_mutex_lock(&lock);
    int done = real_ftruncate(fd, size);
    if (done == 0) note('T', names[fd], size, NULL, 0);
    pthread_mutex_unlock(&lock);
    return done;
}

int ftruncate64(int fd, off_t size) { return ftruncate(fd, size); }

static int synced(int fd, int (*sync)(int)) {
    if (!file(fd)) return sync(fd);
    pthread_mutex_lock(&lock);
    if (ends(names[fd], "-wal")) maybe_kill("walsync", ++wal_syncs);
    int done = -1;
    if (!maybe_fail("sync", ++syncs)) {
        done = sync(fd);
        if (done == 0) note('S', names[fd], 0, NULL, 0);
    }
    int saved = errno;
    pthread_mutex_unlock(&lock);
    errno = saved;
    return done;
}

int fsync(int fd) { return synced(fd, real_fsync); }
int fdatasync(int fd) { return synced(fd, real_fdatasync); }

int unlink(const char *path) {
    int done = real_unlink(path);
    const char *name = name_of(path);
    if (done == 0 && name) {
        pthread_mutex_lock(&lock);
        note('U', name, 0, NULL, 0);
        pthread_mutex_unlock(&lock);
    }
    return done;
}

int rename(const char *from, const char *to) {
    int done = real_rename(from, to);
    const char *old = name_of(from), *new = name_of(to);
    if (done == 0 && old && new) {
        pthread_mutex_lock(&lock);
        note('R', old, 0, new, strlen(new));
        pthread_mutex_unlock(&lock);
    }
    return done;
}

/* A new store is hard-linked to its name and its temporary name is removed: a rename that never overwrites. */
int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
    int done = real_linkat(from_folder, from, to_folder, to, flags);
    const char *old = name_of(from), *new = name_of(to);
    if (done == 0 && old && new) {
        pthread_mutex_lock(&lock);
        note('R', old, 0, new, strlen(new));
        pthread_mutex_unlock(&lock);
    }
    return done;
}
