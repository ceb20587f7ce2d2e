/* Counting, failing and logging calls; events and the queues they wait in. */
#define _GNU_SOURCE
#include "fake.h"
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* hook counts a call and says whether it is to fail, with which errno. */
int hook_slow(struct fv_context *c, enum call call, struct fv_qp *qp, struct fv_cq *cq)
{
	uint64_t n = atomic_fetch_add(&c->calls[call], 1) + 1;
	for (int i = 0; i < c->cfg.nevent; i++) {
		struct event_rule *r = &c->cfg.event[i];
		if (r->call == call && r->nth == n) {
			struct fv_cq *of = cq ? cq : qp ? (struct fv_cq *)qp->ex.qp_base.send_cq : NULL;
			struct fv_srq *srq = qp && qp->ex.qp_base.srq
				? container(qp->ex.qp_base.srq, struct fv_srq, srq) : NULL;
			raise_event(c, r->type, qp, of, srq, 1);
		}
	}
	for (int i = 0; i < c->cfg.nfail; i++) {
		struct fail_rule *r = &c->cfg.fail[i];
		if (r->call == call && n > r->after && (!r->times || n <= r->after + r->times)) {
			logf_(c, "fail %s errno=%d", call_names[call], r->err);
			return r->err;
		}
	}
	return 0;
}

void logf_(struct fv_context *c, const char *format, ...)
{
	if (likely(c->cfg.logfd < 0))
		return;
	char line[512];
	int n = snprintf(line, sizeof line, "%llu %s ", (unsigned long long)now_ns(),
			 c->vctx.context.device->name);
	va_list ap;
	va_start(ap, format);
	n += vsnprintf(line + n, sizeof line - n - 1, format, ap);
	va_end(ap);
	if (n > (int)sizeof line - 2)
		n = sizeof line - 2;
	line[n++] = '\n';
	if (write(c->cfg.logfd, line, n) < 0)
		return; /* a full disk must not change what a program sees */
}

int evq_init(struct evq *q)
{
	memset(q, 0, sizeof *q);
	pthread_mutex_init(&q->mu, NULL);
	q->fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
	return q->fd < 0 ? errno : 0;
}

void evq_free(struct evq *q)
{
	close(q->fd);
	free(q->items);
	pthread_mutex_destroy(&q->mu);
}

void evq_push(struct evq *q, void *object, int type, uint64_t due)
{
	pthread_mutex_lock(&q->mu);
	if (q->len == q->cap) {
		size_t cap = q->cap ? 2 * q->cap : 16;
		struct evq_item *items = malloc(cap * sizeof *items);
		for (size_t i = 0; i < q->len; i++)
			items[i] = q->items[(q->head + i) % q->cap];
		free(q->items);
		q->items = items, q->cap = cap, q->head = 0;
	}
	q->items[(q->head + q->len++) % q->cap] = (struct evq_item){object, type, due};
	uint64_t one = 1;
	if (write(q->fd, &one, sizeof one) != sizeof one)
		abort(); /* an eventfd takes 2^64 of them */
	pthread_mutex_unlock(&q->mu);
}

/* evq_pop waits for an item unless the descriptor is non-blocking. */
int evq_pop(struct evq *q, struct evq_item *item)
{
	for (;;) {
		uint64_t n;
		if (read(q->fd, &n, sizeof n) != sizeof n)
			return -1;
		pthread_mutex_lock(&q->mu);
		bool got = q->len > 0;
		if (got) {
			*item = q->items[q->head];
			q->head = (q->head + 1) % q->cap;
			q->len--;
		}
		pthread_mutex_unlock(&q->mu);
		if (got && item->object)
			break;
	}
	uint64_t now = now_ns();
	if (item->due > now) {
		uint64_t left = item->due - now;
		nanosleep(&(struct timespec){left / 1000000000, left % 1000000000}, NULL);
	}
	return 0;
}

/* evq_drop takes an object out whose events nobody will read. */
void evq_drop(struct evq *q, void *object, uint32_t *dropped)
{
	pthread_mutex_lock(&q->mu);
	for (size_t i = 0; i < q->len; i++) {
		struct evq_item *it = &q->items[(q->head + i) % q->cap];
		if (it->object == object) {
			it->object = NULL;
			++*dropped;
		}
	}
	pthread_mutex_unlock(&q->mu);
}

void raise_event(struct fv_context *c, enum ibv_event_type type, struct fv_qp *qp, struct fv_cq *cq,
		 struct fv_srq *srq, int port)
{
	void *object;
	switch (type) {
	case IBV_EVENT_CQ_ERR:
		object = cq;
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		object = qp;
		break;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		object = srq;
		break;
	default:
		object = (void *)(intptr_t)port;
	}
	if (!object)
		return; /* the call that raised it has no such object */
	logf_(c, "event %s", ibv_event_type_str(type));
	pthread_mutex_lock(&c->mu);
	if (object == cq)
		cq->async_reported++;
	else if (object == qp)
		qp->async_reported++;
	else if (object == srq)
		srq->async_reported++;
	pthread_mutex_unlock(&c->mu);
	evq_push(&c->async, object, type, 0);
}

/* For tests that load the library themselves: raise an event by its name, such
 * as port_err, about object (NULL for a port's). Returns 0 or an errno. */
int fakeverbs_raise(struct ibv_context *ctx, const char *event, void *object)
{
	int type = event_by_name(event);
	if (type < 0)
		return EINVAL;
	bool of_cq = type == IBV_EVENT_CQ_ERR, of_srq = type == IBV_EVENT_SRQ_ERR || type == IBV_EVENT_SRQ_LIMIT_REACHED;
	raise_event(to_ctx(ctx), type, of_cq || of_srq ? NULL : object, of_cq ? object : NULL, of_srq ? object : NULL, 1);
	return 0;
}

int ibv_get_async_event(struct ibv_context *ctx, struct ibv_async_event *e)
{
	struct fv_context *c = to_ctx(ctx);
	int err = hook(c, CALL_get_async_event, NULL, NULL);
	if (err)
		return errno = err, -1;
	struct evq_item it;
	if (evq_pop(&c->async, &it))
		return -1;
	memset(e, 0, sizeof *e);
	e->event_type = it.type;
	switch (it.type) {
	case IBV_EVENT_CQ_ERR:
		e->element.cq = it.object;
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		e->element.qp = it.object;
		break;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		e->element.srq = it.object;
		break;
	default:
		e->element.port_num = (int)(intptr_t)it.object;
	}
	return 0;
}

void ibv_ack_async_event(struct ibv_async_event *e)
{
#define ACK(obj, count)                                                                            \
	do {                                                                                       \
		pthread_mutex_lock(&(obj)->mutex);                                                 \
		(obj)->count++;                                                                    \
		pthread_cond_signal(&(obj)->cond);                                                 \
		pthread_mutex_unlock(&(obj)->mutex);                                               \
	} while (0)
	switch (e->event_type) {
	case IBV_EVENT_CQ_ERR:
		ACK(e->element.cq, async_events_completed);
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		ACK(e->element.qp, events_completed);
		break;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		ACK(e->element.srq, events_completed);
		break;
	default:
		break;
	}
}
