/* The wire between processes and the daemon.
 *
 * A stream of records over one AF_UNIX connection a process. Every record
 * begins with struct nc_record; `size` counts the whole record, that header
 * included, and is a multiple of 8. Integers are in the machine's own order:
 * both ends are on one machine. Strings follow their struct without a
 * terminator; each has its length in the struct. Paths are bytes.
 *
 * One-way records are reports and have no answer. NC_QUESTION and NC_REQUEST
 * block for NC_ANSWER and NC_REPLY, as NC_BEGIN does for NC_BEGUN, and NC_EXEC
 * and NC_WHO for NC_ANSWER; NC_HARNESS and NC_HANDED for NC_WANTED or
 * NC_HOOKED. The first record of a connection is NC_HELLO (a process, or its
 * supervisor for it), NC_BEGIN or NC_COMMAND (the launcher), NC_HARNESS (a
 * harness's hook), NC_REQUEST (a person's command line) or NC_WATCH (a
 * supervisor).
 *
 * Python reads this file through cffi, which strips the lines that begin
 * with #ifndef, #include and #endif and keeps plain `#define NAME NUMBER`;
 * the rest must stay within what cffi's parser knows.
 */
#ifndef NOCLOBBER_PROTOCOL_H
#define NOCLOBBER_PROTOCOL_H
#include <stdint.h>

#define NC_VERSION 1          /* of this file; another one is refused */
#define NC_RECORD_MAX 1048576 /* bytes; a larger record is garbage */
#define NC_BATCH 65536        /* bytes gathered in a process before sending */
#define NC_ID_MAX 128         /* bytes of a session's or command's id */
#define NC_ARGV_MAX 2048      /* bytes of argv sent in a hello */

enum nc_type {
    NC_HELLO = 1,     /* struct nc_hello: a process's first word */
    NC_COMMAND = 2,   /* struct nc_command: the launcher starts a command */
    NC_READ = 3,      /* struct nc_read: bytes of a version were read */
    NC_WROTE = 4,     /* struct nc_wrote: a file open for writing closed */
    NC_PIPE = 5,      /* struct nc_pipe: this process uses an end of a pipe */
    NC_NAMED = 6,     /* struct nc_named: renamed, linked, exchanged */
    NC_GONE = 7,      /* struct nc_gone: a name was deleted */
    NC_SHOWN = 8,     /* struct nc_shown: output that reached the agent. A bare
                       * header, to a pump: send all up to now, and an empty
                       * text behind it */
    NC_ADOPT = 9,     /* no body; SCM_RIGHTS carries a new connection's end */
    NC_QUESTION = 16, /* struct nc_question: may this be replaced? */
    NC_ANSWER = 17,   /* struct nc_answer */
    NC_REQUEST = 18,  /* JSON: a person's question (`status`, `stop`, ...) */
    NC_REPLY = 19,    /* JSON */
    NC_BEGIN = 20,    /* struct nc_begin: what holds for a command to come? */
    NC_BEGUN = 21,    /* struct nc_begun */
    NC_EXEC = 22,     /* struct nc_exec: may git start? */
    NC_WHO = 23,      /* struct nc_who: is this process the agent? NC_ANSWER's
                       * verdict is enum nc_role then */
    NC_HARNESS = 24,  /* struct nc_harness: an event of a harness */
    NC_WANTED = 25,   /* struct nc_wanted: the daemon wants to look at a file */
    NC_HANDED = 26,   /* struct nc_handed: here it is */
    NC_HOOKED = 27,   /* struct nc_hooked: what the harness is told */
    NC_WATCH = 28,    /* no body: a supervisor's first word */
    NC_SETTLE = 29    /* no body: the daemon wants to know all that a supervisor
                       * has not told yet, which then says the same */
};

struct nc_record {
    uint32_t size; /* bytes, this header included */
    uint8_t version;
    uint8_t type; /* enum nc_type */
    uint16_t flags;
};

/* What a file held at a moment. Times in nanoseconds since 1970. */
struct nc_version {
    uint64_t dev;
    uint64_t ino;
    uint64_t size;
    int64_t mtime;
    int64_t ctime;
};

/* A half-open range of bytes. */
struct nc_range {
    uint64_t start;
    uint64_t end;
};

/* flags of struct nc_hello */
enum nc_hello_flags {
    NC_IS_AGENT = 1,  /* the agent's own process */
    NC_SPOKEN_FOR = 2 /* its supervisor says it, and what follows */
};

/* A process image: from exec (or fork) to exec or exit. */
struct nc_hello {
    struct nc_record record;
    uint64_t token;        /* names this image; random, never 0 */
    uint64_t parent_token; /* the image it was forked from, 0: exec'd */
    int32_t pid;           /* as the process itself sees it */
    int32_t ppid;
    uint16_t session_size;
    uint16_t command_size;
    uint16_t exe_size;
    uint16_t argv_size; /* arguments, each ended by NUL, cut at NC_ARGV_MAX */
    /* session, command, exe, argv */
};

/* What a program is that the launcher's word `agent` has come to. */
enum nc_role {
    NC_ROLE_NONE = 0, /* a tool beside the way */
    NC_ROLE_WAY = 1,  /* it starts the agent: env, npx, a shell */
    NC_ROLE_AGENT = 2
};

/* Sent after the hello by a program on the way to the agent. */
struct nc_who {
    struct nc_record record;
    uint32_t wanted_size; /* the program that the user named, or 0 */
    uint32_t pad;
    /* wanted */
};

enum nc_tier { NC_WORKSPACE_WRITE = 0, NC_READ_ONLY = 1 };

/* flags of struct nc_command */
enum nc_command_flags {
    NC_ATTESTED = 1, /* the pump will send what the command prints */
    NC_AGENT = 2,    /* the command is the agent itself (`noclobber run`) */
    NC_ENDED = 4,    /* the command has ended; nothing but ids is set */
    NC_FAILED = 8    /* with NC_ENDED: by a signal, or with a status not 0 */
};

struct nc_command {
    struct nc_record record;
    int32_t pid; /* of the command */
    int32_t tier;
    int64_t time; /* ns since 1970 */
    uint16_t session_size;
    uint16_t command_size;
    uint16_t cwd_size;
    uint16_t argv_size;  /* each argument ended by NUL */
    uint32_t roots_size; /* absolute, canonical, each ended by NUL */
    uint32_t limit;      /* shown_limit in bytes, 0: the daemon's */
    /* session, command, cwd, argv, roots */
};

/* flags of struct nc_begin: NC_AGENT, and */
enum nc_begin_flags {
    NC_LIFTS = 8 /* the host lifts the dirty guard for `task` */
};

/* The launcher's first word; the answer comes once the state of the session's
 * roots is known, so that nothing the command does can be part of it. */
struct nc_begin {
    struct nc_record record;
    int32_t tier; /* enum nc_tier, as the host asked for */
    uint16_t session_size;
    uint16_t command_size;
    uint32_t task_size;
    uint32_t roots_size; /* absolute, canonical, each ended by NUL */
    /* session, command, task, roots */
};

/* flags of struct nc_begun */
enum nc_begun_flags {
    NC_LOOKING = 1,      /* git is being asked; another answer follows */
    NC_FAIL_OPEN = 2,    /* configured: without a daemon nothing is refused */
    NC_SUPERVISE = 4,    /* configured: what the shim does not enter */
    NC_SUPERVISE_ALL = 8 /* the command itself, whatever it is */
};

struct nc_begun {
    struct nc_record record;
    int32_t tier;     /* the one in force */
    int32_t is_dirty; /* git has to be asked about before it starts */
    uint32_t limit;   /* shown_limit as configured, bytes */
    uint32_t pad;
};

/* flags of struct nc_read */
enum nc_read_flags {
    NC_WRITABLE = 1,  /* open for writing too: changes were its own */
    NC_INHERITED = 2, /* the description is older than this image */
    NC_EXECUTED = 4   /* a script that a shell runs or sources */
};

struct nc_read {
    struct nc_record record;
    struct nc_version version; /* when reading began */
    uint32_t count;
    uint32_t pad;
    /* count x struct nc_range, ascending, disjoint */
};

/* flags of struct nc_wrote */
enum nc_wrote_flags {
    NC_CREATED = 1,   /* by this open; the file had no bytes before */
    NC_TRUNCATED = 2, /* by this open, or to 0 later on */
    NC_APPEND = 4,    /* O_APPEND */
    NC_UPDATE = 8,    /* opened without truncation, not for appending */
    NC_OPENED = 16,   /* sent at exec: the descriptor lives on, unclosed */
    NC_INHERIT = 32   /* the descriptor came from before this image */
};

struct nc_wrote {
    struct nc_record record;
    struct nc_version version; /* when the descriptor was closed */
    struct nc_version opened;  /* when it was opened (after a truncation) */
    uint32_t path_size;
    uint32_t pad;
    /* path */
};

/* flags of struct nc_pipe */
enum nc_pipe_flags { NC_PIPE_READ = 1, NC_PIPE_WRITE = 2 };

struct nc_pipe {
    struct nc_record record;
    uint64_t ino;
    uint64_t bytes; /* that went through this end, at most */
};

/* flags of struct nc_named */
enum nc_named_flags { NC_RENAMED = 1, NC_LINKED = 2, NC_EXCHANGED = 3 };

struct nc_named {
    struct nc_record record;
    struct nc_version version; /* of the file that got a name */
    uint32_t from_size;
    uint32_t to_size;
    /* from, to */
};

/* flags of struct nc_gone */
enum nc_gone_flags {
    NC_FOLDER_GONE = 1,
    NC_KEPT = 2 /* the file has a name in the store by now */
};

struct nc_gone {
    struct nc_record record;
    struct nc_version version; /* before the deletion */
    uint32_t path_size;
    uint32_t kept_size;
    /* path, name in `incoming`, a link beside the socket to a folder of
     * the store */
};

/* flags of struct nc_shown */
enum nc_shown_flags {
    NC_STDOUT = 1,
    NC_STDERR = 2,
    NC_TTY = 4,
    NC_INTAKE = 8,   /* the agent's own process took it in from its child */
    NC_LAST = 16,    /* nothing more comes by that way */
    NC_CARRIED = 32, /* no text: what the child `command` prints is sent by a
                      * pump, and what the agent takes in of it is the same */
    NC_TURN = 64     /* somebody typed: what begins here is shown by itself */
};

struct nc_shown {
    struct nc_record record;
    uint64_t offset; /* of `text` in the command's output */
    uint16_t session_size;
    uint16_t command_size;
    uint32_t text_size;
    /* session, command, text */
};

enum nc_op {
    NC_OP_TRUNCATE = 1, /* truncating open */
    NC_OP_SHRINK = 2,   /* truncate, ftruncate */
    NC_OP_RENAME = 3,   /* another file's name is put over it */
    NC_OP_EXCHANGE = 4,
    NC_OP_PUNCH = 5,  /* fallocate collapses or punches */
    NC_OP_DELETE = 6, /* unlink: not denied, where the content can be kept */
    NC_OP_CREATE = 7, /* a deleted name is created again: descriptors[0] is
                       * the new file, still empty; refused, the daemon has
                       * written the old content into it */
    NC_OP_UPDATE = 8, /* in-place open for writing: never denied */
    NC_OP_CHANGE = 9, /* in the read-only tier: anything is to be changed or
                       * made; descriptors[0] is it, or the folder it is for */
    NC_OP_CLOSE = 10  /* what was held is written anew: `start` 1: others may
                       * be writing, too; refused, the daemon has written the
                       * old content into it */
};

#define NC_UPDATE_MAX 16777216 /* bytes; of a larger file none is asked about */

/* SCM_RIGHTS: descriptors[0] the target (may be O_PATH), [1] the source of
 * a rename where there is one. The range is what would be destroyed. */
struct nc_question {
    struct nc_record record;
    uint32_t id;
    uint32_t op; /* enum nc_op */
    uint64_t start;
    uint64_t end;
    uint32_t path_size;
    uint32_t other_size; /* the source's path */
    /* path, other */
};

/* flags of struct nc_exec */
enum nc_exec_flags {
    NC_ASKS_READ_ONLY = 1, /* the process is in the read-only tier */
    NC_CUT = 2             /* the arguments were too many to be sent */
};

/* SCM_RIGHTS: the directory that the program would start in (O_PATH). The
 * answer may be NC_WAIT first: then git itself is being asked. */
struct nc_exec {
    struct nc_record record;
    uint32_t id;
    uint32_t program_size;
    uint32_t argv_size;    /* arguments, each ended by NUL */
    uint32_t environ_size; /* what git looks at of it, each ended by NUL */
    /* program, argv, environ */
};

/* flags of struct nc_harness */
enum nc_harness_flags {
    NC_HAS_VARIABLES = 1, /* the harness takes variables for its shells */
    NC_IN_COMMAND = 2     /* it runs in a command of the session */
};

/* SCM_RIGHTS: the event, as the harness wrote it, in a file. */
struct nc_harness {
    struct nc_record record;
    uint16_t harness_size;
    uint16_t session_size; /* that the hook's process runs in, or 0 */
    uint16_t cwd_size;
    uint16_t programs_size; /* the directory of our own programs */
    /* harness, session, cwd, programs */
};

struct nc_wanted {
    struct nc_record record;
    uint32_t path_size; /* absolute, as the harness calls it */
    uint32_t pad;
    /* path */
};

/* SCM_RIGHTS where there is no error: the file (O_PATH). */
struct nc_handed {
    struct nc_record record;
    int32_t error; /* errno */
    uint32_t path_size;
    /* path, canonical as far as it is there */
};

struct nc_hooked {
    struct nc_record record;
    int32_t status; /* to exit with */
    uint32_t out_size;
    uint32_t error_size;
    uint32_t variables_size;
    /* for stdout, for stderr, for the harness's file of variables */
};

/* A file `tombs` beside the socket, mapped by every process that creates files
 * under a root: slot FNV-1a(path) % NC_TOMB_SLOTS counts the deleted names
 * that might matter to a re-creation. Wrong only towards asking: who deletes a
 * file that he kept himself marks its slot before. */
#define NC_TOMB_SLOTS 65536

struct nc_tombs {
    uint64_t count; /* of all slots */
    uint8_t slots[NC_TOMB_SLOTS];
};

/* flags of struct nc_answer */
enum nc_answer_flags {
    NC_NO_UPDATES = 1, /* this process need not ask about in-place openings */
    NC_KEEPS = 2       /* it need not ask about deletions of files that it can
                        * give a name in `incoming` first */
};

/* A file `made` beside the socket: marks (nc_mark_of) of versions that a
 * session wrote from nothing. Deleting one of these destroys nobody's work. A
 * mark may be missing; NC_MADE_WAYS slots are where it may stand. */
#define NC_MADE_SLOTS 262144
#define NC_MADE_WAYS 8 /* a cache line */

struct nc_made {
    uint64_t slots[NC_MADE_SLOTS];
};

enum nc_verdict {
    NC_ALLOW = 0,
    NC_DENY = 1,
    NC_SNAPSHOT = 2,
    NC_WAIT = 3, /* of NC_EXEC: another answer follows */
    NC_HOLD = 4  /* go on, and ask once more when it is closed (NC_OP_CLOSE) */
};

struct nc_answer {
    struct nc_record record;
    uint32_t id;
    uint16_t verdict; /* enum nc_verdict */
    uint16_t row;     /* of the rule's table; 0 with NC_DENY: the old content
                       * could not be kept */
    uint32_t scope_size;
    uint32_t text_size;
    /* scope: a directory under which nothing is protected from this process,
     * or empty; text: the message for a refusal */
};
#endif
