/* What the harness has of a peer that lies. */
#ifndef SLUICE_NCCL_LIE_H
#define SLUICE_NCCL_LIE_H

#include <stddef.h>

enum end_lie { LONGER, ENDLESS, NO_END, MANY_ENDS, OTHER_BUFFER, OTHER_TOKEN, OTHER_SEQUENCE, CUT_OFF, TWICE, END_LIES };
enum clear_lie { NO_BUFFER, MANY_BUFFERS, AHEAD, CLEAR_CUT_OFF, CLEAR_LIES };

int lie_cleared(void *sender); /* whether the receiver's first buffers are known */
int lie_end(void *sender, enum end_lie lie, size_t room);
int lie_clear(void *receiver, enum clear_lie lie);

#endif
