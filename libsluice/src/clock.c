/* The host's clock: the processor's counter, mapped to CLOCK_MONOTONIC. Where the counter
 * can't be had, CLOCK_MONOTONIC itself. */
#define _GNU_SOURCE
#include "shim.h"

#include <time.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/prctl.h>
#include <x86intrin.h>
#endif

static int64_t monotonic(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

#if defined(__x86_64__)

/* A tick lasts mult / 2^32 ns. Published by a seqlock: odd while it changes. */
static struct {
	uint32_t seq;
	uint64_t ticks; /* when the clock was ns */
	int64_t ns;
	uint64_t mult; /* 0: not known yet */
} map;

/* What the map is made of. Guarded by the lock. */
static struct {
	pthread_mutex_t lock;
	uint64_t ticks;
	int64_t ns;
} from = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool usable;

enum {
	FIRST = 20000000, /* nanoseconds until the map is made */
	AGAIN = 1000000000, /* and made again */
};

/* The counter and CLOCK_MONOTONIC at the same time, as nearly as can be had. */
static void sample(uint64_t *ticks, int64_t *ns)
{
	uint64_t best = 0;
	for (int i = 0; i < 4; i++) {
		uint64_t a = __rdtsc();
		int64_t t = monotonic();
		uint64_t b = __rdtsc();
		if (i == 0 || b - a < best) {
			best = b - a;
			*ticks = a + (b - a) / 2;
			*ns = t;
		}
	}
}

__attribute__((constructor)) static void start(void)
{
	unsigned int a, b, c, d;
	int mode = PR_TSC_SIGSEGV;
	if (!__get_cpuid(0x80000007, &a, &b, &c, &d) || !(d & 1 << 8) || /* it stops or changes its pace */
	    prctl(PR_GET_TSC, &mode) || mode != PR_TSC_ENABLE) /* time is simulated */
		return;
	sample(&from.ticks, &from.ns);
	usable = true;
}

static int64_t mapped(uint64_t ticks, uint64_t at, int64_t ns, uint64_t mult)
{
	int64_t passed = (int64_t)(ticks - at);
	return ns + (int64_t)((__int128)passed * mult >> 32);
}

/* Makes the map anew, so that it is right again after AGAIN and does not jump now. */
static void renew(void)
{
	if (pthread_mutex_trylock(&from.lock))
		return;
	uint64_t ticks;
	int64_t ns, now;
	sample(&ticks, &ns);
	now = map.mult ? mapped(ticks, map.ticks, map.ns, map.mult) : ns;
	if (ns - from.ns >= FIRST && ticks > from.ticks) {
		uint64_t span = ticks - from.ticks;
		unsigned __int128 took = (unsigned __int128)(ns - from.ns) << 32;
		uint64_t mult = (uint64_t)(took / span);
		/* What the clock is ahead it loses in the time to come, by a share that no
		 * round trip shows. */
		int64_t ahead = now - ns;
		if (ahead > 100000 || ahead < -100000) {
			now = ahead < 0 ? ns : now; /* suspended, or migrated: it does not run backwards */
			ahead = ahead < 0 ? 0 : 100000;
		}
		mult -= (uint64_t)((__int128)mult * ahead / AGAIN);
		uint32_t seq = map.seq;
		__atomic_store_n(&map.seq, seq + 1, __ATOMIC_RELAXED);
		__atomic_thread_fence(__ATOMIC_RELEASE);
		__atomic_store_n(&map.ticks, ticks, __ATOMIC_RELAXED);
		__atomic_store_n(&map.ns, now, __ATOMIC_RELAXED);
		__atomic_store_n(&map.mult, mult, __ATOMIC_RELAXED);
		__atomic_store_n(&map.seq, seq + 2, __ATOMIC_RELEASE);
		from.ticks = ticks;
		__atomic_store_n(&from.ns, ns, __ATOMIC_RELAXED);
	}
	pthread_mutex_unlock(&from.lock);
}

int64_t sl_clock(void)
{
	if (!usable)
		return monotonic();
	for (;;) {
		uint32_t seq = __atomic_load_n(&map.seq, __ATOMIC_ACQUIRE);
		uint64_t at = __atomic_load_n(&map.ticks, __ATOMIC_RELAXED), mult = __atomic_load_n(&map.mult, __ATOMIC_RELAXED);
		int64_t ns = __atomic_load_n(&map.ns, __ATOMIC_RELAXED);
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (seq & 1 || seq != __atomic_load_n(&map.seq, __ATOMIC_RELAXED))
			continue;
		if (!mult) {
			int64_t now = monotonic();
			if (now - __atomic_load_n(&from.ns, __ATOMIC_RELAXED) >= FIRST)
				renew();
			return now;
		}
		int64_t now = mapped(__rdtsc(), at, ns, mult);
		if (now - ns < AGAIN)
			return now;
		renew();
		if (seq == __atomic_load_n(&map.seq, __ATOMIC_RELAXED)) /* another thread is at it */
			return now;
	}
}

bool sl_time_is_simulated(void)
{
	int mode = PR_TSC_ENABLE;
	return !prctl(PR_GET_TSC, &mode) && mode != PR_TSC_ENABLE;
}

#else

int64_t sl_clock(void) { return monotonic(); }

bool sl_time_is_simulated(void) { return false; } /* on x86-64 alone */

#endif
