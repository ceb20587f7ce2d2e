/* What the harness has of a peer that lies. */
#ifndef SLUICE_NCCL_LIE_H
#define SLUICE_NCCL_LIE_H

#include <stddef.h>

enum end_lie {
	LONGER, ENDLESS, COVERS_NOTHING, COVERS_MORE, OTHER_BUFFER, OTHER_TOKEN, OTHER_SEQUENCE, CUT_OFF, OTHER_KIND, NO_LANE, NEVER_POSTED, TWICE, END_LIES
};
enum clear_lie { NO_BUFFER, MANY_BUFFERS, AHEAD, CLEAR_CUT_OFF, CLEAR_LIES };

int lie_cleared(void *sender); /* whether the receiver's first buffers are known */
int lie_end(void *sender, enum end_lie lie, size_t room);
int lie_clear(void *receiver, enum clear_lie lie);

#endif
