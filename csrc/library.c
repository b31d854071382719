/* In a program of another C library the shim stands by, and some loaders give
 * up over it: which one is named has to be right. */
#include "library.h"

#include <errno.h>
#include <string.h>

#include "platform.h"

#ifdef __GLIBC__
#define OWN NC_LOADER_GLIBC
#else
#define OWN NC_LOADER_MUSL
#endif

static const char *const folders[] = {
    [NC_LOADER_GLIBC] = "/glibc/",
    [NC_LOADER_MUSL] = "/musl/",
};

static int
ends(const char *text, size_t size, const char *with)
{
    size_t end = strlen(with);
    return size >= end && !memcmp(text + size - end, with, end);
}

const char *
nc_library_for(const char *library, enum nc_loader loader,
               char room[NC_LIBRARY_ROOM])
{
    if (loader == OWN)
        return library;
    size_t size = strlen(library) - strlen(NC_LIBRARY); /* of its folder */
    int is_guest = ends(library, size, folders[OWN]);
    if (loader == NC_LOADER_NONE && !is_guest)
        return library; /* what it starts is this machine's, most likely */
    if (loader == NC_LOADER_OTHER || size + 64 > NC_LIBRARY_ROOM)
        return NULL;
    memcpy(room, library, size);
    if (is_guest)
        size -= strlen(folders[OWN]) - 1;
    else
        size += strlen(strcpy(room + size - 1, folders[loader])) - 1;
    strcpy(room + size, NC_LIBRARY);
    int kept = errno;
    int is_there = !nc_raw(faccessat, AT_FDCWD, room, R_OK);
    errno = kept;
    return is_there ? room : NULL;
}

static size_t
part_of(const char *list)
{
    return strcspn(list, ": ");
}

static int
is_shim(const char *part, size_t size)
{
    return ends(part, size, "/" NC_LIBRARY);
}

const char *
nc_library_in(const char *list, size_t *size)
{
    for (; *list; list += *list != 0) {
        *size = part_of(list);
        if (is_shim(list, *size))
            return list;
        list += *size;
    }
    return NULL;
}

int
nc_library_put(const char *list, const char *library, char *out, size_t room)
{
    size_t used = 0;
    for (; *list; list += *list != 0) {
        const char *part = list;
        size_t size = part_of(list);
        list += size;
        if (is_shim(part, size)) {
            part = library;
            size = library ? strlen(library) : 0;
            library = NULL;
            if (!part)
                continue;
        }
        if (used + size + 2 > room)
            return 0;
        if (used)
            out[used++] = ':';
        memcpy(out + used, part, size);
        used += size;
    }
    if (library) {
        size_t size = strlen(library);
        if (used + size + 2 > room)
            return 0;
        if (used)
            out[used++] = ':';
        memcpy(out + used, library, size);
        used += size;
    }
    out[used] = 0;
    return 1;
}
