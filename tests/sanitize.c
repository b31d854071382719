/* Linked into what `make sanitize` builds: reports go to files, for nobody may
 * look at what the process that wrote one prints. The sanitizer's own option
 * for it is obeyed before its memory is set up, by a call of mkdir that would
 * come to the shim's. */
#include <sanitizer/common_interface_defs.h>

__attribute__((constructor)) static void
begin(void)
{
    __sanitizer_set_report_path(REPORTS);
}
