/* Counts the bytes that a process has from malloc, and the most that it had: loaded before the
   C library (LD_PRELOAD), it sees what NumPy, LAPACK and BLAS ask for, which tracemalloc does not. */

#include <errno.h>
#include <malloc.h>
#include <stddef.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static long now, most;

static void add(long nbytes) {
    long sum = __atomic_add_fetch(&now, nbytes, __ATOMIC_RELAXED);
    if (sum > most) most = sum;
}

static void *counted(void *made) {
    if (made) add((long)malloc_usable_size(made));
    return made;
}

long counted_now(void) { return now; }
long counted_most(void) { return most; }
void counted_reset(void) { most = now; }

void *malloc(size_t size) { return counted(__libc_malloc(size)); }
void *calloc(size_t count, size_t size) { return counted(__libc_calloc(count, size)); }
void *memalign(size_t alignment, size_t size) { return counted(__libc_memalign(alignment, size)); }
void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void **made, size_t alignment, size_t size) {
    void *found = memalign(alignment, size);
    if (!found) return ENOMEM;
    *made = found;
    return 0;
}

void *realloc(void *old, size_t size) {
    long before = old ? (long)malloc_usable_size(old) : 0;
    void *made = __libc_realloc(old, size);
    if (made || !size) add((made ? (long)malloc_usable_size(made) : 0) - before);
    return made;
}

void free(void *given) {
    if (given) add(-(long)malloc_usable_size(given));
    __libc_free(given);
}
