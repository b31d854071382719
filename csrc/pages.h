/* Memory from the kernel by raw system calls: usable where malloc is not. */
#ifndef NOCLOBBER_PAGES_H
#define NOCLOBBER_PAGES_H
#include <stddef.h>

/* Zeroed memory of at least `size` bytes, or NULL. errno is kept. */
void *nc_pages_get(size_t size);

/* Gives back what nc_pages_get(size) returned. errno is kept. */
void nc_pages_drop(void *start, size_t size);
#endif
