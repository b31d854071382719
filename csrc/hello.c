/* The first word of a process to the daemon, and the connection that is kept
 * for those that come after it. */
#include <string.h>

#include "shim.h"

#define HIGH 960 /* descriptors of ours lie here or above, if they can */

static const char *session, *command;

void
nc_hello_start(const char *session_id, const char *command_id)
{
    session = session_id;
    command = command_id ? command_id : "";
}

/* ---- the first word ------------------------------------------------ */

static size_t
put(char *out, size_t at, size_t size, const char *text, size_t limit)
{
    size_t length = text ? strlen(text) : 0;
    if (length > limit || at + length > size)
        length = 0;
    if (length)
        memcpy(out + at, text, length);
    return length;
}

size_t
nc_hello(void *out, size_t size)
{
    struct nc_hello hello = {
        .record = {.version = NC_VERSION,
                   .type = NC_HELLO,
                   .flags = nc_process.agent ? NC_IS_AGENT : 0},
        .token = nc_token(),
        .parent_token = nc_process.parent,
        .pid = nc_raw_getpid(),
        .ppid = (int32_t)nc_raw(getppid),
    };
    char *text = out;
    size_t at = sizeof hello;
    const char *exe = (const char *)getauxval(AT_EXECFN);
    hello.session_size = (uint16_t)put(text, at, size, session, NC_ID_MAX);
    at += hello.session_size;
    hello.command_size = (uint16_t)put(text, at, size, command, NC_ID_MAX);
    at += hello.command_size;
    hello.exe_size = (uint16_t)put(text, at, size, exe, 768);
    at += hello.exe_size;
    size_t argv_start = at;
    const char *word = nc_process.words;
    while (word < nc_process.words_end) {
        size_t whole = strnlen(word, (size_t)(nc_process.words_end - word));
        size_t length = whole > 512 ? 512 : whole;
        if (at + length + 9 > size ||
            at - argv_start + length + 1 > NC_ARGV_MAX)
            break;
        memcpy(text + at, word, length);
        at += length;
        text[at++] = 0;
        word += whole + 1;
    }
    hello.argv_size = (uint16_t)(at - argv_start);
    while (at % 8)
        text[at++] = 0;
    hello.record.size = (uint32_t)at;
    memcpy(text, &hello, sizeof hello);
    return at;
}

/* ---- the lifeline -------------------------------------------------- */

void
nc_lifeline_open(void)
{
    if (nc_lifeline_holds() || nc_is_guest())
        return;
    int kept = errno;
    int sock = nc_connect(-1);
    if (sock >= 0) {
        int high = (int)nc_raw(fcntl, sock, F_DUPFD, HIGH);
        if (high < 0)
            high = (int)nc_raw(dup, sock);
        nc_raw_close(sock);
        char hello[NC_ARGV_MAX + 1024];
        struct stat st;
        size_t size = nc_hello(hello, sizeof hello);
        if (high >= 0 && !nc_stat(high, &st) &&
            !nc_send(high, hello, size, NULL, 0)) {
            nc_lifeline_keep(high, (uint64_t)st.st_ino);
        } else if (high >= 0) {
            nc_raw_close(high);
        }
    }
    errno = kept;
}
