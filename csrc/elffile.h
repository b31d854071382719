/* A program's ELF file: how it is loaded, and what made it. */
#ifndef NOCLOBBER_ELFFILE_H
#define NOCLOBBER_ELFFILE_H
#include <elf.h>
#include <stddef.h>
#include <sys/types.h>

#include "program.h"

#define NC_HEAD 4096 /* bytes: nearly always all that is needed */

struct nc_image {
    int fd;
    size_t size; /* of `head` */
    off_t file_size;
    union {
        unsigned char head[NC_HEAD]; /* the file's beginning */
        Elf64_Ehdr elf;
    };
};

/* What its headers say, all but `cover`; the file begins with ELF's mark.
 * NC_REASON_UNKNOWN where they make no sense. */
struct nc_program nc_program_of_elf(const struct nc_image *image);
#endif
