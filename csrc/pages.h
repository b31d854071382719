/* Memory from the kernel by raw system calls: usable where malloc is not. */
#ifndef NOCLOBBER_PAGES_H
#define NOCLOBBER_PAGES_H
#include <stddef.h>

/* Large tables lie apart from the few variables that every process touches as
 * it starts, so that these share a page or two: a page's first use costs more
 * than all the rest of a start. The linker sorts by the section's name. */
#if defined(__ELF__)
#define NC_COLD __attribute__((section(".bss.cold")))
#else
#define NC_COLD
#endif

/* Zeroed memory of at least `size` bytes, or NULL. errno is kept. */
void *nc_pages_get(size_t size);

/* Gives back what nc_pages_get(size) returned. errno is kept. */
void nc_pages_drop(void *start, size_t size);
#endif
