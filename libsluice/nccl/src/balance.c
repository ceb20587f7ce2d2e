#include "balance.h"

#include <string.h>

void balance_init(struct balance *b, enum balance_policy policy, unsigned n, uint64_t piece)
{
	memset(b, 0, sizeof *b);
	b->policy = policy;
	b->n = n;
	b->piece = piece;
}

/* cost_of is what a path is known to cost, or else what others do at least, and what its oldest piece shows it to cost. */
static double cost_of(const struct balance *b, const struct balance_path *p, double least, int64_t now)
{
	double cost = p->known ? p->cost : least, shown;

	if (!p->count)
		return cost;
	shown = (double)(now - p->pieces[p->first].posted) / (double)(p->pieces[p->first].outstanding + b->piece);
	return shown > cost ? shown : cost;
}

static bool has_room(const struct balance *b, const struct balance_path *p, uint64_t size, double cost, double least)
{
	if (p->down || p->count == BALANCE_PIECES)
		return false;
	if (!p->count)
		return true;
	if (b->policy == BALANCE_ROUNDROBIN)
		return p->outstanding + size <= BALANCE_DEPTH * b->piece;
	if (!p->known)
		return p->outstanding + size <= BALANCE_UNKNOWN_DEPTH * b->piece;
	return cost * (double)(p->outstanding + size + b->piece) <= least * (double)((BALANCE_DEPTH + 1) * b->piece);
}

int balance_choose(const struct balance *b, uint64_t size, int64_t now)
{
	double least = 0, best = 0;
	bool known = false;
	int chosen = -1;

	if (b->policy == BALANCE_ROUNDROBIN) {
		unsigned turn = b->turn;

		for (unsigned k = 1; k < b->n && b->paths[turn].down; k++)
			turn = (turn + 1) % b->n;
		return has_room(b, &b->paths[turn], size, 0, 0) ? (int)turn : -1;
	}
	for (unsigned i = 0; i < b->n; i++) {
		const struct balance_path *p = &b->paths[i];

		if (p->known && (!known || p->cost < least)) {
			known = true;
			least = p->cost;
		}
	}
	for (unsigned k = 0; k < b->n; k++) {
		unsigned i = (b->turn + k) % b->n;
		const struct balance_path *p = &b->paths[i];
		double cost = cost_of(b, p, least, now), delay = cost * (double)(p->outstanding + size + b->piece);

		if (!has_room(b, p, size, cost, least))
			continue;
		if (!p->count && p->known && b->used - p->used > BALANCE_RETRY)
			return (int)i;
		if (chosen < 0 || delay < best) {
			chosen = (int)i;
			best = delay;
		}
	}
	return chosen;
}

void balance_posted(struct balance *b, unsigned path, uint64_t size, int64_t now)
{
	struct balance_path *p = &b->paths[path];

	p->outstanding += size;
	p->pieces[(p->first + p->count++) % BALANCE_PIECES] = (struct balance_piece){now, p->outstanding, size};
	p->used = b->used = now;
	b->turn = (path + 1) % b->n;
}

void balance_completed(struct balance *b, unsigned path, int64_t now)
{
	struct balance_path *p = &b->paths[path];
	const struct balance_piece *oldest = &p->pieces[p->first];
	double sample = (double)(now - oldest->posted) / (double)(oldest->outstanding + b->piece), moved;

	p->smooth = p->known ? p->smooth + (sample - p->smooth) / 8 : sample;
	moved = p->smooth > p->cost ? p->smooth - p->cost : p->cost - p->smooth;
	if (!p->known || moved > p->cost / 8)
		p->cost = p->smooth;
	p->known = true;
	p->outstanding -= oldest->size;
	p->first = (p->first + 1) % BALANCE_PIECES;
	p->count--;
}

void balance_down(struct balance *b, unsigned path)
{
	b->paths[path] = (struct balance_path){.down = true};
}

void balance_up(struct balance *b, unsigned path)
{
	b->paths[path].down = false;
}
