/* All else that libmlx5 exports, so that programs load; a call fails. */
#include <errno.h>
#include <stddef.h>

#define REFUSE_INT(name) int name(void) { return errno = EOPNOTSUPP, EOPNOTSUPP; }
#define REFUSE_PTR(name) void *name(void) { return errno = EOPNOTSUPP, NULL; }
#include "refused_mlx5.h"
