/*
 * What is outstanding on each queue pair of a connection, and what of it is to be repeated on others when one has
 * failed. Pure, and not for two threads at once.
 *
 * A message goes in pieces (Writes). On each queue pair that has some of them an end (a Send) follows, which says how
 * many bytes it covers: those of the pieces before it on that queue pair that no other end covers. The receiver has a
 * message when its ends cover it all, so each byte is covered by one end that arrives.
 *
 * A queue pair keeps order. So of one that has failed it is enough to know how many Sends have arrived on it: what was
 * posted up to the last of these has arrived, and what was posted after it is repeated, each piece whole. Pieces that
 * were acknowledged, but whose end has not arrived, are not repeated: the next end of their message adopts their bytes.
 */
#ifndef SLUICE_NCCL_LEDGER_H
#define SLUICE_NCCL_LEDGER_H

#include "balance.h"

enum {
	LEDGER_WORKS = 512, /* outstanding on a queue pair */
	LEDGER_REPEATS = 2048,
	LEDGER_MESSAGES = 256,
};

/* A note is a Send that is no end; a look is no Send, and is not repeated. */
enum ledger_kind { LEDGER_PIECE, LEDGER_END, LEDGER_NOTE, LEDGER_LOOK };

struct ledger_work {
	enum ledger_kind kind;
	unsigned of;           /* which message, or what the note or look is about */
	uint64_t offset, size; /* of a piece; size is what an end covers */
};

struct ledger_message {
	uint64_t size, posted;               /* posted: up to where pieces were, for the first time */
	uint64_t uncovered[BALANCE_PATHS];   /* bytes on a queue pair after its last end */
	int64_t adopted;                     /* bytes that were acknowledged on ones that have failed */
	uint32_t outstanding, repeats;       /* works that are posted, and pieces to be repeated */
	bool owes;                           /* an end that covers nothing: the message is empty */
	bool ended;                          /* its ends are posted */
};

struct ledger_lane {
	struct ledger_work works[LEDGER_WORKS]; /* a ring */
	uint32_t first, count;
	uint32_t arrived; /* Sends that are known to have */
};

struct ledger {
	unsigned n;
	struct ledger_lane lanes[BALANCE_PATHS];
	struct ledger_message messages[LEDGER_MESSAGES];
	struct ledger_work repeats[LEDGER_REPEATS]; /* a ring: pieces and notes */
	uint32_t repeats_first, repeats_count;
};

void ledger_init(struct ledger *l, unsigned n);

/* ledger_begin begins a message, in place of one that is finished. */
void ledger_begin(struct ledger *l, unsigned message, uint64_t size);

/* ledger_posted counts a work that was posted on a queue pair. A piece is the message's next, or a repeat. */
void ledger_posted(struct ledger *l, unsigned lane, struct ledger_work w);

/* ledger_done counts the oldest work of a queue pair as having arrived, and returns it. */
struct ledger_work ledger_done(struct ledger *l, unsigned lane);

/* ledger_end says whether a queue pair is to get an end of a message now, and what it covers. Ask of those with
 * uncovered bytes, by any = false, before others, by any = true. */
bool ledger_end(struct ledger *l, unsigned lane, unsigned message, bool any, uint64_t *covers);

bool ledger_finished(const struct ledger *l, unsigned message);

/* ledger_settle counts what has arrived on a queue pair, by how many Sends the peer has from it. It returns false if
 * that is less than is known to have arrived, or more than were posted. */
bool ledger_settle(struct ledger *l, unsigned lane, uint32_t arrived);

/* ledger_lost moves what is left on a queue pair to what is to be repeated, which ledger_repeat takes from. It returns the
 * bytes of these pieces. The queue pair is as new. */
uint64_t ledger_lost(struct ledger *l, unsigned lane);

/* ledger_repeat is the next work to be repeated, or NULL; ledger_repeated takes it out, as it is about to be posted. */
const struct ledger_work *ledger_repeat(const struct ledger *l);
void ledger_repeated(struct ledger *l);

#endif
