/* Faults for the tests: a library to be loaded before libc with LD_PRELOAD. It lets system calls of a program fail as
   TRUEMAX_FAULTS says: rules separated by ';', each

     CALL,WHAT,AFTER[,MATCH]

   CALL   write (write, pwrite), read (read, pread), open (that creates a file), sync (fsync, fdatasync), rename,
          truncate, allocate (posix_fallocate), memory (malloc and its kin, anonymous mmap)
   WHAT   ENOSPC, EIO, ENOMEM, EACCES: every call fails so from then on
          EINTR: every other call fails so; short: every other call transfers one byte only
          KILL: the process gets SIGKILL
   AFTER  the number of calls that are left alone, or with a 'b' of bytes: "3", "4096b". The call that would pass a number
          of bytes transfers those that are left
   MATCH  only files whose path has this in it, or ends so if a '$' follows

   Calls that libc makes itself, such as those of fwrite, are not seen: full disks of logs are tested with a file size
   limit or a small file system. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

enum call { WRITE, READ, OPEN, SYNC, RENAME, TRUNCATE, ALLOCATE, MEMORY, CALLS };
static const char* const call_names[CALLS] = {"write",  "read",     "open",     "sync",
                                              "rename", "truncate", "allocate", "memory"};
enum what { FAIL, INTERRUPT, SHORT, KILL };

struct rule {
  enum call call;
  enum what what;
  int error;
  int in_bytes;
  long long after;
  char match[256];
  atomic_llong seen; /* calls or bytes */
};

enum { MOST_RULES = 8 };
static struct rule rules[MOST_RULES];
static atomic_int rule_count = -1; /* not read yet */

static void stop(const char* why) {
  static const char start[] = "preload: TRUEMAX_FAULTS: ";
  if (syscall(1, 2, start, sizeof start - 1) < 0 || syscall(1, 2, why, strlen(why)) < 0 || syscall(1, 2, "\n", 1L) < 0)
    _exit(97);
  _exit(97);
}

static void read_rule(char* text, struct rule* rule) {
  char* rest = text;
  const char* const call = strsep(&rest, ",");
  const char* const what = strsep(&rest, ",");
  const char* const after = strsep(&rest, ",");
  if (call == NULL || what == NULL || after == NULL) stop("a rule is CALL,WHAT,AFTER[,MATCH]");
  int found = 0;
  for (int c = 0; c < CALLS; ++c)
    if (strcmp(call, call_names[c]) == 0) rule->call = (enum call)c, found = 1;
  if (!found) stop("there is no such call");
  static const struct {
    const char* name;
    enum what what;
    int error;
  } kinds[] = {{"ENOSPC", FAIL, ENOSPC}, {"EIO", FAIL, EIO},          {"ENOMEM", FAIL, ENOMEM}, {"EACCES", FAIL, EACCES},
               {"EINTR", INTERRUPT, EINTR}, {"short", SHORT, 0}, {"KILL", KILL, 0}};
  found = 0;
  for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; ++k)
    if (strcmp(what, kinds[k].name) == 0) rule->what = kinds[k].what, rule->error = kinds[k].error, found = 1;
  if (!found) stop("there is no such fault");
  char* end = NULL;
  rule->after = strtoll(after, &end, 10);
  rule->in_bytes = end != NULL && *end == 'b';
  if (rest != NULL) snprintf(rule->match, sizeof rule->match, "%s", rest);
}

static void read_rules(void) {
  static char text[2048];
  const char* const given = getenv("TRUEMAX_FAULTS");
  snprintf(text, sizeof text, "%s", given == NULL ? "" : given);
  char* rest = text;
  int count = 0;
  for (char* one = strsep(&rest, ";"); one != NULL; one = strsep(&rest, ";")) {
    if (*one == 0) continue;
    if (count == MOST_RULES) stop("too many rules");
    read_rule(one, &rules[count++]);
  }
  atomic_store(&rule_count, count);
}

__attribute__((constructor)) static void start(void) {
  if (atomic_load(&rule_count) < 0) read_rules();
}

static int matches(const struct rule* rule, int file, const char* path) {
  if (rule->match[0] == 0) return 1;
  char found[PATH_MAX + 1];
  if (path == NULL) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    const ssize_t length = readlink(link, found, PATH_MAX);
    if (length < 0) return 0;
    found[length] = 0;
    path = found;
  }
  const size_t length = strlen(rule->match), whole = strlen(path);
  if (rule->match[length - 1] == '$')
    return whole >= length - 1 && strncmp(path + whole - (length - 1), rule->match, length - 1) == 0;
  return strstr(path, rule->match) != NULL;
}

/* What happens to a call on `file`, or on `path` if it is not null: -1 with errno set if it fails, else the bytes that it
   may transfer, of *bytes. */
static int before(enum call call, int file, const char* path, size_t* bytes) {
  const int count = atomic_load(&rule_count);
  for (int r = 0; r < count; ++r) {
    struct rule* const rule = &rules[r];
    if (rule->call != call || !matches(rule, file, path)) continue;
    const long long size = rule->in_bytes ? (long long)(bytes == NULL ? 0 : *bytes) : 1;
    const long long seen = atomic_fetch_add(&rule->seen, size);
    if (seen + size <= rule->after) continue;
    if (rule->what == KILL) {
      /* What still fits is left to the next call, as when power fails in the middle. */
      kill(getpid(), SIGKILL);
      pause();
    }
    if (rule->in_bytes && seen < rule->after && bytes != NULL) {
      *bytes = (size_t)(rule->after - seen);
      continue;
    }
    if (rule->what == SHORT) {
      if (seen % 2 == 0 && bytes != NULL && *bytes > 1) *bytes = 1;
      continue;
    }
    if (rule->what == INTERRUPT && seen % 2 != 0) continue;
    errno = rule->error;
    return -1;
  }
  return 0;
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int file, const void* from, size_t size) {
  if (before(WRITE, file, NULL, &size) != 0) return -1;
  return NEXT(write)(file, from, size);
}
ssize_t pwrite(int file, const void* from, size_t size, off_t at) {
  if (before(WRITE, file, NULL, &size) != 0) return -1;
  return NEXT(pwrite)(file, from, size, at);
}
ssize_t pwrite64(int file, const void* from, size_t size, off64_t at) {
  if (before(WRITE, file, NULL, &size) != 0) return -1;
  return NEXT(pwrite64)(file, from, size, at);
}
ssize_t read(int file, void* to, size_t size) {
  if (before(READ, file, NULL, &size) != 0) return -1;
  return NEXT(read)(file, to, size);
}
ssize_t pread(int file, void* to, size_t size, off_t at) {
  if (before(READ, file, NULL, &size) != 0) return -1;
  return NEXT(pread)(file, to, size, at);
}
ssize_t pread64(int file, void* to, size_t size, off64_t at) {
  if (before(READ, file, NULL, &size) != 0) return -1;
  return NEXT(pread64)(file, to, size, at);
}
int fsync(int file) {
  return before(SYNC, file, NULL, NULL) != 0 ? -1 : NEXT(fsync)(file);
}
int fdatasync(int file) {
  return before(SYNC, file, NULL, NULL) != 0 ? -1 : NEXT(fdatasync)(file);
}
int rename(const char* from, const char* to) {
  return before(RENAME, -1, to, NULL) != 0 ? -1 : NEXT(rename)(from, to);
}
int ftruncate(int file, off_t length) {
  return before(TRUNCATE, file, NULL, NULL) != 0 ? -1 : NEXT(ftruncate)(file, length);
}
int ftruncate64(int file, off64_t length) {
  return before(TRUNCATE, file, NULL, NULL) != 0 ? -1 : NEXT(ftruncate64)(file, length);
}
int posix_fallocate(int file, off_t at, off_t length) { /* returns the error */
  size_t bytes = (size_t)length;
  const int kept = errno;
  if (before(ALLOCATE, file, NULL, &bytes) != 0) {
    const int error = errno;
    errno = kept;
    return error;
  }
  return NEXT(posix_fallocate)(file, at, length);
}
int posix_fallocate64(int file, off64_t at, off64_t length) {
  size_t bytes = (size_t)length;
  const int kept = errno;
  if (before(ALLOCATE, file, NULL, &bytes) != 0) {
    const int error = errno;
    errno = kept;
    return error;
  }
  return NEXT(posix_fallocate64)(file, at, length);
}

static int before_open(const char* path, int flags) {
  return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? before(OPEN, -1, path, NULL) : 0;
}
#define OPEN_MODE                                                              \
  mode_t mode = 0;                                                             \
  if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE) {            \
    va_list more;                                                              \
    va_start(more, flags);                                                     \
    mode = va_arg(more, mode_t);                                               \
    va_end(more);                                                              \
  }
int open(const char* path, int flags, ...) {
  OPEN_MODE
  return before_open(path, flags) != 0 ? -1 : NEXT(open)(path, flags, mode);
}
int open64(const char* path, int flags, ...) {
  OPEN_MODE
  return before_open(path, flags) != 0 ? -1 : NEXT(open64)(path, flags, mode);
}
FILE* fopen(const char* path, const char* mode) {
  return strchr(mode, 'w') != NULL && before(OPEN, -1, path, NULL) != 0 ? NULL : NEXT(fopen)(path, mode);
}
FILE* fopen64(const char* path, const char* mode) {
  return strchr(mode, 'w') != NULL && before(OPEN, -1, path, NULL) != 0 ? NULL : NEXT(fopen64)(path, mode);
}

/* Small allocations never fail, as on a machine that runs out of memory. */
extern void* __libc_malloc(size_t size);
extern void* __libc_calloc(size_t count, size_t size);
extern void* __libc_realloc(void* old, size_t size);
extern void* __libc_memalign(size_t alignment, size_t size);
enum { SMALL = 4096 };

static int no_memory(size_t size) {
  return atomic_load(&rule_count) > 0 && size >= SMALL && before(MEMORY, -1, "", &size) != 0;
}
void* malloc(size_t size) {
  return no_memory(size) ? NULL : __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  return no_memory(count * size) ? NULL : __libc_calloc(count, size);
}
void* realloc(void* old, size_t size) {
  return no_memory(size) ? NULL : __libc_realloc(old, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  return no_memory(size) ? NULL : __libc_memalign(alignment, size);
}
int posix_memalign(void** out, size_t alignment, size_t size) {
  if (no_memory(size)) return ENOMEM;
  *out = __libc_memalign(alignment, size);
  return *out == NULL ? ENOMEM : 0;
}
void* mmap(void* at, size_t size, int protection, int flags, int file, off_t offset) {
  if (file < 0 && no_memory(size)) return MAP_FAILED;
  return NEXT(mmap)(at, size, protection, flags, file, offset);
}
