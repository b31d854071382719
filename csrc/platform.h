/* The one door to what differs between operating systems. */
#ifndef NOCLOBBER_PLATFORM_H
#define NOCLOBBER_PLATFORM_H
#if defined(__linux__)
#include "linux.h"
#elif defined(__APPLE__)
#include "darwin.h"
#else
#error "noclobber knows Linux and macOS"
#endif
#endif
