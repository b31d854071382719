/* An ELF file, as the kernel and a loader go by it: program headers, notes and
 * the dynamic section. Section headers may have been stripped. */
#include "elffile.h"

#include <errno.h>
#include <string.h>

#include "platform.h"

#define MOST_SEGMENTS 64 /* linkers make about a dozen */
#define MOST_NOTES 1024  /* bytes of notes that are looked at in a segment */
#define MOST_DYNAMIC \
    1024                /* bytes of the dynamic section; 40 entries are many */
#define MOST_VERSIONS 4 /* that are looked at; Bun's is the second */
/* Bytes: it carries a JavaScript engine, and has 90 MB. */
#define LEAST_BUN (32 << 20)

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#endif

/* Up to `size` bytes of the file from `offset` on; `got` is how many. Those of
 * the head lie there, others come to `room`. */
static const void *
bytes_at(const struct nc_image *image, uint64_t offset, size_t size, void *room,
         size_t *got)
{
    *got = 0;
    if (offset <= image->size && size <= image->size - offset) {
        *got = size;
        return image->head + offset;
    }
    if (offset > INT64_MAX - size)
        return room;
    ssize_t found = nc_raw(pread64, image->fd, room, size, (off_t)offset);
    *got = found > 0 ? (size_t)found : 0;
    return room;
}

/* ---- loaders ------------------------------------------------------- */

static int
begins(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

static const char *
base_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* A loader may stand anywhere (Nix, a bundle): its name is what tells. */
static enum nc_loader
loader_named(const char *name)
{
    if (begins(name, "ld-musl-"))
        return NC_LOADER_MUSL;
    if (begins(name, "ld-linux") || begins(name, "ld-2.") ||
        !strcmp(name, "ld.so"))
        return NC_LOADER_GLIBC;
    return NC_LOADER_OTHER;
}

/* ---- the dynamic section ------------------------------------------- */

struct dynamic {
    uint64_t strings;     /* address; 0: none */
    uint64_t definitions; /* of versions that others may bind to; likewise */
    uint64_t name;        /* where the library's own stands in the strings */
    int has_name;
    int is_pie;
};

static void
read_dynamic(const struct nc_image *image, const Elf64_Phdr *segment,
             struct dynamic *out)
{
    union {
        Elf64_Dyn each[MOST_DYNAMIC / sizeof(Elf64_Dyn)];
        char bytes[MOST_DYNAMIC];
    } room;
    size_t size = segment->p_filesz < MOST_DYNAMIC ? (size_t)segment->p_filesz
                                                   : MOST_DYNAMIC;
    const char *at =
        bytes_at(image, segment->p_offset, size, room.bytes, &size);
    memset(out, 0, sizeof *out);
    for (; size >= sizeof(Elf64_Dyn); size -= sizeof(Elf64_Dyn)) {
        Elf64_Dyn entry;
        memcpy(&entry, at, sizeof entry);
        at += sizeof entry;
        if (entry.d_tag == DT_NULL)
            return;
        if (entry.d_tag == DT_STRTAB)
            out->strings = entry.d_un.d_ptr;
        else if (entry.d_tag == DT_VERDEF)
            out->definitions = entry.d_un.d_ptr;
        else if (entry.d_tag == DT_FLAGS_1)
            out->is_pie = !!(entry.d_un.d_val & DF_1_PIE);
        else if (entry.d_tag == DT_SONAME) {
            out->name = entry.d_un.d_val;
            out->has_name = 1;
        }
    }
}

/* ---- program headers ----------------------------------------------- */

struct segments {
    unsigned count;
    Elf64_Phdr each[MOST_SEGMENTS];
};

/* The first segment of that type, or NULL. */
static const Elf64_Phdr *
segment_of(const struct segments *all, uint32_t type)
{
    for (unsigned i = 0; i < all->count; i++)
        if (all->each[i].p_type == type)
            return &all->each[i];
    return NULL;
}

/* Where in the file lies what will be at `address`? */
static int
offset_of(const struct segments *all, uint64_t address, uint64_t *out)
{
    for (unsigned i = 0; i < all->count; i++) {
        const Elf64_Phdr *at = &all->each[i];
        if (at->p_type == PT_LOAD && address >= at->p_vaddr &&
            address - at->p_vaddr < at->p_filesz) {
            *out = at->p_offset + (address - at->p_vaddr);
            return 1;
        }
    }
    return 0;
}

/* The beginning of a string in the table at `strings`, ended by NUL. */
static void
string_at(const struct nc_image *image, const struct segments *all,
          uint64_t strings, uint64_t at, char *out, size_t size)
{
    uint64_t offset;
    size_t got = 0;
    char room[64];
    const char *found = room;
    if (strings && offset_of(all, strings + at, &offset))
        found = bytes_at(image, offset, size - 1, room, &got);
    memcpy(out, found, got);
    out[got] = 0;
}

static int
has_go_note(const struct nc_image *image, const struct segments *all)
{
    static const char go[] = "Go\0";
    char room[MOST_NOTES];
    for (unsigned i = 0; i < all->count; i++) {
        const Elf64_Phdr *segment = &all->each[i];
        if (segment->p_type != PT_NOTE)
            continue;
        size_t size = segment->p_filesz < MOST_NOTES ? (size_t)segment->p_filesz
                                                     : MOST_NOTES;
        const char *at = bytes_at(image, segment->p_offset, size, room, &size);
        Elf64_Nhdr note;
        while (size >= sizeof note) {
            memcpy(&note, at, sizeof note);
            at += sizeof note;
            size -= sizeof note;
            if (note.n_namesz == sizeof go && size >= sizeof go &&
                !memcmp(at, go, sizeof go))
                return 1;
            uint64_t past = (((uint64_t)note.n_namesz + 3) & ~UINT64_C(3)) +
                            (((uint64_t)note.n_descsz + 3) & ~UINT64_C(3));
            if (past > size)
                break;
            at += past;
            size -= (size_t)past;
        }
    }
    return 0;
}

/* Bun exports what native add-ons bind to under a version of its own, BUN_1.2
 * and the like, and so does all that it compiles. Hardly any other program
 * defines a version. */
static int
is_bun(const struct nc_image *image, const struct segments *all,
       const struct dynamic *dynamic)
{
    uint64_t at = dynamic->definitions;
    for (int i = 0; at && i < MOST_VERSIONS; i++) {
        char room[sizeof(Elf64_Verdef)];
        Elf64_Verdef definition;
        Elf64_Verdaux name;
        uint64_t offset;
        size_t got;
        if (!offset_of(all, at, &offset))
            return 0;
        const void *found =
            bytes_at(image, offset, sizeof definition, room, &got);
        if (got < sizeof definition)
            return 0;
        memcpy(&definition, found, sizeof definition);
        if (!offset_of(all, at + definition.vd_aux, &offset))
            return 0;
        found = bytes_at(image, offset, sizeof name, room, &got);
        if (got < sizeof name)
            return 0;
        memcpy(&name, found, sizeof name);
        char text[8];
        string_at(image, all, dynamic->strings, name.vda_name, text,
                  sizeof text);
        if (begins(text, "BUN_"))
            return 1;
        at = definition.vd_next ? at + definition.vd_next : 0;
    }
    return 0;
}

/* Without PT_INTERP and at no fixed address: a loader started as a program, or
 * one that needs none. A loader is a library, and the linker marks those that
 * are not. */
static enum nc_loader
is_loader(const struct nc_image *image, const struct segments *all,
          const struct dynamic *dynamic)
{
    if (image->elf.e_type != ET_DYN || dynamic->is_pie)
        return NC_LOADER_NONE;
    char text[16] = "";
    if (dynamic->has_name)
        string_at(image, all, dynamic->strings, dynamic->name, text,
                  sizeof text);
    if (begins(text, "ld-linux"))
        return NC_LOADER_GLIBC;
    /* musl's has no name of its own everywhere; it may be started by another
     * that leads to it (ldd). */
    char link[64], path[256];
    nc_link_to(image->fd, link);
    ssize_t size = nc_raw_readlink(link, path, sizeof path - 1);
    path[size > 0 ? size : 0] = 0;
    const char *base = base_of(path);
    return begins(text, "libc.") || begins(base, "ld-musl-") ||
                   !strcmp(base, "libc.so")
               ? NC_LOADER_MUSL
               : NC_LOADER_NONE;
}

/* Of the segment that names it; 0: it names none. */
static int
loader_of(const struct nc_image *image, const Elf64_Phdr *segment,
          enum nc_loader *loader)
{
    char name[256];
    size_t size = segment->p_filesz < sizeof name ? (size_t)segment->p_filesz
                                                  : sizeof name;
    const char *found = bytes_at(image, segment->p_offset, size, name, &size);
    if (!size || found[size - 1])
        return 0;
    *loader = loader_named(base_of(found));
    return 1;
}

static enum nc_reason
reason_for(enum nc_loader loader, int is_fixed)
{
    switch (loader) {
    case NC_LOADER_GLIBC:
        return NC_REASON_GLIBC;
    case NC_LOADER_MUSL:
        return NC_REASON_MUSL;
    case NC_LOADER_OTHER:
        return NC_REASON_LOADER;
    default:
        return is_fixed ? NC_REASON_STATIC : NC_REASON_STATIC_PIE;
    }
}

/* 0: they are not all there. */
static int
read_segments(const struct nc_image *image, struct segments *all)
{
    const Elf64_Ehdr *elf = &image->elf;
    size_t got, size = elf->e_phnum * sizeof *all->each;
    if (elf->e_phentsize != sizeof *all->each || !size ||
        elf->e_phnum > MOST_SEGMENTS)
        return 0;
    const void *found = bytes_at(image, elf->e_phoff, size, all->each, &got);
    if (got < size)
        return 0;
    if (found != all->each)
        memcpy(all->each, found, size);
    all->count = elf->e_phnum;
    return 1;
}

struct nc_program
nc_program_of_elf(const struct nc_image *image)
{
    const Elf64_Ehdr *elf = &image->elf;
    struct nc_program out = {.why = NC_REASON_UNKNOWN};
    if (image->size < sizeof *elf ||
        (elf->e_type != ET_EXEC && elf->e_type != ET_DYN))
        return out;
    if (elf->e_ident[EI_CLASS] != ELFCLASS64 ||
        elf->e_ident[EI_DATA] != ELFDATA2LSB || elf->e_machine != MACHINE) {
        out.why = NC_REASON_MACHINE;
        out.loader = NC_LOADER_OTHER;
        return out;
    }
    struct segments all;
    if (!read_segments(image, &all))
        return out;
    struct dynamic dynamic = {0};
    const Elf64_Phdr *named = segment_of(&all, PT_INTERP);
    const Elf64_Phdr *table = segment_of(&all, PT_DYNAMIC);
    if (table && (!named || image->file_size >= LEAST_BUN))
        read_dynamic(image, table, &dynamic);
    if (!named)
        out.loader = is_loader(image, &all, &dynamic);
    else if (!loader_of(image, named, &out.loader))
        return out;
    if (has_go_note(image, &all))
        out.why = NC_REASON_GO;
    else if (is_bun(image, &all, &dynamic))
        out.why = NC_REASON_BUN;
    else
        out.why = reason_for(out.loader, elf->e_type == ET_EXEC);
    return out;
}
