/*
 * The NIC's clock page. A page that the server kept current would stand still while the
 * server is off the processor, so each load from it faults, and is carried out here with
 * the clock's value at that moment. The page's successor in the server's memory says how
 * to convert CLOCK_MONOTONIC_RAW (guest.ClockPage).
 */
#define _GNU_SOURCE
#include "turns.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* How the counter is computed; 64-bit words that the server writes. */
struct counter {
	_Atomic uint64_t seq; /* odd while it is written */
	_Atomic uint64_t at, raw, ticks, mult, shift;
	_Atomic uint64_t untrapped; /* set here: the server is to keep the page current */
};

struct clock {
	_Atomic uintptr_t addr; /* 0 if free */
	size_t length;
	unsigned char *alias; /* the page and the counter, readable and writable */
};

#define CLOCKS 64
static struct clock clocks[CLOCKS];
_Atomic int clocks_mapped;
static pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER;

static struct counter *counter_of(struct clock *c)
{
	return (struct counter *)(c->alias + c->length);
}

static uint64_t read_counter(struct counter *n, uint64_t *at)
{
	uint64_t seq, raw, ticks, mult, shift, now;
	struct timespec ts;
	int tries = 0;

	do {
		seq = atomic_load(&n->seq);
		*at = atomic_load(&n->at);
		raw = atomic_load(&n->raw);
		ticks = atomic_load(&n->ticks);
		mult = atomic_load(&n->mult);
		shift = atomic_load(&n->shift) & 63;
	} while ((seq & 1 || seq != atomic_load(&n->seq)) && ++tries < 1000000); /* a server that ended leaves it odd */
	NEXT(clock_gettime)(CLOCK_MONOTONIC_RAW, &ts);
	now = ts.tv_sec * 1000000000ull + ts.tv_nsec;
	if (simulated())
		now = turn_clock() / PS_OF_NS;
	return ticks + (uint64_t)((__int128)(int64_t)(now - raw) * (__int128)mult >> shift);
}

/* clock_loaded returns the present value of a load of size bytes from a clock's page. */
static uint64_t clock_loaded(void *clock, uintptr_t addr, unsigned size)
{
	struct clock *c = clock;
	uint64_t at, ticks = read_counter(counter_of(c), &at), value = 0;
	size_t offset = addr - atomic_load(&c->addr);

	for (unsigned i = 0; i < size; i++)
		if (offset + i >= at && offset + i < at + 8)
			value |= (ticks >> 8 * (7 - (offset + i - at)) & 0xff) << 8 * i;
	return value;
}

#if defined(__x86_64__)

static const int gregs[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
			      REG_R8,  REG_R9,	REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

/* Loads are mov, movzx, movsx, movsxd and movbe from memory. */
bool emulate(ucontext_t *uc, loader *loaded, void *arg, uintptr_t addr)
{
	const unsigned char *start = (const unsigned char *)uc->uc_mcontext.gregs[REG_RIP], *p = start;
	unsigned rex = 0, size, to, reg, mod, rm;
	bool narrow = false, sign = false, swap = false;
	uint64_t value;
	greg_t *g;

	for (;; p++) {
		if (*p == 0x66)
			narrow = true;
		else if (*p != 0x2e && *p != 0x3e && *p != 0x26 && *p != 0x36 && *p != 0x64 && *p != 0x65 && *p != 0x67)
			break;
	}
	if ((*p & 0xf0) == 0x40)
		rex = *p++;
	to = size = rex & 8 ? 8 : narrow ? 2 : 4;
	switch (*p++) {
	case 0x8a:
		to = size = 1;
		break;
	case 0x8b:
		break;
	case 0x63:
		size = 4;
		sign = true;
		break;
	case 0x0f:
		switch (*p++) {
		case 0xb6:
			size = 1;
			break;
		case 0xb7:
			size = 2;
			break;
		case 0xbe:
			size = 1;
			sign = true;
			break;
		case 0xbf:
			size = 2;
			sign = true;
			break;
		case 0x38:
			if (*p++ != 0xf0)
				return false;
			swap = true;
			break;
		default:
			return false;
		}
		break;
	default:
		return false;
	}
	mod = *p >> 6;
	reg = (*p >> 3 & 7) | (rex & 4) << 1;
	rm = *p++ & 7;
	if (mod == 3)
		return false;
	if (rm == 4) {
		unsigned base = *p++ & 7;

		if (mod == 0 && base == 5)
			p += 4;
	} else if (mod == 0 && rm == 5) {
		p += 4;
	}
	p += mod == 1 ? 1 : mod == 2 ? 4 : 0;

	value = loaded(arg, addr, size);
	if (swap)
		value = __builtin_bswap64(value) >> 8 * (8 - size);
	if (sign && value >> (8 * size - 1))
		value |= ~0ull << (8 * size - 1);
	if (to == 1 && !rex && reg >= 4) { /* ah, ch, dh, bh */
		g = &uc->uc_mcontext.gregs[gregs[reg - 4]];
		*g = (*g & ~0xff00ull) | value << 8;
	} else {
		g = &uc->uc_mcontext.gregs[gregs[reg]];
		switch (to) {
		case 1:
			*g = (*g & ~0xffull) | value;
			break;
		case 2:
			*g = (*g & ~0xffffull) | (value & 0xffff);
			break;
		case 4:
			*g = value & 0xffffffff;
			break;
		default:
			*g = value;
		}
	}
	uc->uc_mcontext.gregs[REG_RIP] += p - start;
	return true;
}

static bool is_store(const ucontext_t *uc)
{
	return uc->uc_mcontext.gregs[REG_ERR] & 2;
}

#elif defined(__aarch64__)

/* Loads are ldr, ldur, ldar and their narrow forms, without sign or write-back. */
bool emulate(ucontext_t *uc, loader *loaded, void *arg, uintptr_t addr)
{
	uint32_t i = *(const uint32_t *)uc->uc_mcontext.pc;
	unsigned size = 1u << (i >> 30), to = i & 31;

	if ((i & 0x3fc00000) != 0x39400000 &&  /* ldr, unsigned offset */
	    (i & 0x3fe00c00) != 0x38400000 &&  /* ldur */
	    (i & 0x3fe00c00) != 0x38600800 &&  /* ldr, register offset */
	    (i & 0x3ffffc00) != 0x08dffc00)    /* ldar */
		return false;
	if (to != 31)
		uc->uc_mcontext.regs[to] = loaded(arg, addr, size);
	uc->uc_mcontext.pc += 4;
	return true;
}

static bool is_store(const ucontext_t *uc)
{
	const struct _aarch64_ctx *h = (const void *)uc->uc_mcontext.__reserved;

	for (; h->magic; h = (const void *)((const char *)h + h->size))
		if (h->magic == ESR_MAGIC)
			return ((const struct esr_context *)h)->esr & 1 << 6;
	return true;
}

#endif

/* untrap has loads from a clock go to the page, and the server keep it current. */
static void untrap(struct clock *c, void *addr)
{
	struct counter *n = counter_of(c);
	uint64_t at, ticks = __builtin_bswap64(read_counter(n, &at));

	if (at <= c->length - sizeof ticks)
		memcpy(c->alias + at, &ticks, sizeof ticks);
	atomic_store(&n->untrapped, 1);
	syscall(SYS_mprotect, addr, c->length, PROT_READ);
}

/* Found before the first fault, where dlsym may not be called. */
static __typeof__(&sigaction) next_sigaction;
static __typeof__(&pthread_sigmask) next_sigmask;

/*
 * What the program would have as its action for SIGSEGV without this library. A handler
 * copies it while sigaction may change it: changes then have an odd count.
 */
static struct sigaction programs = {.sa_handler = SIG_DFL};
static _Atomic unsigned programs_count;
static pthread_mutex_t programs_changing = PTHREAD_MUTEX_INITIALIZER;

static void pass_on(int sig, siginfo_t *info, void *context)
{
	struct sigaction a;
	unsigned count;

	do {
		count = atomic_load(&programs_count);
		memcpy(&a, &programs, sizeof a);
	} while (count & 1 || count != atomic_load(&programs_count));
	if (a.sa_handler == SIG_DFL || (a.sa_handler == SIG_IGN && info->si_code > 0)) {
		struct sigaction fatal = {.sa_handler = SIG_DFL};

		/* The instruction faults again, and the kernel ends the program as it would have. */
		next_sigaction(sig, &fatal, NULL);
		if (info->si_code <= 0) /* sent by somebody: it has to be sent again */
			raise(sig);
		return;
	}
	if (a.sa_handler == SIG_IGN)
		return;
	if (a.sa_flags & SA_RESETHAND) {
		struct sigaction none = {.sa_handler = SIG_DFL};

		sigaction(sig, &none, NULL);
	}
	if (!(a.sa_flags & SA_NODEFER))
		sigaddset(&a.sa_mask, sig);
	/* sigreturn sets the mask of the interrupted code again. */
	next_sigmask(SIG_BLOCK, &a.sa_mask, NULL);
	if (a.sa_flags & SA_SIGINFO)
		a.sa_sigaction(sig, info, context);
	else
		a.sa_handler(sig);
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
	uintptr_t at = (uintptr_t)info->si_addr;
	int saved = errno;

	if (info->si_code == SEGV_ACCERR)
		for (int i = 0; i < CLOCKS; i++) {
			struct clock *c = &clocks[i];
			uintptr_t addr = atomic_load_explicit(&c->addr, memory_order_acquire);

			if (!addr || at - addr >= c->length)
				continue;
			/* Another thread may have untrapped it just now. */
			if (atomic_load(&counter_of(c)->untrapped) || !emulate(context, clock_loaded, c, at)) {
				if (is_store(context))
					break;
				untrap(c, (void *)addr);
			}
			errno = saved;
			return;
		}
	if (atomic_load(&turns_state) == TURNS_ON && trapped(info, context, is_store(context))) {
		errno = saved;
		return;
	}
	errno = saved;
	pass_on(sig, info, context);
}

/*
 * The handler is there before the program's own ones: a Go runtime passes faults in C code
 * on to what it finds when it starts.
 */
void clock_install(void)
{
	struct sigaction a = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | SA_RESTART};

	if (next_sigaction)
		return;
	next_sigaction = NEXT(sigaction);
	next_sigmask = NEXT(pthread_sigmask);
	if (atomic_load(&turns_state) == TURNS_STARTING)
		sigaddset(&a.sa_mask, SIG_PROBE);
	next_sigaction(SIGSEGV, &a, &programs);
}

int clock_map(void *addr, size_t length, int fd, off_t offset)
{
	unsigned char *alias;
	int err = ENOMEM;

	alias = (void *)syscall(SYS_mmap, NULL, length + sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
	if (alias == MAP_FAILED)
		return errno;
	pthread_mutex_lock(&changing);
	for (int i = 0; i < CLOCKS; i++) {
		struct clock *c = &clocks[i];

		if (atomic_load(&c->addr))
			continue;
		c->length = length;
		c->alias = alias;
		err = syscall(SYS_mprotect, addr, length, PROT_NONE) ? errno : 0;
		if (!err) {
			atomic_store_explicit(&c->addr, (uintptr_t)addr, memory_order_release);
			atomic_fetch_add(&clocks_mapped, 1);
		}
		break;
	}
	pthread_mutex_unlock(&changing);
	if (err)
		syscall(SYS_munmap, alias, length + sysconf(_SC_PAGESIZE));
	return err;
}

void clock_unmap(void *addr, size_t length)
{
	pthread_mutex_lock(&changing);
	for (int i = 0; i < CLOCKS; i++) {
		struct clock *c = &clocks[i];
		uintptr_t at = atomic_load(&c->addr);

		if (!at || at - (uintptr_t)addr >= length)
			continue;
		atomic_store(&c->addr, 0);
		atomic_fetch_sub(&clocks_mapped, 1);
		syscall(SYS_munmap, c->alias, c->length + sysconf(_SC_PAGESIZE));
	}
	pthread_mutex_unlock(&changing);
}

EXPORT int sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	sigset_t mask, saved;
	struct sigaction was;

	if (is_turns_signal(sig)) {
		if (old)
			*old = (struct sigaction){.sa_handler = SIG_DFL};
		return 0;
	}
	if (likely(sig != SIGSEGV) || !virtual_root())
		return NEXT(sigaction)(sig, act, old);
	sigfillset(&mask);
	NEXT(pthread_sigmask)(SIG_SETMASK, &mask, &saved);
	pthread_mutex_lock(&programs_changing);
	was = programs;
	if (act) {
		atomic_fetch_add(&programs_count, 1);
		programs = *act;
		atomic_fetch_add(&programs_count, 1);
	}
	pthread_mutex_unlock(&programs_changing);
	NEXT(pthread_sigmask)(SIG_SETMASK, &saved, NULL);
	if (old)
		*old = was;
	return 0;
}

EXPORT int __sigaction(int sig, const struct sigaction *act, struct sigaction *old);
int __sigaction(int sig, const struct sigaction *act, struct sigaction *old)
{
	return sigaction(sig, act, old);
}

static sighandler_t set_handler(int sig, sighandler_t handler, int flags)
{
	struct sigaction act = {.sa_handler = handler, .sa_flags = flags}, old;

	if (sigaction(sig, &act, &old))
		return SIG_ERR;
	return old.sa_handler;
}

EXPORT sighandler_t signal(int sig, sighandler_t handler)
{
	if (likely(sig != SIGSEGV && !is_turns_signal(sig)) || !virtual_root())
		return NEXT(signal)(sig, handler);
	return set_handler(sig, handler, SA_RESTART);
}

EXPORT sighandler_t bsd_signal(int sig, sighandler_t handler);
sighandler_t bsd_signal(int sig, sighandler_t handler)
{
	return signal(sig, handler);
}

EXPORT sighandler_t sysv_signal(int sig, sighandler_t handler)
{
	if (likely(sig != SIGSEGV) || !virtual_root())
		return NEXT(sysv_signal)(sig, handler);
	return set_handler(sig, handler, SA_RESETHAND | SA_NODEFER);
}

EXPORT sighandler_t __sysv_signal(int sig, sighandler_t handler);
sighandler_t __sysv_signal(int sig, sighandler_t handler)
{
	return sysv_signal(sig, handler);
}

/* Without SIGSEGV: a load of the clock where it is blocked would end the program; nor those of turns. */
static const sigset_t *unblocked(int how, const sigset_t *set, sigset_t *copy)
{
	if (!set || how == SIG_UNBLOCK || !virtual_root())
		return set;
	*copy = *set;
	sigdelset(copy, SIGSEGV);
	if (simulated()) {
		sigdelset(copy, SIGTRAP);
		sigdelset(copy, SIG_PROBE);
	}
	return copy;
}

EXPORT int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	sigset_t copy;

	return NEXT(pthread_sigmask)(how, unblocked(how, set, &copy), old);
}

EXPORT int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	sigset_t copy;

	return NEXT(sigprocmask)(how, unblocked(how, set, &copy), old);
}
