/*
 * What a thread does without a call, made waiting points: reads of the time stamp counter
 * (PR_SET_TSC), looks at completion queues (their pages are closed), and loops that only
 * read memory (the scheduler's probe finds that the registers come back to what they were).
 */
#define _GNU_SOURCE
#include "turns.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)

#define PAGE 4096

/* For the processor to trap after one instruction. */
#define TRAP_FLAG 0x100

/* A queue whose pages are closed to the program. */
struct closed {
	uintptr_t addr; /* 0: none */
	size_t length;
	uint32_t empty_at; /* 1 and the number of the entry that the last look found empty; 0: it found one */
};

static struct closed closed[BOARD_QUEUES];
static int mem_fd = -1; /* /proc/self/mem: reads closed pages */

#define INITIAL_EXEC __attribute__((tls_model("initial-exec")))

/* What the thread is stepped for. */
static __thread struct closed *opened INITIAL_EXEC; /* to be closed again */
static __thread struct {
	bool on;
	int steps, rounds, steps_before; /* the last: when it was asked for again */
	int64_t began;			 /* the thread's processor time then, in ns */
	uint64_t way, last_way;
	greg_t at[NGREG];
} probe INITIAL_EXEC;

/*
 * A loop that only reads memory comes back to the same registers, by the same values of
 * registers and flags at each instruction of the way, PROBE_ROUNDS times within PROBE_STEPS instructions. One that counts
 * in memory is told apart by the values it loads, or by the flags of what it adds.
 */
#define PROBE_ROUNDS 9
#define PROBE_STEPS 3000

static void protect(struct closed *c, int prot)
{
	syscall(SYS_mprotect, c->addr, c->length, prot);
}

static void open_memory(void)
{
	int h;

	if (mem_fd >= 0) {
		forget(mem_fd);
		syscall(SYS_close, mem_fd);
	}
	mem_fd = syscall(SYS_openat, AT_FDCWD, "/proc/self/mem", O_RDONLY | O_CLOEXEC);
	h = syscall(SYS_fcntl, mem_fd, F_DUPFD_CLOEXEC, 700);
	if (h >= 0) {
		syscall(SYS_close, mem_fd);
		mem_fd = h;
	}
	keep(mem_fd);
}

/* queues_changed closes the pages of the queues that the board has, and opens those of others. */
void queues_changed(void)
{
	for (int i = 0; i < BOARD_QUEUES; i++) {
		struct board_queue *q = &board->queues[i];
		size_t length = (size_t)q->entries * q->entry_size;
		struct closed want = {q->entries ? q->addr : 0, (length + PAGE - 1) & ~(size_t)(PAGE - 1), 0};

		if (want.addr == closed[i].addr && want.length == closed[i].length)
			continue;
		if (closed[i].addr)
			protect(&closed[i], PROT_READ | PROT_WRITE);
		closed[i] = want;
		if (want.addr)
			protect(&closed[i], PROT_NONE);
	}
}

/* queues_forget opens what a child of fork has of its parent's queues. */
void queues_forget(void)
{
	for (int i = 0; i < BOARD_QUEUES; i++)
		if (closed[i].addr) {
			protect(&closed[i], PROT_READ | PROT_WRITE);
			closed[i].addr = 0;
		}
	open_memory();
}

/*
 * look lets time pass if a program looks at the entry that the device writes next, and
 * there is none. A look after the program has found others in the same poll is free: it
 * has not yet stored that it consumed them; so is the first one of a program that does not
 * store it each time.
 */
static void look(int i, uintptr_t addr)
{
	struct board_queue *q = &board->queues[i];
	uint32_t size = q->entry_size, slot = (addr - q->addr) / size, consumed, n, produced;

	if (slot >= q->entries || (addr - q->addr) % size < size - 4) /* what tells whether there is one lies at its end */
		return;
	if (turn_far)
		turn_catch_up();
	consumed = __builtin_bswap32(*(volatile uint32_t *)(uintptr_t)q->doorbell) & 0xffffff;
	n = (consumed + ((slot - consumed) & (q->entries - 1))) & 0xffffff;
	produced = atomic_load(&q->produced) & 0xffffff;
	if (((n - produced) & 0xffffff) >> 23) { /* n lies before */
		closed[i].empty_at = 0;
		return;
	}
	if (consumed == produced || closed[i].empty_at == n + 1)
		turn_pass(welcome.look_cost, WAIT_LOOK);
	closed[i].empty_at = n + 1;
}

static uint64_t memory_loaded(void *arg, uintptr_t addr, unsigned size)
{
	uint64_t value = 0;

	(void)arg;
	syscall(SYS_pread64, mem_fd, &value, size, addr);
	return value;
}

static int64_t processor_time(void)
{
	struct timespec t;

	syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void end_probe(ucontext_t *uc)
{
	probe.on = false;
	uc->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
}

/* trapped handles a fault if it is one that this file asked for. */
bool trapped(siginfo_t *info, void *context, bool store)
{
	ucontext_t *uc = context;
	greg_t *g = uc->uc_mcontext.gregs;
	uintptr_t addr = (uintptr_t)info->si_addr;

	if (info->si_code == SI_KERNEL) {
		const unsigned char *p = (const unsigned char *)g[REG_RIP];
		bool rdtscp = p[0] == 0x0f && p[1] == 0x01 && p[2] == 0xf9;
		uint64_t ticks;

		if (!rdtscp && !(p[0] == 0x0f && p[1] == 0x31))
			return false;
		if (probe.on)
			end_probe(uc);
		ticks = (unsigned __int128)turn_clock() * welcome.tsc_hz / PS_OF_S + welcome.boot * welcome.tsc_hz;
		g[REG_RAX] = ticks & 0xffffffff;
		g[REG_RDX] = ticks >> 32;
		if (rdtscp)
			g[REG_RCX] = 0; /* the processor's number */
		g[REG_RIP] += rdtscp ? 3 : 2;
		return true;
	}
	if (info->si_code != SEGV_ACCERR)
		return false;
	for (int i = 0; i < BOARD_QUEUES; i++) {
		struct closed *c = &closed[i];

		if (!c->addr || addr - c->addr >= c->length)
			continue;
		if (probe.on)
			end_probe(uc);
		if (!store) {
			look(i, addr);
			if (emulate(uc, memory_loaded, NULL, addr))
				return true;
		}
		/* Another one that was opened for the same instruction stays so until a later one. */
		protect(c, PROT_READ | PROT_WRITE);
		opened = c;
		g[REG_EFL] |= TRAP_FLAG;
		return true;
	}
	return false;
}

/* Bits of the flags that come from stepping itself differ. */
static greg_t flags_of(const greg_t *g)
{
	return g[REG_EFL] & ~(TRAP_FLAG | 0x10000);
}

static bool same(const greg_t *a, const greg_t *b)
{
	for (int i = REG_R8; i <= REG_RIP; i++)
		if (a[i] != b[i])
			return false;
	return flags_of(a) == flags_of(b);
}

/* onward adds an instruction's registers to a way. */
static uint64_t onward(uint64_t way, const greg_t *g)
{
	for (int i = REG_R8; i <= REG_RIP; i++)
		way = (way ^ g[i]) * 0x9e3779b97f4a7c15, way ^= way >> 29;
	return (way ^ flags_of(g)) * 0x9e3779b97f4a7c15;
}

/* proven reports whether a step shows that the thread loops. */
static bool proven(const greg_t *g)
{
	probe.way = onward(probe.way, g);
	if (!same(g, probe.at))
		return false;
	probe.rounds = probe.way == probe.last_way ? probe.rounds + 1 : 0;
	probe.last_way = probe.way;
	probe.way = 0;
	return probe.rounds == PROBE_ROUNDS;
}

/* at_call reports whether the next instruction is a system call, which no loop over memory has. */
static bool at_call(const greg_t *g)
{
	const unsigned char *p = (const unsigned char *)g[REG_RIP];

	return p[0] == 0x0f && p[1] == 0x05;
}

static void on_step(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;
	greg_t *g = uc->uc_mcontext.gregs;
	int saved = errno;

	(void)sig;
	(void)info;
	if (opened) {
		if (opened->addr)
			protect(opened, PROT_NONE);
		opened = NULL;
	}
	if (!probe.on || turn_busy()) {
		end_probe(uc);
	} else if (proven(g)) {
		end_probe(uc);
		turn_wait(WAIT_LOOP, NEVER, turn_shares, 0, NULL);
	} else if (++probe.steps == PROBE_STEPS || at_call(g)) {
		/* A call may block SIGTRAP, and the next step would be the process's end. */
		end_probe(uc);
		turn_ask(TURN_PROBED, processor_time() - probe.began, 0, 0, 0, NULL);
	}
	errno = saved;
}

/* call_events returns the events of its first argument, a descriptor, that a system call waits for, or 0. */
static short call_events(long number)
{
	switch (number) {
	case SYS_write:
	case SYS_writev:
	case SYS_sendto:
	case SYS_sendmsg:
		return POLLOUT;
	case SYS_read:
	case SYS_readv:
	case SYS_recvfrom:
	case SYS_recvmsg:
	case SYS_accept:
	case SYS_accept4:
		return POLLIN;
	}
	return 0;
}

/*
 * call_waits reports whether a system call that the C library or the program made by itself would block, after it has
 * waited for what that waits for: stdio's reads and writes, futexes, locks of files. A signal's handler that ran meanwhile
 * ends it.
 */
static bool call_waits(greg_t *g)
{
	short events = call_events(g[REG_RAX]);
	int fd = g[REG_RDI], interrupted = 0;

	if (events && (ours(fd) || !blocks(fd)))
		return false;
	switch (g[REG_RAX]) {
	case SYS_futex:
		if ((g[REG_RSI] & FUTEX_CMD_MASK) != FUTEX_WAIT && (g[REG_RSI] & FUTEX_CMD_MASK) != FUTEX_WAIT_BITSET)
			return false;
		if (turn_futex((void *)g[REG_RDI], g[REG_RDX], NEVER) == EINTR)
			interrupted = INTERRUPTED_NO_RESTART;
		break;
	case SYS_fcntl:
		if (g[REG_RSI] != F_SETLKW && g[REG_RSI] != F_OFD_SETLKW)
			return false;
		/* fall through */
	case SYS_flock:
		turn_shares = true;
		turn_wait_for(NEVER, true, &interrupted);
		break;
	case SYS_wait4:
	case SYS_waitid:
		turn_wait(WAIT_CHILD, NEVER, 0, 0, &interrupted);
		break;
	default:
		if (!events)
			return false;
		if (wait_ready(fd, events, NEVER) == EINTR)
			interrupted = INTERRUPTED_NO_RESTART;
	}
	if (interrupted & INTERRUPTED_NO_RESTART) {
		g[REG_RAX] = -EINTR;
		g[REG_RIP] += 2;
	}
	return true;
}

static void on_probe(int sig, siginfo_t *info, void *context)
{
	ucontext_t *uc = context;

	(void)sig;
	(void)info;
	if (turn_busy())
		return;
	if (at_call(uc->uc_mcontext.gregs)) {
		int saved = errno;

		if (!call_waits(uc->uc_mcontext.gregs))
			turn_ask(TURN_PROBED, 0, 0, 0, 0, NULL);
		errno = saved;
		return;
	}
	/* Steps end where a signal handler returns. */
	if (probe.on && probe.steps != probe.steps_before) {
		probe.steps_before = probe.steps;
		return;
	}
	probe.on = true;
	probe.began = processor_time();
	probe.steps_before = 0;
	probe.steps = probe.rounds = 0;
	probe.way = probe.last_way = 0;
	memcpy(probe.at, uc->uc_mcontext.gregs, sizeof probe.at);
	uc->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
}

void traps_install(void)
{
	struct sigaction step = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART},
			 probed = {.sa_sigaction = on_probe, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
	uint64_t set = 1ull << (SIGSEGV - 1) | 1ull << (SIGTRAP - 1) | 1ull << (SIG_PROBE - 1);

	/* A handler of steps is not to be stepped itself. */
	sigaddset(&step.sa_mask, SIG_PROBE);
	NEXT(sigaction)(SIGTRAP, &step, NULL);
	NEXT(sigaction)(SIG_PROBE, &probed, NULL);
	syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &set, NULL, sizeof set);
	open_memory();
}

/* traps_thread has the thread's reads of the time stamp counter trap, or not: programs that are executed start without. */
void traps_thread(bool on)
{
	prctl(PR_SET_TSC, on ? PR_TSC_SIGSEGV : PR_TSC_ENABLE, 0, 0, 0);
}

#else

/* The scheduler refuses such machines. */
void queues_changed(void)
{
}

void queues_forget(void)
{
}

bool trapped(siginfo_t *info, void *context, bool store)
{
	(void)info;
	(void)context;
	(void)store;
	return false;
}

void traps_install(void)
{
}

void traps_thread(bool on)
{
	(void)on;
}

#endif
