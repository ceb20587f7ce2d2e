/* Threads in simulated time: each has a connection of its own, and what they wait for from each other is tried. */
#define _GNU_SOURCE
#include "turns.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* threaded is set with the first thread beside main's: before, no lock is another one's. */
static bool threaded;
static pthread_t first_thread;

static bool shares(void)
{
	return (threaded || turn_shares) && simulated();
}

struct start {
	void *(*run)(void *);
	void *arg;
	_Atomic pid_t tid;
	uint64_t number;
};

static pthread_key_t leaving;
static pthread_once_t leaving_once = PTHREAD_ONCE_INIT;

/* Destructors run in ROUNDS rounds (PTHREAD_DESTRUCTOR_ITERATIONS); the last one ends the thread's part. */
#define ROUNDS ((uintptr_t)4)

static void leave(void *rounds)
{
	uintptr_t left = (uintptr_t)rounds;

	if (left > 1)
		pthread_setspecific(leaving, (void *)(left - 1));
	else
		turn_leave();
}

static void make_key(void)
{
	pthread_key_create(&leaving, leave);
}

static void *run(void *arg)
{
	struct start *s = arg, start = *s;

	/* s lasts until it is set: who made the thread waits for it, and then for its connection. */
	atomic_store(&s->tid, syscall(SYS_gettid));
	syscall(SYS_futex, &s->tid, 1 /* FUTEX_WAKE */, 1, NULL, NULL, 0);
	if (turn_join())
		turn_refuse("a thread without a connection");
	traps_thread(true);
	pthread_setspecific(leaving, (void *)ROUNDS);
	return start.run(start.arg);
}

/* Threads by what pthread_create returned, for pthread_join. */
#define THREADS 1024
static struct joinable {
	pthread_t thread;
	uint64_t number; /* 0: none */
} joinable[THREADS];

EXPORT int pthread_create(pthread_t *restrict thread, const pthread_attr_t *restrict attr, void *(*f)(void *), void *restrict arg)
{
	struct start s = {f, arg, 0, 0};
	uint64_t probes = 1ull << (SIG_PROBE - 1), mask;
	pid_t tid;
	int err;

	if (!simulated())
		return NEXT(pthread_create)(thread, attr, f, arg);
	pthread_once(&leaving_once, make_key);
	if (!threaded)
		first_thread = pthread_self();
	threaded = true;
	err = NEXT(pthread_create)(thread, attr, run, &s);
	if (err)
		return err;
	/* The scheduler knows of no other thread yet: a probe of this wait would have it wait for one for ever. */
	syscall(SYS_rt_sigprocmask, SIG_BLOCK, &probes, &mask, sizeof probes);
	while (!(tid = atomic_load(&s.tid)))
		syscall(SYS_futex, &s.tid, 0 /* FUTEX_WAIT */, 0, NULL, NULL, 0);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, NULL, sizeof mask);
	turn_ask(TURN_THREAD, tid, 0, 0, 0, &s.number);
	for (int i = 0; i < THREADS; i++)
		if (!joinable[i].number) {
			joinable[i] = (struct joinable){*thread, s.number};
			break;
		}
	turn_changed();
	return 0;
}

EXPORT int pthread_join(pthread_t thread, void **value)
{
	if (simulated())
		for (int i = 0; i < THREADS; i++)
			if (joinable[i].number && pthread_equal(joinable[i].thread, thread)) {
				while (!turn_wait(WAIT_THREAD, NEVER, joinable[i].number, 0, NULL))
					; /* a signal came */
				joinable[i].number = 0;
				break;
			}
	return NEXT(pthread_join)(thread, value);
}

/* main's thread has number 1. */
EXPORT int pthread_kill(pthread_t thread, int sig)
{
	uint64_t number = thread == first_thread;

	if (!simulated() || pthread_equal(thread, pthread_self()) || !sig)
		return NEXT(pthread_kill)(thread, sig);
	for (int i = 0; i < THREADS; i++)
		if (joinable[i].number && pthread_equal(joinable[i].thread, thread))
			number = joinable[i].number;
	return number ? turn_ask(TURN_SIGNAL, welcome.pid, sig, number, 0, NULL) : ESRCH;
}

EXPORT int pthread_detach(pthread_t thread)
{
	for (int i = 0; i < THREADS; i++)
		if (joinable[i].number && pthread_equal(joinable[i].thread, thread))
			joinable[i].number = 0;
	return NEXT(pthread_detach)(thread);
}

/* LOCKED tries until it succeeds; others of the process may run in between. */
#define LOCKED(try, until)                                                     \
	({                                                                     \
		int err;                                                       \
		bool again = false;                                            \
		while ((err = (try)) == EBUSY) {                               \
			if (turn_now >= (until)) {                             \
				err = ETIMEDOUT;                               \
				break;                                         \
			}                                                      \
			turn_wait_for(until, again, NULL);                     \
			again = true;                                          \
		}                                                              \
		err;                                                           \
	})

EXPORT int pthread_mutex_lock(pthread_mutex_t *m)
{
	return shares() ? LOCKED(NEXT(pthread_mutex_trylock)(m), NEVER) : NEXT(pthread_mutex_lock)(m);
}

EXPORT int pthread_mutex_timedlock(pthread_mutex_t *restrict m, const struct timespec *restrict at)
{
	if (!simulated())
		return NEXT(pthread_mutex_timedlock)(m, at);
	return LOCKED(NEXT(pthread_mutex_trylock)(m), instant_of(CLOCK_REALTIME, at));
}

EXPORT int pthread_mutex_clocklock(pthread_mutex_t *restrict m, clockid_t id, const struct timespec *restrict at)
{
	if (!simulated())
		return NEXT(pthread_mutex_clocklock)(m, id, at);
	return LOCKED(NEXT(pthread_mutex_trylock)(m), instant_of(id, at));
}

/* A loop that only tries lets others run. */
#define TRIED(name, arg)                                                       \
	({                                                                     \
		int err = NEXT(name)(arg);                                     \
		if (err == EBUSY && shares())                                  \
			turn_wait(WAIT_CLOCK, turn_now + welcome.look_cost, 0, 0, NULL); \
		err;                                                           \
	})

EXPORT int pthread_mutex_trylock(pthread_mutex_t *m)
{
	return TRIED(pthread_mutex_trylock, m);
}

EXPORT int pthread_spin_lock(pthread_spinlock_t *lock)
{
	return shares() ? LOCKED(NEXT(pthread_spin_trylock)(lock), NEVER) : NEXT(pthread_spin_lock)(lock);
}

EXPORT int pthread_spin_trylock(pthread_spinlock_t *lock)
{
	return TRIED(pthread_spin_trylock, lock);
}

EXPORT int pthread_rwlock_rdlock(pthread_rwlock_t *lock)
{
	return shares() ? LOCKED(NEXT(pthread_rwlock_tryrdlock)(lock), NEVER) : NEXT(pthread_rwlock_rdlock)(lock);
}

EXPORT int pthread_rwlock_wrlock(pthread_rwlock_t *lock)
{
	return shares() ? LOCKED(NEXT(pthread_rwlock_trywrlock)(lock), NEVER) : NEXT(pthread_rwlock_wrlock)(lock);
}

/*
 * Conditions: who waits is in a list of this process's. Only the thread that runs touches
 * it. One that processes share counts its signals, in its memory, and each ends all waits for it.
 */
struct shared_cond {
	_Atomic uint32_t signals;
};

/* is_shared reads the bit that the C library sets in pthread_cond_init. */
static bool is_shared(const void *cond)
{
	return ((const pthread_cond_t *)cond)->__data.__wrefs & 1;
}

struct waiter {
	void *cond;
	bool woken;
	struct waiter *next;
};

static struct waiter *waiters, **last = &waiters;

static void stop_waiting(struct waiter *w)
{
	struct waiter **at = &waiters;

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	if (last == &w->next)
		last = at;
}

static int cond_wait(void *cond, pthread_mutex_t *m, int64_t until)
{
	struct waiter w = {.cond = cond};
	bool again = false;
	uint32_t signals = is_shared(cond) ? ((struct shared_cond *)cond)->signals : 0;
	int err = pthread_mutex_unlock(m);

	if (err)
		return err;
	if (is_shared(cond)) {
		err = turn_futex(&((struct shared_cond *)cond)->signals, signals, until);
		pthread_mutex_lock(m);
		return err == EINTR ? 0 : err;
	}
	*last = &w;
	last = &w.next;
	while (!w.woken && turn_now < until) {
		turn_wait_for(until, again, NULL);
		again = true;
	}
	if (!w.woken) {
		err = ETIMEDOUT;
	}
	stop_waiting(&w);
	pthread_mutex_lock(m);
	return err;
}

static void cond_wake(void *cond, bool all)
{
	if (is_shared(cond))
		((struct shared_cond *)cond)->signals++;
	for (struct waiter *w = waiters; w; w = w->next)
		if (w->cond == cond && !w->woken) {
			w->woken = true;
			if (!all)
				break;
		}
	turn_changed();
}

#define NEW_CONDS "GLIBC_2.3.2"

EXPORT int pthread_cond_wait(pthread_cond_t *restrict c, pthread_mutex_t *restrict m)
{
	return simulated() ? cond_wait(c, m, NEVER) : NEXT_VERSION(pthread_cond_wait, NEW_CONDS)(c, m);
}

/* A condition's clock is in its memory as the C library keeps it: by the time that is asked for. */
EXPORT int pthread_cond_timedwait(pthread_cond_t *restrict c, pthread_mutex_t *restrict m, const struct timespec *restrict at)
{
	if (!simulated())
		return NEXT_VERSION(pthread_cond_timedwait, NEW_CONDS)(c, m, at);
	return cond_wait(c, m, instant_of(at->tv_sec >= welcome.epoch ? CLOCK_REALTIME : CLOCK_MONOTONIC, at));
}

EXPORT int pthread_cond_clockwait(pthread_cond_t *restrict c, pthread_mutex_t *restrict m, clockid_t id, const struct timespec *restrict at)
{
	return simulated() ? cond_wait(c, m, instant_of(id, at)) : NEXT(pthread_cond_clockwait)(c, m, id, at);
}

EXPORT int pthread_cond_signal(pthread_cond_t *c)
{
	if (!simulated())
		return NEXT_VERSION(pthread_cond_signal, NEW_CONDS)(c);
	cond_wake(c, false);
	return 0;
}

EXPORT int pthread_cond_broadcast(pthread_cond_t *c)
{
	if (!simulated())
		return NEXT_VERSION(pthread_cond_broadcast, NEW_CONDS)(c);
	cond_wake(c, true);
	return 0;
}

EXPORT int pthread_cond_destroy(pthread_cond_t *c)
{
	return simulated() ? 0 : NEXT_VERSION(pthread_cond_destroy, NEW_CONDS)(c);
}

EXPORT sem_t *sem_open(const char *name, int flags, ...)
{
	mode_t mode;
	unsigned value;
	va_list ap;

	va_start(ap, flags);
	mode = va_arg(ap, mode_t);
	value = va_arg(ap, unsigned);
	va_end(ap);
	turn_shares = true;
	return NEXT(sem_open)(name, flags, mode, value);
}

EXPORT int sem_post(sem_t *s)
{
	int ret = NEXT(sem_post)(s);

	if (simulated())
		turn_changed();
	return ret;
}

static int try_sem(sem_t *s)
{
	return NEXT(sem_trywait)(s) ? errno == EAGAIN ? EBUSY : errno : 0;
}

static int sem_until(sem_t *s, int64_t until)
{
	int err = LOCKED(try_sem(s), until);

	errno = err;
	return err ? -1 : 0;
}

EXPORT int sem_wait(sem_t *s)
{
	return simulated() ? sem_until(s, NEVER) : NEXT(sem_wait)(s);
}

EXPORT int sem_timedwait(sem_t *restrict s, const struct timespec *restrict at)
{
	return simulated() ? sem_until(s, instant_of(CLOCK_REALTIME, at)) : NEXT(sem_timedwait)(s, at);
}

/* A barrier of this process's, or of several, in the program's memory for one. */
struct barrier {
	unsigned count, waiting, leaving; /* the last: of earlier rounds, and still within pthread_barrier_wait */
	unsigned round;
};

_Static_assert(sizeof(struct barrier) <= sizeof(pthread_barrier_t), "no room for a barrier");

EXPORT int pthread_barrier_init(pthread_barrier_t *restrict barrier, const pthread_barrierattr_t *restrict attr, unsigned count)
{
	(void)attr;
	if (!simulated())
		return NEXT(pthread_barrier_init)(barrier, attr, count);
	if (!count)
		return EINVAL;
	*(struct barrier *)barrier = (struct barrier){.count = count};
	return 0;
}

/* WHILE lets others of the process run while a condition holds. */
#define WHILE(condition)                                                       \
	for (bool again = false; (condition); again = true)                    \
	turn_wait_for(NEVER, again, NULL)

EXPORT int pthread_barrier_wait(pthread_barrier_t *barrier)
{
	struct barrier *b = (void *)barrier;
	unsigned round;

	if (!simulated())
		return NEXT(pthread_barrier_wait)(barrier);
	round = b->round;
	if (++b->waiting == b->count) {
		b->leaving += b->count - 1;
		b->waiting = 0;
		b->round++;
		turn_changed();
		return PTHREAD_BARRIER_SERIAL_THREAD;
	}
	WHILE(b->round == round);
	b->leaving--;
	return 0;
}

EXPORT int pthread_barrier_destroy(pthread_barrier_t *barrier)
{
	struct barrier *b = (void *)barrier;

	if (!simulated())
		return NEXT(pthread_barrier_destroy)(barrier);
	WHILE(b->leaving);
	return 0;
}
