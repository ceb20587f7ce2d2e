/* Failures that the environment asks for, SLUICE_FAIL: docs/preload.md has its form. */
#define _GNU_SOURCE
#include "shim.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

bool sl_failing;

enum call { POST_SEND, POLL_CQ, COMPLETION };
static const char *const calls[] = {"post_send", "poll_cq", "completion"};

enum { MOST_FAILURES = 16 };

/* What fails once. */
struct failure {
	enum call call;
	int code; /* errno value or status */
	uint32_t vendor_err;
	uint64_t before; /* requests posted, or completions of success polled, of the queue pair */
	uint32_t qp;     /* the number of the queue pair, in the order in which they are made; 0 for any */
	bool struck;
	const struct ibv_cq *due; /* POLL_CQ: the CQ whose next poll fails */
};

/* Innermost of all locks. It guards what follows, but for what is read once. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct failure failures[MOST_FAILURES];
static int n_failures;
static uint32_t made; /* queue pairs */

/* ---- reading */

static int find(const struct sl_outcome *all, size_t n, const char *name, size_t length)
{
	for (size_t i = 0; i < n; i++)
		if (strlen(all[i].name) == length && !memcmp(all[i].name, name, length))
			return (int)i;
	return -1;
}

static int no_outcome(const struct sl_outcome *all, size_t n, const char *what, const char *name, size_t length)
{
	char list[300] = "";
	for (size_t i = 0; i < n; i++)
		snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s", i ? ", " : "", all[i].name);
	return sl_fail(EINVAL, "\"%.*s\" is no %s: choose one of %s", (int)length, name, what, list);
}

/* A number from 1 on behind a mark, or what is there without it. *p is moved behind it. */
static bool number(const char **p, char mark, int base, unsigned long most, unsigned long *v)
{
	if (**p != mark)
		return true;
	char *end;
	errno = 0;
	*v = strtoul(*p + 1, &end, base);
	if (!isdigit((unsigned char)(*p)[1]) || errno || *v < 1 || *v > most)
		return false;
	*p = end;
	return true;
}

/* Reads one item of n bytes. 0, or EINVAL with words. */
static int read_failure(const char *text, size_t n, struct failure *f)
{
	char item[100];
	if (n >= sizeof(item))
		return sl_fail(EINVAL, "\"%.40s...\" is too long", text);
	snprintf(item, sizeof(item), "%.*s", (int)n, text);
	*f = (struct failure){0};
	size_t call = strcspn(item, ":"), i = 0;
	while (i < sizeof(calls) / sizeof(calls[0]) && (strlen(calls[i]) != call || memcmp(calls[i], item, call)))
		i++;
	if (i == sizeof(calls) / sizeof(calls[0]))
		return sl_fail(EINVAL, "\"%.*s\" is nothing that fails: choose post_send, poll_cq or completion", (int)call, item);
	f->call = (enum call)i;
	const char *what = item + call + (item[call] == ':'), *p = what + strcspn(what, ":@/");
	bool completes = f->call == COMPLETION;
	const struct sl_outcome *all = completes ? sl_statuses : sl_errnos;
	size_t n_all = completes ? sl_statuses_n : sl_errnos_n;
	int k = find(all, n_all, what, (size_t)(p - what));
	if (k < 0)
		return no_outcome(all, n_all, completes ? "status of an error" : "errno that a call fails with here", what, (size_t)(p - what));
	f->code = all[k].code;
	unsigned long vendor = all[k].vendor_err, nth = 1, qp = 0;
	if (*p == ':' && !completes)
		return sl_fail(EINVAL, "\"%s\": a call has no syndrome: give it an errno alone", item);
	if (!number(&p, ':', 0, 255, &vendor))
		return sl_fail(EINVAL, "\"%s\": expected a syndrome of 1 to 255 behind the second colon, such as 0x81", item);
	if (!number(&p, '@', 10, 1ul << 62, &nth))
		return sl_fail(EINVAL, "\"%s\": expected a number from 1 on behind the @, such as 100", item);
	if (!number(&p, '/', 10, UINT32_MAX, &qp))
		return sl_fail(EINVAL, "\"%s\": expected the number of a queue pair behind the /, 1 for the first that is made", item);
	if (*p)
		return sl_fail(EINVAL, "\"%s\": \"%s\" is too much: write it as completion:RETRY_EXC_ERR:0x81@100/2", item, p);
	f->vendor_err = (uint32_t)vendor;
	f->before = nth - 1;
	f->qp = (uint32_t)qp;
	return 0;
}

static char wrong[SL_ERROR_SIZE];

static void read_failures(void)
{
	const char *text = getenv("SLUICE_FAIL");
	int r = 0;
	for (const char *p = text ? text : ""; !r && *p;) {
		size_t n = strcspn(p, ", ");
		if (n && n_failures == MOST_FAILURES)
			r = sl_fail(EINVAL, "there are more than %d failures", MOST_FAILURES);
		else if (n)
			r = read_failure(p, n, &failures[n_failures]);
		n_failures += n && !r;
		p += n + (p[n] != 0);
	}
	if (r)
		snprintf(wrong, sizeof(wrong), "SLUICE_FAIL: %s", sl_error_text);
	sl_failing = !r && n_failures > 0;
}

int sl_fail_read(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, read_failures);
	return wrong[0] ? sl_fail(EINVAL, "%s", wrong) : 0;
}

/* ---- striking */

static bool is_of(const struct failure *f, const struct sl_qp *q) { return !f->struck && (!f->qp || f->qp == q->fate.number); }

static void strike(struct failure *f, const struct sl_qp *q)
{
	f->struck = true;
	sl_debug("level=WARN msg=\"a failure that SLUICE_FAIL asks for\" call=%s device=%s qpn=%u", calls[f->call], q->shard->dev->name, q->qp->qp_num);
}

/* Polls that fail before the next completion of a queue pair. The lock is held. */
static void due(struct sl_qp *q)
{
	for (int i = 0; i < n_failures; i++) {
		struct failure *f = &failures[i];
		if (f->call != POLL_CQ || !is_of(f, q) || q->fate.completed < f->before)
			continue;
		strike(f, q);
		f->due = q->send->cq;
	}
}

void sl_fail_enter(struct sl_qp *q)
{
	pthread_mutex_lock(&lock);
	q->fate.number = ++made;
	due(q);
	pthread_mutex_unlock(&lock);
}

int sl_fail_post(struct sl_qp *q, int64_t n)
{
	int r = 0;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < n_failures && !r; i++) {
		struct failure *f = &failures[i];
		if (f->call != POST_SEND || !is_of(f, q) || f->before >= q->fate.posted + (uint64_t)n)
			continue;
		strike(f, q);
		r = sl_fail(f->code, "post_send qp %u of %s: it fails as SLUICE_FAIL asks", q->qp->qp_num, q->shard->dev->name);
	}
	pthread_mutex_unlock(&lock);
	return r;
}

int sl_fail_poll(const struct ibv_cq *cq)
{
	int r = 0;
	pthread_mutex_lock(&lock);
	for (int i = 0; i < n_failures && !r; i++) {
		if (failures[i].due != cq)
			continue;
		failures[i].due = NULL;
		r = sl_fail(failures[i].code, "poll_cq: it fails as SLUICE_FAIL asks");
	}
	pthread_mutex_unlock(&lock);
	return r;
}

static struct sl_qp *numbered(struct sl_shard *s, uint32_t qpn)
{
	for (uint32_t i = 0; i < s->n_qps; i++)
		if (s->qps[i] && s->qps[i]->qp->qp_num == qpn)
			return s->qps[i];
	return NULL;
}

void sl_fail_completed(struct sl_shard *s, struct sluice_verbs_wc *wc, int n)
{
	for (int i = 0; i < n; i++) {
		struct sl_qp *q = numbered(s, wc[i].qpn);
		if (q && q->fate.broken) { /* what had been carried out, too */
			wc[i].status = IBV_WC_WR_FLUSH_ERR;
			wc[i].vendor_err = sl_flushed_vendor_err;
		}
		if (!q || wc[i].status != IBV_WC_SUCCESS)
			continue;
		pthread_mutex_lock(&lock);
		for (int k = 0; k < n_failures && !q->fate.broken; k++) {
			struct failure *f = &failures[k];
			if (f->call != COMPLETION || !is_of(f, q) || q->fate.completed < f->before)
				continue;
			strike(f, q);
			wc[i].status = (uint8_t)f->code;
			wc[i].vendor_err = f->vendor_err;
			q->fate.broken = true;
		}
		if (!q->fate.broken) {
			q->fate.completed++;
			due(q);
		}
		pthread_mutex_unlock(&lock);
		if (q->fate.broken)
			sl_doom(q);
	}
}
