/* All else that rdma-core's libraries want of libibverbs, so that they load;
 * a call fails. Without verbs.h: names are all that matters here. */
#include <errno.h>
#include <stddef.h>

#define REFUSE_INT(name) int name(void) { return errno = EOPNOTSUPP, EOPNOTSUPP; }
#define REFUSE_PTR(name) void *name(void) { return errno = EOPNOTSUPP, NULL; }
#include "refused.h"
