/*
 * Which queue pair of a connection the next piece of a message goes to. Pure: times are arguments, in nanoseconds of
 * any clock that does not go back. Not for two threads at once.
 *
 * By delay, a path costs what its last pieces took, per byte that was outstanding on it when they were posted:
 *
 *	cost = delay / (outstanding + piece)
 *
 * where piece is the size of a whole one, which stands for what a message takes on an idle path. The cost is smoothed
 * (a gain of 1/8), and is believed anew when it has moved by more than an eighth (hysteresis). A piece goes where its
 * expected delay is least, of the paths that have room. A path has room while what is on it takes no longer than a
 * full queue of the cheapest path; one that is idle always has, so that a slow path carries its share, a piece at
 * a time. A path whose oldest piece is overdue costs at least what that one has taken so far. One that was not
 * used for BALANCE_RETRY while others were is tried again, since nothing else shows that it has recovered.
 */
#ifndef SLUICE_NCCL_BALANCE_H
#define SLUICE_NCCL_BALANCE_H

#include <stdbool.h>
#include <stdint.h>

enum {
	BALANCE_PATHS = 16,
	BALANCE_PIECES = 64,        /* at most, on a path, however small they are */
	BALANCE_DEPTH = 8,          /* whole pieces in a full queue of the cheapest path */
	BALANCE_UNKNOWN_DEPTH = 2,  /* before the first delay is known */
	BALANCE_RETRY = 10000000,   /* ns */
};

enum balance_policy { BALANCE_DELAY, BALANCE_ROUNDROBIN };

struct balance_piece {
	int64_t posted;
	uint64_t outstanding; /* bytes on the path after it was posted */
	uint64_t size;
};

struct balance_path {
	struct balance_piece pieces[BALANCE_PIECES]; /* outstanding, a ring */
	uint32_t first, count;
	uint64_t outstanding;
	bool known;
	double smooth, cost; /* ns a byte */
	int64_t used;        /* the last time that a piece was posted */
	bool down;
};

struct balance {
	enum balance_policy policy;
	unsigned n, turn;
	uint64_t piece;
	int64_t used; /* the last time that a piece was posted on any path */
	struct balance_path paths[BALANCE_PATHS];
};

/* balance_init starts with n paths, 1 to BALANCE_PATHS, of equal cost. */
void balance_init(struct balance *b, enum balance_policy policy, unsigned n, uint64_t piece);

/* balance_choose returns the path of the next piece, or -1 while none has room. */
int balance_choose(const struct balance *b, uint64_t size, int64_t now);

/* balance_posted counts a piece that was posted on a path that balance_choose has named. */
void balance_posted(struct balance *b, unsigned path, uint64_t size, int64_t now);

/* balance_completed counts the completion of the oldest piece of a path. */
void balance_completed(struct balance *b, unsigned path, int64_t now);

/* balance_down forgets a path and what is on it, and names it no more until balance_up, after which it is as new. */
void balance_down(struct balance *b, unsigned path);
void balance_up(struct balance *b, unsigned path);

#endif
