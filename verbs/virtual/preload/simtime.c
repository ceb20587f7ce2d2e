/* Clocks, sleeps and timers in simulated time. */
#define _GNU_SOURCE
#include "turns.h"

#include <sys/eventfd.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/timex.h>
#include <sys/syscall.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int64_t shown_at_start(clockid_t id)
{
	switch (id) {
	case CLOCK_REALTIME:
	case CLOCK_REALTIME_COARSE:
	case CLOCK_REALTIME_ALARM:
	case CLOCK_TAI:
		return welcome.epoch;
	case CLOCK_MONOTONIC:
	case CLOCK_MONOTONIC_RAW:
	case CLOCK_MONOTONIC_COARSE:
	case CLOCK_BOOTTIME:
	case CLOCK_BOOTTIME_ALARM:
		return welcome.boot;
	default: /* of processor time */
		return 0;
	}
}

/* instant_of is when a clock shows a time. */
int64_t instant_of(clockid_t id, const struct timespec *shown)
{
	struct timespec t = {shown->tv_sec - shown_at_start(id), shown->tv_nsec};

	return t.tv_sec < 0 ? 0 : ps_of(&t);
}

/* Seconds since 1970 in ps are more than 64 bits have. */
static struct timespec shown(clockid_t id)
{
	struct timespec t = timespec_of(turn_clock());

	t.tv_sec += shown_at_start(id);
	return t;
}

EXPORT int clock_gettime(clockid_t id, struct timespec *t)
{
	if (!simulated())
		return NEXT(clock_gettime)(id, t);
	*t = shown(id);
	return 0;
}

EXPORT int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
	struct timespec now;

	if (!simulated())
		return NEXT(gettimeofday)(t, zone);
	now = shown(CLOCK_REALTIME);
	*t = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
	if (zone)
		*(struct timezone *)zone = (struct timezone){0};
	return 0;
}

EXPORT time_t time(time_t *t)
{
	struct timespec now;

	if (!simulated())
		return NEXT(time)(t);
	now = shown(CLOCK_REALTIME);
	if (t)
		*t = now.tv_sec;
	return now.tv_sec;
}

EXPORT int timespec_get(struct timespec *t, int base)
{
	if (!simulated() || base != TIME_UTC)
		return NEXT(timespec_get)(t, base);
	*t = shown(CLOCK_REALTIME);
	return base;
}

EXPORT clock_t clock(void)
{
	return simulated() ? turn_clock() / (PS_OF_S / CLOCKS_PER_SEC) : NEXT(clock)();
}

EXPORT clock_t times(struct tms *t)
{
	clock_t now;

	if (!simulated())
		return NEXT(times)(t);
	now = turn_clock() / (PS_OF_S / sysconf(_SC_CLK_TCK)); /* of processor time */
	if (t)
		*t = (struct tms){.tms_utime = now};
	return now + welcome.boot * sysconf(_SC_CLK_TCK);
}

/* sleep_until returns 0, or EINTR if a handler ran before. */
static int sleep_until(int64_t until)
{
	int interrupted = 0;

	do
		turn_wait(WAIT_SLEEP, until, 0, 0, &interrupted);
	while (turn_now < until && !interrupted);
	return turn_now < until ? EINTR : 0;
}

static bool bad(const struct timespec *t)
{
	return t->tv_sec < 0 || t->tv_nsec < 0 || t->tv_nsec >= 1000000000;
}

EXPORT int clock_nanosleep(clockid_t id, int flags, const struct timespec *span, struct timespec *rest)
{
	int64_t until;
	int err;

	if (!simulated())
		return NEXT(clock_nanosleep)(id, flags, span, rest);
	if (bad(span))
		return EINVAL;
	until = flags & TIMER_ABSTIME ? instant_of(id, span) : from_now(ps_of(span));
	err = sleep_until(until);
	if (err && rest && !(flags & TIMER_ABSTIME))
		*rest = timespec_of(until - turn_now);
	return err;
}

EXPORT int nanosleep(const struct timespec *span, struct timespec *rest)
{
	int err;

	if (!simulated())
		return NEXT(nanosleep)(span, rest);
	err = clock_nanosleep(CLOCK_MONOTONIC, 0, span, rest);
	if (!err)
		return 0;
	errno = err;
	return -1;
}

EXPORT int usleep(useconds_t us)
{
	struct timespec t = {us / 1000000, us % 1000000 * 1000};

	return simulated() ? nanosleep(&t, NULL) : NEXT(usleep)(us);
}

EXPORT unsigned sleep(unsigned seconds)
{
	struct timespec t = {seconds, 0}, rest = {0, 0};

	if (!simulated())
		return NEXT(sleep)(seconds);
	nanosleep(&t, &rest);
	return rest.tv_sec + (rest.tv_nsec >= 500000000);
}

EXPORT int pause(void)
{
	int interrupted = 0;

	if (!simulated())
		return NEXT(pause)();
	while (!interrupted)
		turn_wait(WAIT_SIGNAL, NEVER, 0, 0, &interrupted);
	errno = EINTR;
	return -1;
}

EXPORT int sigsuspend(const sigset_t *set)
{
	sigset_t old;
	bool pending;

	if (!simulated())
		return NEXT(sigsuspend)(set);
	pending = unblocks(set);
	pthread_sigmask(SIG_SETMASK, set, &old);
	if (!pending)
		pause();
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	errno = EINTR;
	return -1;
}

EXPORT int sigtimedwait(const sigset_t *restrict set, siginfo_t *restrict info, const struct timespec *restrict timeout)
{
	int64_t until = NEVER;
	uint64_t wanted = 0;

	if (!simulated())
		return NEXT(sigtimedwait)(set, info, timeout);
	if (timeout && bad(timeout)) {
		errno = EINVAL;
		return -1;
	}
	if (timeout)
		until = from_now(ps_of(timeout));
	for (int sig = 1; sig < NSIG - 1; sig++)
		wanted |= (uint64_t)(sigismember(set, sig) == 1) << sig;
	turn_sync();
	for (int interrupted = 0;;) {
		int sig = NEXT(sigtimedwait)(set, info, &(struct timespec){0, 0});

		if (sig > 0 && info && sig == SIGCHLD)
			info->si_pid = child_number(info->si_pid);
		if (sig > 0 || (errno != EAGAIN && errno != EINTR))
			return sig;
		if (errno == EINTR && !interrupted) /* by a probe */
			continue;
		if (interrupted) {
			errno = EINTR;
			return -1;
		}
		if (turn_now >= until) {
			turn_pass(welcome.look_cost, WAIT_LOOK); /* it may be in a loop */
			errno = EAGAIN;
			return -1;
		}
		turn_wait(WAIT_SIGNAL, until, wanted, 0, &interrupted);
	}
}

EXPORT int sigwaitinfo(const sigset_t *restrict set, siginfo_t *restrict info)
{
	return simulated() ? sigtimedwait(set, info, NULL) : NEXT(sigwaitinfo)(set, info);
}

EXPORT int sigwait(const sigset_t *restrict set, int *restrict sig)
{
	int got;

	if (!simulated())
		return NEXT(sigwait)(set, sig);
	while ((got = sigtimedwait(set, NULL, NULL)) < 0 && errno == EINTR)
		;
	if (got < 0)
		return errno;
	*sig = got;
	return 0;
}

/* Timers: setitimer's three, and those of timer_create. */
#define TIMERS 64

static struct timer {
	bool used;
	clockid_t clock;
	int sig;
	int64_t due, interval; /* due: NEVER if it is not armed */
} timers[TIMERS] = {
	[ITIMER_REAL] = {true, CLOCK_REALTIME, SIGALRM, NEVER, 0},
	[ITIMER_VIRTUAL] = {true, CLOCK_REALTIME, SIGVTALRM, NEVER, 0},
	[ITIMER_PROF] = {true, CLOCK_REALTIME, SIGPROF, NEVER, 0},
};

/* timers_forget disarms what a child of fork has of its parent's timers. */
void timers_forget(void)
{
	for (int i = 0; i < TIMERS; i++) {
		timers[i].used = i <= ITIMER_PROF;
		timers[i].due = NEVER;
	}
}

/* rest_of is the time until a timer is due next; 0: it is not armed. */
static int64_t rest_of(const struct timer *t)
{
	int64_t due = t->due;

	if (due == NEVER || (due <= turn_now && !t->interval))
		return 0;
	if (due <= turn_now)
		due += (turn_now - due) / t->interval * t->interval + t->interval;
	return due - turn_now;
}

static void arm(struct timer *t, int64_t due, int64_t interval)
{
	t->due = due;
	t->interval = interval;
	turn_ask(TURN_TIMER, t - timers, t->sig, interval, due, NULL);
}

static int64_t ps_of_timeval(const struct timeval *t)
{
	struct timespec s = {t->tv_sec, t->tv_usec * 1000};

	return ps_of(&s);
}

static struct timeval timeval_of(int64_t ps)
{
	struct timespec s = timespec_of(ps);

	return (struct timeval){s.tv_sec, s.tv_nsec / 1000};
}

EXPORT int getitimer(__itimer_which_t which, struct itimerval *value)
{
	if (!simulated())
		return NEXT(getitimer)(which, value);
	if ((unsigned)which > ITIMER_PROF) {
		errno = EINVAL;
		return -1;
	}
	value->it_value = timeval_of(rest_of(&timers[which]));
	value->it_interval = timeval_of(timers[which].interval);
	return 0;
}

EXPORT int setitimer(__itimer_which_t which, const struct itimerval *restrict value, struct itimerval *restrict old)
{
	int64_t span;

	if (!simulated())
		return NEXT(setitimer)(which, value, old);
	if (old && getitimer(which, old))
		return -1;
	if ((unsigned)which > ITIMER_PROF || value->it_value.tv_usec >= 1000000 || value->it_value.tv_sec < 0) {
		errno = EINVAL;
		return -1;
	}
	span = ps_of_timeval(&value->it_value);
	arm(&timers[which], span ? from_now(span) : NEVER, span ? ps_of_timeval(&value->it_interval) : 0);
	return 0;
}

EXPORT unsigned alarm(unsigned seconds)
{
	int64_t rest;

	if (!simulated())
		return NEXT(alarm)(seconds);
	rest = rest_of(&timers[ITIMER_REAL]);
	arm(&timers[ITIMER_REAL], seconds ? from_now(seconds * PS_OF_S) : NEVER, 0);
	return (rest + PS_OF_S - 1) / PS_OF_S;
}

EXPORT useconds_t ualarm(useconds_t value, useconds_t interval)
{
	struct itimerval v = {{interval / 1000000, interval % 1000000}, {value / 1000000, value % 1000000}}, old;

	if (!simulated())
		return NEXT(ualarm)(value, interval);
	setitimer(ITIMER_REAL, &v, &old);
	return old.it_value.tv_sec * 1000000 + old.it_value.tv_usec;
}

/* The versions that programs link: those without are of 32-bit identifiers. */
#define NEW_TIMERS "GLIBC_2.3.3"

EXPORT int timer_create(clockid_t id, struct sigevent *restrict event, timer_t *restrict timer)
{
	int sig = SIGALRM;

	if (!simulated())
		return NEXT_VERSION(timer_create, NEW_TIMERS)(id, event, timer);
	if (event && event->sigev_notify == SIGEV_THREAD)
		turn_refuse("timer_create with SIGEV_THREAD");
	if (event)
		sig = event->sigev_notify == SIGEV_NONE ? 0 : event->sigev_signo;
	for (int i = ITIMER_PROF + 1; i < TIMERS; i++)
		if (!timers[i].used) {
			timers[i] = (struct timer){true, id, sig, NEVER, 0};
			*timer = (timer_t)(intptr_t)i;
			return 0;
		}
	errno = EAGAIN;
	return -1;
}

static struct timer *timer_of(timer_t timer)
{
	uintptr_t i = (uintptr_t)timer;

	if (i > ITIMER_PROF && i < TIMERS && timers[i].used)
		return &timers[i];
	errno = EINVAL;
	return NULL;
}

EXPORT int timer_gettime(timer_t timer, struct itimerspec *value)
{
	struct timer *t;

	if (!simulated())
		return NEXT_VERSION(timer_gettime, NEW_TIMERS)(timer, value);
	t = timer_of(timer);
	if (!t)
		return -1;
	value->it_value = timespec_of(rest_of(t));
	value->it_interval = timespec_of(t->interval);
	return 0;
}

/* due_of is when a timer is due that is armed for a time: NEVER, if it is disarmed. */
static int64_t due_of(clockid_t id, bool absolute, const struct timespec *at)
{
	if (!at->tv_sec && !at->tv_nsec)
		return NEVER;
	return absolute ? instant_of(id, at) : from_now(ps_of(at));
}

EXPORT int timer_settime(timer_t timer, int flags, const struct itimerspec *restrict value, struct itimerspec *restrict old)
{
	int64_t due;
	struct timer *t;

	if (!simulated())
		return NEXT_VERSION(timer_settime, NEW_TIMERS)(timer, flags, value, old);
	t = timer_of(timer);
	if (!t || (old && timer_gettime(timer, old)))
		return -1;
	if (bad(&value->it_value)) {
		errno = EINVAL;
		return -1;
	}
	due = due_of(t->clock, flags & TIMER_ABSTIME, &value->it_value);
	arm(t, due, due == NEVER ? 0 : ps_of(&value->it_interval));
	return 0;
}

EXPORT int timer_delete(timer_t timer)
{
	struct timer *t;

	if (!simulated())
		return NEXT_VERSION(timer_delete, NEW_TIMERS)(timer);
	t = timer_of(timer);
	if (!t)
		return -1;
	arm(t, NEVER, 0);
	t->used = false;
	return 0;
}

EXPORT int timer_getoverrun(timer_t timer)
{
	if (!simulated())
		return NEXT_VERSION(timer_getoverrun, NEW_TIMERS)(timer);
	return timer_of(timer) ? 0 : -1;
}

/* Timers of descriptors: each is an eventfd, in which the scheduler counts. */
static struct timer_fd {
	uint64_t number; /* 0: none */
	clockid_t clock;
	int64_t interval;
	uint32_t process; /* that made it */
} timer_fds[FDS];

EXPORT int timerfd_create(int id, int flags)
{
	int fd;

	if (!simulated())
		return NEXT(timerfd_create)(id, flags);
	fd = eventfd(0, flags & (EFD_NONBLOCK | EFD_CLOEXEC));
	if (fd >= FDS) {
		close(fd);
		errno = EMFILE;
		return -1;
	}
	if (fd >= 0)
		timer_fds[fd] = (struct timer_fd){turn_timerfd(fd), id, 0, welcome.pid};
	return fd;
}

void timerfd_dup(int from, int to)
{
	if ((unsigned)from < FDS && (unsigned)to < FDS)
		timer_fds[to] = timer_fds[from];
}

/* timerfd_closed ends a timer of which the process that made it has no other descriptor. */
void timerfd_closed(int fd)
{
	struct timer_fd was;

	if ((unsigned)fd >= FDS || likely(!timer_fds[fd].number))
		return;
	was = timer_fds[fd];
	timer_fds[fd].number = 0;
	for (int i = 0; i < FDS; i++)
		if (timer_fds[i].number == was.number)
			return;
	if (was.process == welcome.pid)
		turn_ask(TURN_TIMERFD, was.number, TIMERFD_CLOSE, 0, 0, NULL);
}

static struct timer_fd *timer_fd(int fd)
{
	if ((unsigned)fd < FDS && timer_fds[fd].number)
		return &timer_fds[fd];
	errno = syscall(SYS_fcntl, fd, F_GETFD) < 0 ? EBADF : EINVAL;
	return NULL;
}

EXPORT int timerfd_gettime(int fd, struct itimerspec *value)
{
	struct timer_fd *f;
	uint64_t due;

	if (!simulated())
		return NEXT(timerfd_gettime)(fd, value);
	f = timer_fd(fd);
	if (!f)
		return -1;
	turn_sync();
	turn_ask(TURN_TIMERFD, f->number, TIMERFD_GET, 0, 0, &due);
	value->it_value = timespec_of((int64_t)due == NEVER ? 0 : (int64_t)due - turn_now);
	value->it_interval = timespec_of(f->interval);
	return 0;
}

EXPORT int timerfd_settime(int fd, int flags, const struct itimerspec *value, struct itimerspec *old)
{
	struct timer_fd *f;
	int64_t due;

	if (!simulated())
		return NEXT(timerfd_settime)(fd, flags, value, old);
	f = timer_fd(fd);
	if (!f || (old && timerfd_gettime(fd, old)))
		return -1;
	if (bad(&value->it_value) || bad(&value->it_interval)) {
		errno = EINVAL;
		return -1;
	}
	due = due_of(f->clock, flags & TFD_TIMER_ABSTIME, &value->it_value);
	f->interval = due == NEVER ? 0 : ps_of(&value->it_interval);
	turn_ask(TURN_TIMERFD, f->number, TIMERFD_SET, f->interval, due, NULL);
	turn_changed();
	return 0;
}

EXPORT int clock_getres(clockid_t id, struct timespec *t)
{
	if (!simulated())
		return NEXT(clock_getres)(id, t);
	if (t)
		*t = (struct timespec){0, 1};
	return 0;
}

/* Nobody may set the machine's clocks. */
static int not_permitted(void)
{
	errno = EPERM;
	return -1;
}

EXPORT int clock_settime(clockid_t id, const struct timespec *t)
{
	return simulated() ? not_permitted() : NEXT(clock_settime)(id, t);
}

EXPORT int settimeofday(const struct timeval *t, const struct timezone *zone)
{
	return simulated() ? not_permitted() : NEXT(settimeofday)(t, zone);
}

EXPORT int adjtimex(struct timex *t)
{
	return simulated() ? not_permitted() : NEXT(adjtimex)(t);
}

EXPORT int clock_adjtime(clockid_t id, struct timex *t)
{
	return simulated() ? not_permitted() : NEXT(clock_adjtime)(id, t);
}

EXPORT int sysinfo(struct sysinfo *info)
{
	int ret = NEXT(sysinfo)(info);

	if (!ret && simulated()) {
		info->uptime = shown(CLOCK_BOOTTIME).tv_sec;
		memset(info->loads, 0, sizeof info->loads);
	}
	return ret;
}
