/* Programs that the shim does not enter are started under a supervisor; and
 * what a process that it did enter says to one. */
#include <link.h>
#include <string.h>

#include "shim.h"
#include "submit.h"

#define SAID "unsupervised" /* beside the socket: the last command that heard */

/* ---- whom ---------------------------------------------------------- */

/* Is it one that the shim sees nothing of, or too little? */
static int
needs_it(const struct nc_start *start, const struct nc_program *program)
{
    if (program->cover != NC_COVER_SUPERVISOR &&
        (program->cover != NC_COVER_OTHER || nc_has_library(program->loader)))
        return 0;
    int kept = errno;
    /* of one that does not start the kernel says why */
    int starts =
        start->argv && start->path &&
        (!*start->path || !nc_raw(faccessat, start->at, start->path, X_OK));
    errno = kept;
    return starts;
}

/* Are its reads made by the code of a C library that the shim is not in? */
static int
is_broad(const struct nc_program *program)
{
    return program->why != NC_REASON_STATIC && program->why != NC_REASON_GO &&
           program->why != NC_REASON_BUN;
}

/* ---- where it cannot be --------------------------------------------- */

/* Was this command told already? */
static int
was_said(void)
{
    char path[NC_PATH_MAX], before[NC_ID_MAX + 1];
    const char *socket = nc_environment_get("NOCLOBBER_SOCKET");
    const char *command = nc_environment_get("NOCLOBBER_COMMAND");
    const char *slash = socket ? strrchr(socket, '/') : NULL;
    if (!slash || !command || strlen(socket) + sizeof SAID >= sizeof path)
        return 0;
    size_t folder = (size_t)(slash - socket) + 1, size = strlen(command);
    memcpy(path, socket, folder);
    memcpy(path + folder, SAID, sizeof SAID);
    int fd = nc_raw_open(AT_FDCWD, path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return 0;
    long got = nc_raw(read, fd, before, sizeof before);
    int same = got == (long)size && !memcmp(before, command, size);
    if (!same && !nc_raw(ftruncate, fd, 0L))
        nc_raw(pwrite64, fd, command, size, 0L);
    nc_raw_close(fd);
    return same;
}

static void
say(const char *program, const char *trouble)
{
    static const char middle[] =
        " runs without the supervisor, and what it replaces is not judged: ";
    char line[NC_PATH_MAX + 256];
    size_t at = 0, size = strlen(program);
    if (was_said())
        return;
    memcpy(line, "noclobber: ", 11);
    at = 11;
    memcpy(line + at, program, size < NC_PATH_MAX ? size : NC_PATH_MAX - 1);
    at += size < NC_PATH_MAX ? size : NC_PATH_MAX - 1;
    memcpy(line + at, middle, sizeof middle - 1);
    at += sizeof middle - 1;
    memcpy(line + at, trouble, strlen(trouble));
    at += strlen(trouble);
    line[at++] = '\n';
    int kept = errno;
    nc_raw(write, 2, line, at);
    errno = kept;
}

/* ---- how ----------------------------------------------------------- */

const char *
nc_supervised(const struct nc_start *start, const struct nc_program *program)
{
    static pid_t submitted; /* its program could not be started after all */
    if (!nc_process.supervises || !needs_it(start, program))
        return NULL;
    pid_t pid = nc_raw_getpid();
    if (submitted != pid) {
        char *ours[NC_OURS_ROOM];
        nc_environment_ours(ours);
        const struct nc_submission submission = {
            .supervisor = nc_environment_get("NOCLOBBER_SUPERVISE"),
            .environment = ours,
            .broad = is_broad(program),
            .clone = REAL(clone),
        };
        enum nc_submitted how = nc_submit(&submission);
        if (how != NC_SUBMITTED) {
            say(start->path, nc_submit_trouble(how));
            return NULL;
        }
        submitted = pid;
    }
    return "NOCLOBBER_SUPERVISED=1";
}

char **
nc_spawned(const struct nc_start *start, const struct nc_program *program,
           char **words)
{
    if (!nc_process.supervises || !needs_it(start, program))
        return NULL;
    /* the supervisor's program executes it, and this library in there sees */
    size_t at = 0;
    words[at++] = (char *)nc_environment_get("NOCLOBBER_SUPERVISE");
    words[at++] = (char *)start->path;
    for (char *const *word = start->argv; *word; word++)
        words[at++] = *word;
    words[at] = NULL;
    return words;
}

/* ---- being there ---------------------------------------------------- */

static int
is_ours(const char *name)
{
    static const char *const names[] = {"libc.", "libc-", "libpthread",
                                        "ld-",   "ld.",   "libnoclobber"};
    const char *base = strrchr(name, '/');
    base = base ? base + 1 : name;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strncmp(base, names[i], strlen(names[i])))
            return 1;
    return 0;
}

static int
take_code(struct dl_phdr_info *info, size_t size, void *given)
{
    (void)size;
    struct nc_presence *page = given;
    if (!info->dlpi_name || !is_ours(info->dlpi_name))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X))
            continue;
        for (int at = 0; at < NC_PRESENCE_CODES; at++) {
            if (page->codes[at].end)
                continue;
            page->codes[at].start = info->dlpi_addr + part->p_vaddr;
            page->codes[at].end = page->codes[at].start + part->p_memsz;
            break;
        }
    }
    return 0;
}

void
nc_presence_start(void)
{
    struct nc_presence *page = nc_raw_mmap(
        (void *)NC_PRESENCE_AT, sizeof *page, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (page != (void *)NC_PRESENCE_AT)
        return;
    dl_iterate_phdr(take_code, page);
    page->token_at = (uint64_t)(uintptr_t)&nc_process.token;
    page->magic = NC_PRESENCE_MAGIC;
    nc_raw(mprotect, page, sizeof *page, PROT_READ);
}
