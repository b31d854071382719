/* Shared by agent.c and intake.c. */
#ifndef NOCLOBBER_INTAKE_H
#define NOCLOBBER_INTAKE_H
#include "client.h"

/* From now on what comes from children is told, at most `limit` bytes of each
 * command's output. What this process was given at its start is no child's. */
void nc_intake_start(size_t limit);

/* The id of the command whose output comes by these ways (0: none): the
 * agent's own id, a dot, and the ways. Its size in `out` (NC_ID_MAX bytes), or
 * 0. */
size_t nc_intake_command(char *out, const uint64_t ways[2]);
#endif
