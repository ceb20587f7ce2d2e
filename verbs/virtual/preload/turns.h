/*
 * Programs in simulated time: see verbs/virtual/internal/turns, whose messages these are.
 * All of it acts only where SLUICE_TURNS names the scheduler's directory.
 */
#ifndef SLUICE_TURNS_H
#define SLUICE_TURNS_H

#include "virtual.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>
#include <ucontext.h>

#define TURNS_VERSION 1
#define TURNS_SOCKET "/socket"

enum turn_op {
	TURN_HELLO = 1,	    /* a version, b the kernel's number of the thread */
	TURN_WAIT = 2,	    /* a what for, until; with WAIT_FDS the descriptors and their poll events */
	TURN_TIMER = 3,	    /* a which, b signal, until when (NEVER: not), c interval */
	TURN_SPAWNED = 4,   /* a the kernel's number of a new process */
	TURN_THREAD = 5,    /* a the kernel's number of a new thread */
	TURN_EXEC = 6,	    /* the process is about to execute another program */
	TURN_SIGNAL = 7,    /* a process, b signal, c one of its threads, 0: any */
	TURN_PORT = 8,	    /* asks for a port that nobody has */
	TURN_PROBED = 9,    /* the answer to a probe: it was not found to loop; a the processor time of the steps, in ns */
	TURN_END = 10,	    /* the thread ends */
	TURN_REFUSED = 11,  /* the program did what can't be simulated: data says what */
	TURN_PROCESS = 12,  /* asks for the kernel's number of a's process or thread; b not 0: a is that, for the number */
	TURN_NICE = 13,	    /* asks for the niceness of a process; b not 0: sets it to c */
	TURN_TIMERFD = 14,  /* a timer that counts in a descriptor: a its number, 0: a new one, of the descriptor that comes with it, whose number
			     * value is then; else b what: enum turn_timerfd, until when and c interval as of TURN_TIMER */
};

enum turn_timerfd { TIMERFD_SET, TIMERFD_GET /* value is when it is due */, TIMERFD_CLOSE };

enum turn_wait {
	WAIT_CLOCK = 1,
	WAIT_LOOK = 2,
	WAIT_SLEEP = 3,
	WAIT_FDS = 4,
	WAIT_CHILD = 5,
	WAIT_LOCK = 6, /* b turn_shares */
	WAIT_LOOP = 7, /* the same */
	WAIT_THREAD = 8, /* b the thread's number */
	WAIT_SIGNAL = 9, /* b those it takes, though they are blocked: a bit for each */
	WAIT_OTHERS = 10,
};

enum turn_flag {
	TURN_AGAIN = 1,	 /* since its last wait the thread only found that it has to wait again */
	TURN_CLOCKS = 2, /* of WAIT_CLOCK: it has done nothing but read clocks for a while */
};

/* Bits of a reply's ready. */
enum { READY = 1, READY_FAR = 2, READY_STILL = 4 /* of a probe: nothing has happened meanwhile */ };

#define NEVER INT64_MAX /* of times, in ps */
#define PS_OF_NS 1000ll
#define PS_OF_S 1000000000000ll

struct turn_request {
	uint32_t op, flags;
	int64_t now, until;
	uint64_t a, b, c;
};

struct turn_reply {
	uint32_t err, ready; /* ready: the wait ended by what it was for, not by its time; in the answer to TURN_CLOCKS 2: turn_far */
	int64_t now;
	int64_t alone;	 /* before this nobody else runs */
	int64_t horizon; /* and before this nobody changes what the thread sees without a call */
	uint64_t signals; /* a bit for each, from 1 on; bit 0: a child has ended, for which the kernel has sent SIGCHLD */
	uint64_t value;	  /* of TURN_HELLO: the thread's, in its process, from 1 on */
};

/* What the reply to a process's first TURN_HELLO has after it; a descriptor of the board comes with it. */
struct turn_welcome {
	uint8_t addr[16]; /* the host's, IPv4 mapped into IPv6 */
	int64_t clock_cost, look_cost, epoch, boot; /* the last two: turns.Epoch, turns.Boot */
	uint64_t tsc_hz, seed;
	uint32_t pid, parent;
	char host[64];
};

#define BOARD_QUEUES 64

/* The board is memory that the scheduler writes while the process waits, but for now. */
struct board {
	_Atomic uint32_t changes; /* of queues */
	uint32_t reserved;
	volatile int64_t now; /* turn_now, for the scheduler when the process ends */
	struct board_queue {
		uint64_t addr, doorbell;
		uint32_t entries, entry_size; /* 0 entries: none */
		_Atomic uint32_t produced;
		uint32_t reserved;
	} queues[BOARD_QUEUES];
};

/* turns.c */

enum { TURNS_UNKNOWN, TURNS_STARTING, TURNS_OFF, TURNS_ON };
extern _Atomic int turns_state;
extern struct turn_welcome welcome;
extern struct board *board;
extern char turns_dir[80];

bool turns_start(void);

/* simulated reports whether the process is in simulated time. */
static inline bool simulated(void)
{
	int state = atomic_load_explicit(&turns_state, memory_order_acquire);

	return !likely(state == TURNS_OFF) && (state == TURNS_ON || (state == TURNS_UNKNOWN && turns_start()));
}

extern int64_t turn_now, turn_alone, turn_horizon;

/* turn_pass is a waiting point that takes a cost. */
void turn_pass(int64_t cost, enum turn_wait what);

/*
 * turn_wait waits until an instant or what the kind says, and returns whether the latter
 * came. Signals that came are raised; *interrupted, if not NULL, is set if a handler ran
 * (INTERRUPTED), or one that has no SA_RESTART (INTERRUPTED_NO_RESTART).
 */
enum { INTERRUPTED = 1, INTERRUPTED_NO_RESTART = 2 };
bool turn_wait(enum turn_wait what, int64_t until, uint64_t b, uint32_t flags, int *interrupted);
bool turn_wait_fds(const struct pollfd *fds, size_t n, int64_t until, int *interrupted);

/* turn_ask is a request that keeps the turn. It returns an errno. */
int turn_ask(enum turn_op op, uint64_t a, uint64_t b, uint64_t c, int64_t until, uint64_t *value);

/* turn_timerfd has the scheduler count a new timer's expirations in an eventfd. It returns the timer's number. */
uint64_t turn_timerfd(int fd);

/* turn_far says that turn_horizon is for reads of clocks only: for what the thread sees otherwise it may be beyond. */
extern bool turn_far;

/* turn_shares says that the process has memory or locks that others of its host may have, too. */
extern bool turn_shares;

/* turn_wait_for waits for what another thread changes, up to an instant. again: it has only looked since its last wait. */
static inline void turn_wait_for(int64_t until, bool again, int *interrupted)
{
	turn_wait(WAIT_LOCK, until, turn_shares, again ? TURN_AGAIN : 0, interrupted);
}

/* turn_futex waits while a word has a value. It returns 0 or an errno. */
int turn_futex(const _Atomic uint32_t *word, uint32_t value, int64_t until);

/* turn_catch_up lets others catch up with the thread, before it does what they see or sees what they do. */
void turn_catch_up(void);
static inline void turn_sync(void)
{
	if (!likely(turn_now < turn_alone))
		turn_catch_up();
}

/* turn_changed has others look, at the next waiting point, whether they can go on. Requests that keep the turn do not undo it. */
void turn_changed(void);

/* turn_refuse ends the program: it did what can't be simulated. */
void turn_refuse(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

void board_read(void);
void turn_child(void);
int turn_raise(int sig, bool pends);
/* turn_busy reports whether the thread is within a message. */
bool turn_busy(void);
/* turn_thread is the number of the thread that the program sees. */
int turn_thread(void);
int turn_join(void);   /* a new thread's first act */
void turn_leave(void); /* and its last */

/* turn_clock returns a clock's time, in ps: a waiting point. */
int64_t turn_clock(void);

static inline int64_t from_now(int64_t span)
{
	return span >= NEVER - turn_now ? NEVER : turn_now + (span < 0 ? 0 : span);
}

static inline int64_t ps_of(const struct timespec *t)
{
	if (t->tv_sec >= NEVER / PS_OF_S)
		return NEVER;
	return t->tv_sec * PS_OF_S + t->tv_nsec * PS_OF_NS;
}

static inline struct timespec timespec_of(int64_t ps)
{
	return (struct timespec){.tv_sec = ps / PS_OF_S, .tv_nsec = ps % PS_OF_S / PS_OF_NS};
}

/* SIG_PROBE is the scheduler's, to a thread that does not come to a waiting point; see traps.c. */
#define SIG_PROBE SIGSTKFLT

/* is_turns_signal reports whether a signal is not the program's to use. */
static inline bool is_turns_signal(int sig)
{
	return !likely(sig != SIGTRAP && sig != SIG_PROBE) && simulated();
}

/* clock.c */

/* A loader returns the value of a load of size bytes at an address. */
typedef uint64_t loader(void *arg, uintptr_t addr, unsigned size);

/* emulate carries out a load from addr, and reports whether it knows the instruction. */
bool emulate(ucontext_t *uc, loader *loaded, void *arg, uintptr_t addr);

/* doorbells.c: pages that programs ring doorbells on */
void doorbells_mapped(void *addr, size_t length);
void doorbells_unmapped(void *addr, size_t length);
bool doorbell_rung(void);

/* traps.c */
void traps_install(void);
void traps_thread(bool on);
bool trapped(siginfo_t *info, void *context, bool store);
void queues_changed(void);
void queues_forget(void);

/* simtime.c */
int64_t shown_at_start(clockid_t id); /* what a clock shows at simulated time 0, in s */
int64_t instant_of(clockid_t id, const struct timespec *shown);
void timers_forget(void);
/* unblocks reports whether a mask lets in a pending signal that has a handler. */
bool unblocks(const sigset_t *mask);

/* Numbers of a process's threads are so far apart that those of others do not have them. */
#define THREADS_APART 100000

/* numbers.c: kernel_number returns -1 and sets errno where there is no such process or thread; 0 is 0. */
pid_t kernel_number(pid_t number);
pid_t simulated_number(pid_t kernel);
const char *number_path(const char *path, char *buf);
int owner_fcntl(int fd, int cmd, uintptr_t arg);

/* processes.c */
int kill_thread(pid_t pid, int sig, uint64_t thread);
pid_t child_number(pid_t kernel);

void timerfd_closed(int fd);
void timerfd_dup(int from, int to);

/* waits.c */
int wait_ready(int fd, short events, int64_t until);
bool wait_before(int fd, short events, int flags);
bool blocks(int fd);
ssize_t turns_write(int fd, const void *buf, size_t n);

/* sockets.c */
/* Whether a descriptor is of a socket of IP addresses. */
bool inet_stream(int fd);
bool inet_datagram(int fd);
ssize_t inet_send(int fd, const struct msghdr *m, int flags);
ssize_t inet_receive(int fd, struct msghdr *m, int flags);
bool inet_knows_closed(int fd);
void inet_learns_closed(int fd);
int inet_socket(int domain, int type, int protocol);
void inet_closed(int fd);
void inet_dup(int from, int to);

#endif
