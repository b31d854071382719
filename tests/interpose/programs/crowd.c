/* crowd THREADS FILES: threads that read and replace files of their own, fork
 * and start programs at the same time, while a timer's handler opens, reads
 * and closes. Files whole.T.N are read whole and rewritten, files half.T.N are
 * read by half. Prints how often each was refused. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static int files;
static int refused_whole, refused_half, other_errors, handled;

static void
handler(int signal)
{
    int kept = errno;
    char byte;
    int fd = open("signalled", O_RDONLY);
    (void)signal;
    if (fd < 0 || read(fd, &byte, 1) != 1 || close(fd))
        __atomic_add_fetch(&other_errors, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&handled, 1, __ATOMIC_RELAXED);
    errno = kept;
}

static void
replace(const char *kind, long thread, int number, int *refused)
{
    char path[64], *bytes;
    struct stat st;
    snprintf(path, sizeof path, "%s.%ld.%d", kind, thread, number);
    int fd = open(path, O_RDONLY);
    if (fd < 0 || fstat(fd, &st) || !(bytes = malloc((size_t)st.st_size))) {
        __atomic_add_fetch(&other_errors, 1, __ATOMIC_RELAXED);
        return;
    }
    long due = *kind == 'h' ? st.st_size / 2 : st.st_size, got = 0, more = 0;
    while (got < due) {
        more = read(fd, bytes + got, (size_t)(due - got));
        if (more <= 0)
            break;
        got += more;
    }
    close(fd);
    fd = open(path, O_WRONLY | O_TRUNC);
    if (fd < 0 && errno == EPERM)
        __atomic_add_fetch(refused, 1, __ATOMIC_RELAXED);
    else if (fd < 0 || write(fd, bytes, (size_t)got) != got)
        __atomic_add_fetch(&other_errors, 1, __ATOMIC_RELAXED);
    if (fd >= 0)
        close(fd);
    free(bytes);
}

static void
start_another(int number)
{
    char *words[] = {"true", NULL};
    pid_t child;
    int status;
    if (number % 3 == 0) {
        if (posix_spawnp(&child, "true", NULL, NULL, words, environ))
            child = -1;
    } else if (number % 3 == 1) {
        child = fork();
        if (!child)
            _exit(0);
    } else {
        child = vfork();
        if (!child) {
            execvp("true", words);
            _exit(1);
        }
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status)
        __atomic_add_fetch(&other_errors, 1, __ATOMIC_RELAXED);
}

static void *
work(void *thread)
{
    for (int n = 0; n < files; n++) {
        replace("whole", (long)thread, n, &refused_whole);
        start_another(n);
        replace("half", (long)thread, n, &refused_half);
    }
    return NULL;
}

int
main(int arguments, char **words)
{
    pthread_t threads[16];
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 3000}, {0, 3000}}, never = {{0, 0}, {0, 0}};
    int many = arguments > 2 ? atoi(words[1]) : 0;
    files = arguments > 2 ? atoi(words[2]) : 0;
    alarm(50);
    sigaction(SIGPROF, &action, NULL);
    setitimer(ITIMER_PROF, &often, NULL);
    for (long i = 0; i < many; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < many; i++)
        pthread_join(threads[i], NULL);
    raise(SIGPROF);
    setitimer(ITIMER_PROF, &never, NULL);
    printf("whole %d half %d other %d handled %d\n", refused_whole,
           refused_half, other_errors, handled > 0);
    return 0;
}
