/* A thread that sends what is due while the program neither polls nor waits: for programs
 * that ask for it, and for programs that may sleep on a channel's descriptor. It sleeps until
 * shortly before the next segment is due, and looks at the clock for the rest, since a
 * kernel's sleep ends late and a segment that leaves late costs its flow some of its rate. */
#define _GNU_SOURCE
#include "shim.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum {
	SPIN = 30000,  /* nanoseconds before a deadline from which the clock is looked at */
	LOOK = 50000,  /* for which completions go unseen */
	FOREVER = 1000000000,
};

struct sl_thread {
	pthread_t thread;
	struct sl_device *dev;
	int fd; /* an eventfd that ends its sleep */
	bool stop, rung;
	bool idle;     /* nothing was with the device */
	int64_t until; /* by sl_clock: it rests until then */
};

static void ring(struct sl_thread *t)
{
	uint64_t one = 1;
	if (__atomic_exchange_n(&t->rung, true, __ATOMIC_ACQ_REL))
		return;
	if (write(t->fd, &one, sizeof(one)) < 0)
		return; /* it has room: it is read before the next */
}

void sl_thread_alert(struct sl_shard *s)
{
	struct sl_thread *t = __atomic_load_n(&s->dev->thread, __ATOMIC_ACQUIRE);
	if (!t || pthread_equal(pthread_self(), t->thread) || __atomic_load_n(&t->rung, __ATOMIC_RELAXED))
		return;
	sluice_time due = sl_deadline(s);
	struct sluice_long_time until = sl_long_time(__atomic_load_n(&t->until, __ATOMIC_RELAXED));
	if ((due != SLUICE_NEVER && due < sluice_core_instant(&s->core, until)) ||
	    (__atomic_load_n(&t->idle, __ATOMIC_RELAXED) && sluice_core_in_flight(&s->core) > 0))
		ring(t);
}

/* Makes the progress of the device's shards that want it, and returns when there is something
 * to do next. */
static int64_t go_round(struct sl_thread *t)
{
	struct sl_device *d = t->dev;
	int64_t next = sl_clock() + FOREVER;
	bool idle = true;
	pthread_mutex_lock(&d->list);
	for (struct sl_shard *s = d->shards; s; s = s->next) {
		if (!__atomic_load_n(&s->threaded, __ATOMIC_RELAXED))
			continue;
		int state;
		sl_lock(s, &state);
		sl_turn(s);
		struct sl_now now;
		sl_look(s, &now);
		sluice_time due = sl_deadline(s);
		int64_t at = due == SLUICE_NEVER ? next : due <= now.t ? now.ns : now.ns + (due - now.t) / 1000;
		if (sluice_core_in_flight(&s->core) > 0) {
			idle = false;
			at = at < now.ns + LOOK ? at : now.ns + LOOK;
		}
		next = at < next ? at : next;
		sl_unlock(s, state);
	}
	__atomic_store_n(&t->idle, idle, __ATOMIC_RELAXED);
	__atomic_store_n(&t->until, next, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&d->list);
	return next;
}

static void *run(void *arg)
{
	struct sl_thread *t = arg;
	prctl(PR_SET_TIMERSLACK, 1); /* the kernel adds 50 us otherwise, to save power */
	prctl(PR_SET_NAME, "sluice");
	while (!SL_ATOMIC_GET(t->stop)) {
		int64_t until = go_round(t), now = sl_clock();
		while (until - now > SPIN) {
			struct timespec left = {.tv_sec = (until - now - SPIN) / 1000000000, .tv_nsec = (until - now - SPIN) % 1000000000};
			struct pollfd p = {.fd = t->fd, .events = POLLIN};
			uint64_t count;
			if (ppoll(&p, 1, &left, NULL) > 0 && read(t->fd, &count, sizeof(count)) > 0) {
				__atomic_store_n(&t->rung, false, __ATOMIC_RELEASE);
				until = 0;
			}
			now = sl_clock();
		}
		while (now < until && !__atomic_load_n(&t->rung, __ATOMIC_RELAXED))
			now = sl_clock();
	}
	return NULL;
}

void sl_thread_start(struct sl_device *d)
{
	static pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
	if (SL_ATOMIC_GET(d->thread))
		return;
	pthread_mutex_lock(&starting);
	struct sl_thread *t = d->thread ? NULL : calloc(1, sizeof(*t));
	int r = 0;
	if (t) {
		t->dev = d;
		t->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		r = t->fd < 0 ? errno : 0;
		/* Signals are for the program's threads. */
		sigset_t all, before;
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &before);
		r = r ? r : pthread_create(&t->thread, NULL, run, t);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
		if (r) {
			if (t->fd >= 0)
				close(t->fd);
			free(t);
			sl_debug("level=ERROR msg=\"no progress thread: segments go on only while the program polls or waits\" device=%s error=\"%s\"", d->name, strerror(r));
		} else {
			SL_ATOMIC_SET(d->thread, t);
		}
	}
	pthread_mutex_unlock(&starting);
}

void sl_thread_stop(struct sl_device *d)
{
	struct sl_thread *t = d->thread;
	if (!t)
		return;
	SL_ATOMIC_SET(d->thread, NULL);
	SL_ATOMIC_SET(t->stop, true);
	ring(t);
	pthread_join(t->thread, NULL);
	close(t->fd);
	free(t);
}
