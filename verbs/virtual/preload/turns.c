/* A thread's connection to the scheduler. */
#define _GNU_SOURCE
#include "turns.h"

#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

_Atomic int turns_state = TURNS_UNKNOWN;
struct turn_welcome welcome;
struct board *board;
char turns_dir[80];

/* Of the thread that runs: no other one reads or writes them meanwhile. */
int64_t turn_now, turn_alone, turn_horizon;
bool turn_far;
static int64_t turn_base; /* when the turn began */
static int reads;	   /* of clocks, with nothing else between them */

static __thread int conn __attribute__((tls_model("initial-exec"))) = -1;
static __thread bool busy __attribute__((tls_model("initial-exec")));
static __thread int number __attribute__((tls_model("initial-exec"))) = 1; /* of the process's threads */
static uint32_t seen_changes;

bool turn_busy(void)
{
	return busy;
}

/* The first thread has its process's number. */
int turn_thread(void)
{
	return welcome.pid + (number - 1) * THREADS_APART;
}

static void complain(const char *format, va_list ap)
{
	char text[512];
	int n = snprintf(text, sizeof text, "libsluice-virtual.so: ");

	n += vsnprintf(text + n, sizeof text - n - 1, format, ap);
	if (n > (int)sizeof text - 2)
		n = sizeof text - 2;
	text[n++] = '\n';
	syscall(SYS_write, 2, text, n);
}

static void __attribute__((noreturn, format(printf, 1, 2))) fail(const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	complain(format, ap);
	va_end(ap);
	syscall(SYS_exit_group, 70);
	__builtin_unreachable();
}

/* Blocks all signals except the ones that the processor raises in this library's own
 * code. */
static void block_signals(uint64_t *old)
{
	uint64_t all = ~(1ull << (SIGSEGV - 1) | 1ull << (SIGTRAP - 1));

	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, old, sizeof all);
}

static void restore_signals(const uint64_t *old)
{
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, old, NULL, sizeof *old);
}

/* board_read carries out what the scheduler has written since the last time. */
void board_read(void)
{
	if (!board || atomic_load(&board->changes) == seen_changes)
		return;
	seen_changes = atomic_load(&board->changes);
	queues_changed();
	turn_changed(); /* the simulation may have got other events, too */
}

#define MAX_FDS 250
#define INITIAL_EXEC __attribute__((tls_model("initial-exec")))

/* exchange sends a request and waits for the turn. */
static void exchange(struct turn_request *q, const void *data, size_t len, const int *fds, size_t nfds,
		     struct turn_reply *r, void *reply_data, size_t reply_len, int *fd)
{
	static __thread union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(MAX_FDS * sizeof(int))];
	} control __attribute__((tls_model("initial-exec")));
	struct iovec out[2] = {{q, sizeof *q}, {(void *)data, len}};
	struct iovec in[2] = {{r, sizeof *r}, {reply_data, reply_len}};
	struct msghdr m = {.msg_iov = out, .msg_iovlen = len ? 2 : 1};
	struct cmsghdr *c;
	ssize_t n;

	if (nfds) {
		m.msg_control = &control;
		m.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(nfds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, nfds * sizeof(int));
	}
	q->now = turn_now;
	do
		n = syscall(SYS_sendmsg, conn, &m, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		fail("the simulation has ended");
	m = (struct msghdr){.msg_iov = in, .msg_iovlen = reply_len ? 2 : 1};
	if (fd) {
		*fd = -1;
		m.msg_control = &control;
		m.msg_controllen = CMSG_SPACE(sizeof(int));
	}
	do
		n = syscall(SYS_recvmsg, conn, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < (ssize_t)sizeof *r)
		fail("the simulation has ended");
	if (fd)
		for (c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c))
			if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
				memcpy(fd, CMSG_DATA(c), sizeof(int));
	if (r->ready & READY_STILL)
		return;
	/* What turn_changed announced may be about to happen, and others have not looked yet. */
	turn_horizon = q->op != TURN_WAIT && !turn_horizon ? 0 : r->horizon;
	turn_now = turn_base = r->now;
	turn_alone = r->alone;
	turn_far = r->ready & READY_FAR;
	board_read();
}

/* handled returns what a signal that has a handler interrupts. */
static int handled(int sig)
{
	struct sigaction a;

	if (NEXT(sigaction)(sig, NULL, &a) || a.sa_handler == SIG_IGN || a.sa_handler == SIG_DFL)
		return 0;
	return a.sa_flags & SA_RESTART ? INTERRUPTED : INTERRUPTED | INTERRUPTED_NO_RESTART;
}

bool unblocks(const sigset_t *mask)
{
	sigset_t pending;

	sigpending(&pending);
	for (int sig = 1; sig < NSIG; sig++)
		if (sigismember(&pending, sig) == 1 && !sigismember(mask, sig) && handled(sig))
			return true;
	return false;
}

/* What the kernel's frame of a signal takes of a stack, and the start of a process. */
#define SIGNAL_FRAME 5000
#define START_FRAMES 32000

/* scrub clears the stack below: registers and paths that differ between runs, which a program may send with what it did not write. */
__attribute__((noinline)) static void scrub(size_t n)
{
	char below[n];

	memset(below, 0, n);
	__asm__ volatile("" : : "r"(below) : "memory");
}

__attribute__((noinline)) static int raise_here(int sig)
{
	siginfo_t info;

	memset(&info, 0, sizeof info);
	info.si_signo = sig;
	info.si_code = SI_TKILL;
	info.si_pid = welcome.pid;
	info.si_uid = syscall(SYS_getuid);
	return syscall(SYS_rt_tgsigqueueinfo, syscall(SYS_getpid), syscall(SYS_gettid), sig, &info);
}

/* turn_raise raises a signal in this thread, or pends it for all. */
int turn_raise(int sig, bool pends)
{
	/* A thread may say by what number for itself only. */
	int err = pends ? syscall(SYS_kill, syscall(SYS_getpid), sig) : raise_here(sig);

	scrub(SIGNAL_FRAME);
	return err;
}

/* deliver raises signals in this thread, and says what that interrupts. One that the thread blocks is pending for all threads. */
static void deliver(uint64_t signals, int *interrupted)
{
	uint64_t blocked = 0;

	syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &blocked, sizeof blocked);
	for (int bit = 0; bit < 64; bit++) {
		int sig = bit ? bit : SIGCHLD;
		bool blocks = blocked >> (sig - 1) & 1;
		if (!(signals >> bit & 1))
			continue;
		if (interrupted && !blocks)
			*interrupted |= handled(sig);
		if (bit)
			turn_raise(sig, blocks);
	}
}

static bool request(struct turn_request *q, const void *data, size_t len, const int *fds, size_t nfds,
		    struct turn_reply *r, int *interrupted)
{
	int saved = errno;
	uint64_t old;

	if (conn < 0)
		fail("a thread that pthread_create did not make, or a process that fork did not, can't be simulated");
	busy = true;
	block_signals(&old);
	exchange(q, data, len, fds, nfds, r, NULL, 0, NULL);
	restore_signals(&old);
	busy = false;
	if (interrupted)
		*interrupted = 0;
	if (r->signals)
		deliver(r->signals, interrupted);
	errno = saved;
	return r->ready & READY;
}

bool turn_wait(enum turn_wait what, int64_t until, uint64_t b, uint32_t flags, int *interrupted)
{
	struct turn_request q = {.op = TURN_WAIT, .flags = flags, .a = what, .b = b, .until = until};
	struct turn_reply r;

	return request(&q, NULL, 0, NULL, 0, &r, interrupted);
}

bool turn_wait_fds(const struct pollfd *fds, size_t n, int64_t until, int *interrupted)
{
	struct turn_request q = {.op = TURN_WAIT, .a = WAIT_FDS, .until = until};
	struct turn_reply r;
	int numbers[MAX_FDS];
	struct wanted {
		int32_t fd, events;
	} wanted[MAX_FDS];
	size_t count = 0;

	for (size_t i = 0; i < n; i++) {
		if (fds[i].fd < 0)
			continue;
		if (count == MAX_FDS)
			turn_refuse("a wait for more than %d descriptors", MAX_FDS);
		numbers[count] = fds[i].fd;
		wanted[count++] = (struct wanted){fds[i].fd, fds[i].events};
	}
	return request(&q, wanted, count * sizeof *wanted, numbers, count, &r, interrupted);
}

int turn_ask(enum turn_op op, uint64_t a, uint64_t b, uint64_t c, int64_t until, uint64_t *value)
{
	struct turn_request q = {.op = op, .a = a, .b = b, .c = c, .until = until};
	struct turn_reply r;

	request(&q, NULL, 0, NULL, 0, &r, NULL);
	if (value)
		*value = r.value;
	return r.err;
}

uint64_t turn_timerfd(int fd)
{
	struct turn_request q = {.op = TURN_TIMERFD};
	struct turn_reply r;

	request(&q, NULL, 0, &fd, 1, &r, NULL);
	return r.value;
}

void turn_refuse(const char *format, ...)
{
	struct turn_request q = {.op = TURN_REFUSED};
	struct turn_reply r;
	char text[256];
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(text, sizeof text, format, ap);
	va_end(ap);
	request(&q, text, n < (int)sizeof text ? n : (int)sizeof text - 1, NULL, 0, &r, NULL);
	fail("%s can't be simulated", text);
}

/* So many reads of clocks, with nothing else between them, are a wait for a time. */
#define READS_WAIT 64

void turn_pass(int64_t cost, enum turn_wait what)
{
	bool rung = doorbell_rung();

	if (rung || what != WAIT_CLOCK)
		reads = 0;
	else if (reads < READS_WAIT)
		reads++;
	if (turn_far && what != WAIT_CLOCK)
		turn_catch_up();
	if (turn_now + cost < turn_horizon && !rung) {
		turn_now += cost;
		board->now = turn_now;
		return;
	}
	turn_wait(what, turn_now + cost, 0, reads == READS_WAIT ? TURN_CLOCKS : 0, NULL);
}

bool turn_shares;

int turn_futex(const _Atomic uint32_t *word, uint32_t value, int64_t until)
{
	int interrupted = 0;

	for (bool again = false; atomic_load(word) == value; again = true) {
		if (turn_now >= until)
			return ETIMEDOUT;
		if (interrupted)
			return EINTR;
		turn_wait_for(until, again, &interrupted);
	}
	return 0;
}

void turn_changed(void)
{
	turn_horizon = 0;
	reads = 0;
}

void turn_catch_up(void)
{
	if (turn_now > turn_base)
		turn_wait(WAIT_OTHERS, turn_now, 0, 0, NULL);
}

int64_t turn_clock(void)
{
	turn_pass(welcome.clock_cost, WAIT_CLOCK);
	return turn_now;
}

/* high moves a descriptor out of the way of those whose numbers programs choose. */
static int high(int fd)
{
	int h = syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, 700);

	if (h < 0)
		return fd;
	syscall(SYS_close, fd);
	return h;
}

__attribute__((noinline)) static int connect_scheduler(void)
{
	static struct sockaddr_un to; /* its path differs between runs, and would stay on the stack */
	int s = syscall(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (s < 0)
		return errno;
	s = high(s);
	to.sun_family = AF_UNIX;
	if (strlen(turns_dir) + sizeof TURNS_SOCKET > sizeof to.sun_path)
		return ENAMETOOLONG;
	strcpy(to.sun_path, turns_dir);
	strcat(to.sun_path, TURNS_SOCKET);
	if (syscall(SYS_connect, s, &to, sizeof to)) {
		int err = errno;

		syscall(SYS_close, s);
		return err;
	}
	conn = s;
	keep(s);
	return 0;
}

__attribute__((noinline)) static void hello(bool process)
{
	struct turn_request q = {.op = TURN_HELLO, .a = TURNS_VERSION, .b = syscall(SYS_gettid)};
	struct turn_welcome w;
	struct turn_reply r;
	uint64_t old;
	int fd = -1;

	block_signals(&old);
	exchange(&q, NULL, 0, NULL, 0, &r, process ? &w : NULL, process ? sizeof w : 0, &fd);
	if (r.err)
		fail("the scheduler refuses the process: %s", strerror(r.err));
	number = process ? 1 : r.value;
	if (process) {
		void *b;

		welcome = w;
		b = fd < 0 ? MAP_FAILED : (void *)syscall(SYS_mmap, NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (b == MAP_FAILED)
			fail("the scheduler's memory can't be mapped");
		board = b;
		seen_changes = atomic_load(&board->changes);
	}
	if (fd >= 0)
		syscall(SYS_close, fd);
	restore_signals(&old);
	deliver(r.signals, NULL);
}

/*
 * Handlers of this library's own signals have a stack of their own, so that those which the scheduler sends after real time leave
 * nothing on the program's stack. Program's handlers may run on it within them.
 */
#define HANDLERS_STACK (256 << 10)

static __thread void *handlers_stack INITIAL_EXEC;

static void make_handlers_stack(void)
{
	stack_t none, own = {.ss_size = HANDLERS_STACK};

	if (sigaltstack(NULL, &none) || !(none.ss_flags & SS_DISABLE))
		return;
	own.ss_sp = (void *)syscall(SYS_mmap, NULL, HANDLERS_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (own.ss_sp == MAP_FAILED)
		return;
	sigaltstack(&own, NULL);
	handlers_stack = own.ss_sp;
}

static void free_handlers_stack(void)
{
	stack_t now, off = {.ss_flags = SS_DISABLE};

	if (!handlers_stack || sigaltstack(NULL, &now) || now.ss_flags & SS_ONSTACK)
		return;
	if (now.ss_sp == handlers_stack)
		sigaltstack(&off, NULL);
	syscall(SYS_munmap, handlers_stack, HANDLERS_STACK);
	handlers_stack = NULL;
}

int turn_join(void)
{
	int err = connect_scheduler();

	if (!err)
		hello(false);
	make_handlers_stack();
	return err;
}

void turn_leave(void)
{
	int c = conn;

	if (c < 0)
		return;
	free_handlers_stack();
	turn_ask(TURN_END, 0, 0, 0, 0, NULL);
	conn = -1;
	forget(c);
	syscall(SYS_close, c);
}

/* turn_child makes a child of fork a process of its own. */
void turn_child(void)
{
	int err;

	queues_forget();
	timers_forget();
	if (board)
		syscall(SYS_munmap, board, sizeof *board);
	board = NULL;
	forget(conn);
	syscall(SYS_close, conn);
	conn = -1;
	err = connect_scheduler();
	if (err)
		fail("the scheduler can't be reached: %s", strerror(err));
	hello(true);
	traps_thread(true);
}

/* A note of the Go linker's is in a segment of an object that has a Go runtime. */
static int has_go(struct dl_phdr_info *object, size_t size, void *found)
{
	(void)size;
	for (int i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *h = &object->dlpi_phdr[i];
		const char *at = (const char *)object->dlpi_addr + h->p_vaddr, *end = at + h->p_memsz;

		while (h->p_type == PT_NOTE && at + sizeof(ElfW(Nhdr)) <= end) {
			const ElfW(Nhdr) *note = (const void *)at;
			const char *name = at + sizeof *note;

			if (note->n_namesz == 4 && name + 4 <= end && !memcmp(name, "Go\0", 4))
				*(bool *)found = true;
			at = name + ((note->n_namesz + 3) & ~3u) + ((note->n_descsz + 3) & ~3u);
		}
	}
	return 0;
}

/*
 * What this calls is not simulated: to others of this library's functions the state is
 * then TURNS_STARTING. Only one thread is there.
 */
bool turns_start(void)
{
	int unknown = TURNS_UNKNOWN, saved = errno, err;
	const char *dir;
	bool go = false;

	if (!atomic_compare_exchange_strong(&turns_state, &unknown, TURNS_STARTING))
		return unknown == TURNS_ON;
	dir = virtual_root() ? secure_getenv("SLUICE_TURNS") : NULL;
	if (!dir || dir[0] != '/' || strlen(dir) >= sizeof turns_dir) {
		atomic_store(&turns_state, TURNS_OFF);
		errno = saved;
		return false;
	}
	strcpy(turns_dir, dir);
	err = connect_scheduler();
	if (err)
		fail("SLUICE_TURNS=%s: the scheduler can't be reached: %s", dir, strerror(err));
	make_handlers_stack();
	clock_install();
	traps_install();
	hello(true);
	dl_iterate_phdr(has_go, &go);
	if (go)
		turn_refuse("a Go runtime (sluice virtual runs it in real time)");
	traps_thread(true);
	scrub(START_FRAMES);
	atomic_store(&turns_state, TURNS_ON);
	errno = saved;
	return true;
}

__attribute__((destructor)) static void unload(void)
{
	if (atomic_load(&turns_state) == TURNS_ON)
		turn_sync();
}

__attribute__((constructor)) static void load(void)
{
	if (simulated())
		setvbuf(stdout, NULL, _IOLBF, 0); /* a program that is ended with the run can't flush */
}
