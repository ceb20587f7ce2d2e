#include "ledger.h"

#include <string.h>

void ledger_init(struct ledger *l, unsigned n)
{
	memset(l, 0, sizeof *l);
	l->n = n;
}

void ledger_begin(struct ledger *l, unsigned message, uint64_t size)
{
	l->messages[message] = (struct ledger_message){.size = size, .owes = !size};
}

static bool is_send(const struct ledger_work *w)
{
	return w->kind == LEDGER_END || w->kind == LEDGER_NOTE;
}

static bool of_message(const struct ledger_work *w)
{
	return w->kind == LEDGER_PIECE || w->kind == LEDGER_END;
}

void ledger_posted(struct ledger *l, unsigned lane, struct ledger_work w)
{
	struct ledger_lane *a = &l->lanes[lane];

	a->works[(a->first + a->count++) % LEDGER_WORKS] = w;
	if (!of_message(&w))
		return;
	l->messages[w.of].outstanding++;
	if (w.kind == LEDGER_PIECE) {
		l->messages[w.of].uncovered[lane] += w.size;
		if (w.offset == l->messages[w.of].posted)
			l->messages[w.of].posted += w.size;
	}
}

struct ledger_work ledger_done(struct ledger *l, unsigned lane)
{
	struct ledger_lane *a = &l->lanes[lane];
	struct ledger_work w = a->works[a->first++ % LEDGER_WORKS];

	a->count--;
	if (is_send(&w))
		a->arrived++;
	if (of_message(&w))
		l->messages[w.of].outstanding--;
	return w;
}

/* settled reports whether all ends of a message are posted, as far as is known. */
static bool settled(const struct ledger *l, const struct ledger_message *m)
{
	if (m->posted < m->size || m->repeats || m->adopted || m->owes)
		return false;
	for (unsigned i = 0; i < l->n; i++)
		if (m->uncovered[i])
			return false;
	return true;
}

bool ledger_end(struct ledger *l, unsigned lane, unsigned message, bool any, uint64_t *covers)
{
	struct ledger_message *m = &l->messages[message];

	if (m->posted < m->size || m->repeats || (any ? !m->adopted && !m->owes : !m->uncovered[lane]))
		return false;
	*covers = m->uncovered[lane] + (uint64_t)m->adopted;
	m->uncovered[lane] = 0;
	m->adopted = 0;
	m->owes = false;
	m->ended = settled(l, m);
	return true;
}

bool ledger_finished(const struct ledger *l, unsigned message)
{
	const struct ledger_message *m = &l->messages[message];

	return m->ended && !m->outstanding;
}

bool ledger_settle(struct ledger *l, unsigned lane, uint32_t arrived)
{
	struct ledger_lane *a = &l->lanes[lane];
	uint32_t more = arrived - a->arrived, sends = 0;

	for (uint32_t i = 0; i < a->count && sends < more; i++)
		sends += is_send(&a->works[(a->first + i) % LEDGER_WORKS]);
	if (sends != more)
		return false;
	while (a->arrived != arrived)
		ledger_done(l, lane);
	return true;
}

uint64_t ledger_lost(struct ledger *l, unsigned lane)
{
	struct ledger_lane *a = &l->lanes[lane];
	uint64_t bytes = 0;

	for (; a->count; a->count--) {
		struct ledger_work w = a->works[a->first++ % LEDGER_WORKS];
		struct ledger_message *m = of_message(&w) ? &l->messages[w.of] : NULL;

		if (m) {
			m->outstanding--;
			m->ended = false;
		}
		if (w.kind == LEDGER_END) {
			m->adopted += (int64_t)w.size;
			m->owes = !m->size;
		}
		if (w.kind == LEDGER_PIECE) {
			m->adopted -= (int64_t)w.size;
			m->repeats++;
			bytes += w.size;
		}
		if (w.kind == LEDGER_PIECE || w.kind == LEDGER_NOTE)
			l->repeats[(l->repeats_first + l->repeats_count++) % LEDGER_REPEATS] = w;
	}
	for (unsigned i = 0; i < LEDGER_MESSAGES; i++) {
		struct ledger_message *m = &l->messages[i];

		m->adopted += (int64_t)m->uncovered[lane];
		m->uncovered[lane] = 0;
	}
	a->first = a->arrived = 0;
	return bytes;
}

const struct ledger_work *ledger_repeat(const struct ledger *l)
{
	return l->repeats_count ? &l->repeats[l->repeats_first % LEDGER_REPEATS] : NULL;
}

void ledger_repeated(struct ledger *l)
{
	const struct ledger_work *w = ledger_repeat(l);

	if (w->kind == LEDGER_PIECE)
		l->messages[w->of].repeats--;
	l->repeats_first++;
	l->repeats_count--;
}
