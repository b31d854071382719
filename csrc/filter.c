/* The filter that decides, in the kernel, which system calls a supervisor is
 * asked about. A call that is never asked about must be told by its number
 * alone: the kernel keeps a bitmap of those, and they cost nothing. */
#include "submit.h"

#include <linux/audit.h>
#include <linux/fs.h>
#include <linux/seccomp.h>
#include <stddef.h>

enum test {
    TEST_NONE,    /* always asked */
    TEST_NEVER,   /* not there: ENOSYS, as container runtimes say */
    TEST_FLAGS_1, /* an opening's flags are argument 1 */
    TEST_FLAGS_2,
    TEST_PUNCHES, /* fallocate that makes holes */
    TEST_CLONES,  /* ioctl(FICLONE) */
    TEST_LISTENS, /* seccomp with a listener of its own */
    TEST_READS,
    TEST_SEEKS, /* lseek that moves */
    TEST_MAPS   /* mmap of a file, not of code */
};

struct call {
    enum nc_call_kind kind;
    enum test test;
    int native, other; /* numbers */
};

#if defined(__x86_64__)
#define NATIVE AUDIT_ARCH_X86_64
#define OTHER AUDIT_ARCH_I386
#define CALL(kind, test, x86_64, i386, aarch64, arm) {kind, test, x86_64, i386},
/* The kernel maps libraries and loaders above this, programs below. */
#define LIBRARIES 0x7000U
#elif defined(__aarch64__)
#define NATIVE AUDIT_ARCH_AARCH64
#define OTHER AUDIT_ARCH_ARM
#define CALL(kind, test, x86_64, i386, aarch64, arm) {kind, test, aarch64, arm},
#define LIBRARIES 0xf000U
#endif

static const struct call calls[] = {
#include "calls.def"
};
#undef CALL
#define CALLS (sizeof calls / sizeof *calls)

#define X32 0x40000000U /* of a number: the third way into x86-64 */

enum nc_call_kind
nc_call_kind_of(uint32_t arch, int number)
{
    for (size_t i = 0; i < CALLS; i++)
        if ((arch == NATIVE ? calls[i].native : calls[i].other) == number)
            return calls[i].kind;
    return NC_CALL_NONE;
}

#define LOW(argument) \
    ((uint32_t)(offsetof(struct seccomp_data, args) + 8U * (argument)))
#define POINTER_HIGH \
    ((uint32_t)offsetof(struct seccomp_data, instruction_pointer) + 4U)

#define ASK BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF)
#define PASS BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define FAIL BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS)
#define LOAD(offset) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset)
#define EQUALS(value, yes, no) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(value), yes, no)
#define HAS(bits, yes, no) \
    BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (uint32_t)(bits), yes, no)
#define AT_LEAST(value, yes, no) \
    BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (uint32_t)(value), yes, no)

struct code {
    struct sock_filter *out;
    unsigned used;
};

static void
put(struct code *code, const struct sock_filter *block, unsigned size)
{
    for (unsigned i = 0; i < size && code->used < NC_FILTER_ROOM; i++)
        code->out[code->used++] = block[i];
}

#define PUT(...)                                          \
    do {                                                  \
        const struct sock_filter block[] = {__VA_ARGS__}; \
        put(code, block, sizeof block / sizeof *block);   \
    } while (0)

/* Of a read: asked about, unless the C library makes it. */
static void
put_read(struct code *code, int broad)
{
    if (broad)
        PUT(ASK);
    else
        PUT(LOAD(POINTER_HIGH), AT_LEAST(LIBRARIES, 0, 1), PASS, ASK);
}

static void
put_flags(struct code *code, unsigned argument, int broad)
{
    PUT(LOAD(LOW(argument)), HAS(O_PATH, 0, 1), PASS,
        HAS(O_ACCMODE | O_TRUNC | O_CREAT, 0, 1), ASK, HAS(O_DIRECTORY, 0, 1),
        PASS);
    put_read(code, broad);
}

static void
put_test(struct code *code, enum test test, int broad)
{
    switch (test) {
    case TEST_NONE:
        PUT(ASK);
        break;
    case TEST_NEVER:
        PUT(FAIL);
        break;
    case TEST_FLAGS_1:
        put_flags(code, 1, broad);
        break;
    case TEST_FLAGS_2:
        put_flags(code, 2, broad);
        break;
    case TEST_PUNCHES:
        PUT(LOAD(LOW(1)), HAS(~1U, 1, 0), PASS, ASK);
        break;
    case TEST_CLONES:
        PUT(LOAD(LOW(1)), EQUALS(FICLONE, 1, 0), PASS, ASK);
        break;
    case TEST_LISTENS:
        PUT(LOAD(LOW(0)), EQUALS(SECCOMP_SET_MODE_FILTER, 1, 0), PASS,
            LOAD(LOW(1)), HAS(SECCOMP_FILTER_FLAG_NEW_LISTENER, 1, 0), PASS,
            ASK);
        break;
    case TEST_SEEKS: /* not one that asks where it is */
        PUT(LOAD(LOW(2)), EQUALS(SEEK_CUR, 0, 3), LOAD(LOW(1)), EQUALS(0, 0, 1),
            PASS);
        put_read(code, broad);
        break;
    case TEST_MAPS:
        PUT(LOAD(LOW(3)), HAS(MAP_ANONYMOUS, 0, 1), PASS, LOAD(LOW(2)),
            HAS(PROT_EXEC, 0, 1), PASS);
        put_read(code, broad);
        break;
    case TEST_READS:
        put_read(code, broad);
        break;
    }
}

static void
put_calls(struct code *code, int native, int broad)
{
    PUT(LOAD((uint32_t)offsetof(struct seccomp_data, nr)));
#ifdef __x86_64__
    if (native)
        PUT(AT_LEAST(X32, 0, 1), FAIL);
#endif
    for (size_t i = 0; i < CALLS; i++) {
        int number = native ? calls[i].native : calls[i].other;
        if (number < 0)
            continue;
        unsigned jump = code->used;
        PUT(EQUALS(number, 0, 0));
        put_test(code, calls[i].test, broad);
        code->out[jump].jf = (uint8_t)(code->used - jump - 1);
    }
    PUT(PASS);
}

unsigned
nc_filter(struct sock_filter out[NC_FILTER_ROOM], int broad)
{
    struct code made = {.out = out}, *code = &made;
    PUT(LOAD((uint32_t)offsetof(struct seccomp_data, arch)),
        EQUALS(NATIVE, 1, 0), BPF_STMT(BPF_JMP | BPF_JA, 0));
    unsigned jump = code->used - 1;
    put_calls(code, 1, broad);
    out[jump].k = code->used - jump - 1;
    PUT(EQUALS(OTHER, 1, 0), FAIL);
    put_calls(code, 0, 1);
    return code->used;
}
