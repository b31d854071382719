/* System calls without the C library's wrappers, which we have replaced. */
#include <errno.h>
#include <stdarg.h>
#include <string.h>

#include "platform.h"

static long
kernel(long number, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
    long result;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8),
                       "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
#else
#error "noclobber knows x86-64 and aarch64"
#endif
}

/* As the C library's own syscall() does, this takes six arguments up whether
 * they were passed or not: the kernel looks at those that it needs. */
__attribute__((no_sanitize("address"))) long
nc_raw_syscall(long number, ...)
{
    long v[6];
    va_list list;
    va_start(list, number);
    for (int i = 0; i < 6; i++)
        v[i] = va_arg(list, long);
    va_end(list);
    long result = kernel(number, v[0], v[1], v[2], v[3], v[4], v[5]);
    if (result < 0 && result > -4096) {
        errno = (int)-result;
        return -1;
    }
    return result;
}

void
nc_link_to(int fd, char *out)
{
    char digits[12];
    int many = 0;
    memcpy(out, NC_FD_LINK, sizeof NC_FD_LINK - 1);
    out += sizeof NC_FD_LINK - 1;
    for (int rest = fd; rest || !many; rest /= 10)
        digits[many++] = (char)('0' + rest % 10);
    while (many)
        *out++ = digits[--many];
    *out = 0;
}
