/* What the files of libsluice.so share. docs/c-api.md is for users; this is for those
 * who change it.
 *
 * A program's objects stay libibverbs' own. A queue pair is found by its address in a
 * table that is read without a lock (table.c). Its requests go to a shard: the segmenter,
 * the limiter and the completion table of one set of options and one send CQ, or with groups
 * all of the device's (shard.c), in C generated from Sluice's Go (internal/ccore/src). The
 * segments complete on hidden CQs of the shard, of which the program sees nothing, and the
 * requests at an outlet, the send CQ's place at the shard. */
#ifndef SLUICE_SHIM_H
#define SLUICE_SHIM_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#pragma GCC visibility push(default) /* what is declared there is for others; the rest is hidden */
#include "interpose.h"
#include "sluice.h"
#pragma GCC visibility pop
#include "../internal/ccore/src/sluice_core.h"
#include "settings.h"

#define SL_ATOMIC_GET(x) __atomic_load_n(&(x), __ATOMIC_ACQUIRE)
#define SL_ATOMIC_SET(x, v) __atomic_store_n(&(x), (v), __ATOMIC_RELEASE)

/* ---- clock.c */

/* Nanoseconds of a clock of the host's that goes on for years. */
int64_t sl_clock(void);
bool sl_time_is_simulated(void);
static inline struct sluice_long_time sl_long_time(int64_t ns) { return sluice_long_nanoseconds(ns); }

/* ---- device.c */

/* A reading of the NIC's counter, between two of sl_clock. */
struct sl_reading {
	int64_t before, after;
	uint64_t ticks;
};

enum { SL_READINGS = 16, SL_RTT_BUCKETS = 96 };

/* A context of the program. */
struct sl_device {
	struct sl_device *next; /* of all; guarded by sl_making */
	struct ibv_context *context;
	const struct sluice_calls *calls;
	char name[80];
	int number; /* among those of one name, from 1 */
	int max_qp_wr, max_cqe, ports;
	bool limits_rc;   /* RC queue pairs take a rate */
	bool no_nic_rate; /* said that a queue pair has no nic_rate */

	/* Completions can carry the NIC's counter, which can be read. */
	bool stamps;
	int clock_bits;
	double clock_hz;

	/* The readings, which threads take in turns and all shards use. Entry i is of
	 * reading i, i+SL_READINGS and so on; one is being written while it is older
	 * than count - SL_READINGS + 1. */
	pthread_mutex_t reading;
	uint64_t count;
	struct sl_reading readings[SL_READINGS];
	int64_t read_again; /* not before, after an error */

	/* Held by those who go through the shards, other than by a CQ. */
	pthread_mutex_t list;
	struct sl_shard *shards;
	struct sl_shard *help; /* whose turn it is to be helped */
	uint32_t n_shards;
	int64_t helped; /* when somebody last did */
	struct sl_thread *thread;
};

/* Held while objects are made that several queue pairs share. Never taken with a
 * shard's lock held. */
extern pthread_mutex_t sl_making;

/* The device of a context, which is made. NULL with an error. sl_making is held. */
struct sl_device *sl_device_of(struct ibv_context *);
struct sl_device *sl_known_device(struct ibv_context *); /* or NULL */
struct sl_device *sl_first_device(void);
void sl_device_free(struct sl_device *);
void sl_devices_forget(void);
/* The line rate of a port in bits per second, 0 if it is not known. */
int64_t sl_line_rate(const struct sl_device *, int port);
/* The bytes of the longest message at a port, 0 if that is not known. */
uint32_t sl_longest(const struct sl_device *, int port);
/* Reads the NIC's counter, unless another thread does. */
void sl_read_counter(struct sl_device *);
/* A reading, or false if it has been overwritten. */
bool sl_reading_at(struct sl_device *, uint64_t i, struct sl_reading *);

/* ---- shard.c */

enum sl_arming { SL_DISARMED, SL_ARMED_SOLICITED, SL_ARMED_ANY };

/* A CQ on which segments complete. Guarded by its shard's lock. */
struct sl_hidden {
	struct sl_hidden *next;
	struct sl_shard *shard;
	struct ibv_cq *cq;
	struct ibv_cq_ex *ex; /* with timestamps; else NULL */
	struct ibv_comp_channel *channel; /* which it wakes, or NULL */
	uint32_t size, used; /* entries; depths of queue pairs */
	int64_t in_flight;   /* segments that will complete here */
	bool stale;          /* may hold completions of queue pairs that are gone */
	bool armed;          /* with an event to come */
	bool kicked;         /* with a request to come that makes an event */
	/* A queue pair in error, whose receives complete at once: an event on the
	 * channel. NULL until one is needed. */
	struct ibv_pd *waker_pd;
	struct ibv_qp *waker;
	struct sluice_core_sample sample;
};

/* Where requests through one shard finish that are for one CQ of the program's. Guarded by the
 * shard's lock, and freed with the CQ. */
struct sl_outlet {
	bool ready; /* done has some; read without the lock */
	struct sl_shard *shard;
	struct sl_outlet *next; /* of the shard's; changed with sl_making held, too */
	struct sl_cq *cq;
	struct sluice_completions_queue done; /* requests that finished, for the program */
	enum sl_arming armed;
	uint32_t capacity; /* requests that its queue pairs take */
};

/* What queue pairs of one group have in common. What the grouping does not look at is zero, and
 * padding too: it is compared as bytes. */
enum { SL_GROUP_NAME = 64 };
struct sl_group_key {
	char name[SL_GROUP_NAME]; /* by the program, else "" */
	int port;
	uint32_t flow_label;
	union ibv_gid peer;
	uint16_t lid; /* of a peer without a GID */
};

/* Queue pairs that one engine steers. In this order the engine lies in its cache lines as a queue
 * pair's own does: elsewhere, segments that TIMELY steers were measured to take 8 ns more. */
struct sl_group {
	struct sl_group_key key;
	struct sluice_core_group core;
	struct sluice_engine engine;
	struct sl_group *next; /* of the shard's */
};

/* A program's send CQ with one set of options, or where those have groups all its CQs of a
 * device. It is never freed: shards of CQs that are gone are used again, so that whoever still
 * looks at one finds one. */
struct sl_shard {
	/* Read without the lock: there is something to do. */
	bool busy __attribute__((aligned(64)));
	pthread_mutex_t lock __attribute__((aligned(64)));

	struct sl_shard *next; /* of the device's; guarded by its list lock */
	struct sl_device *dev;
	struct sl_outlet *outlets; /* NULL: it is spare */
	struct sl_settings set;

	struct sluice_core core;
	struct sl_hidden *hidden;
	struct sl_group *groups; /* that have members */
	int64_t last; /* of sl_clock; it does not run backwards here */
	int unread;   /* posts since the clock was read */

	struct sl_qp **qps; /* by index */
	uint8_t *gens;      /* by index: of the segments' names */
	uint32_t n_qps, room_qps, live;
	struct sl_qp *doomed; /* to be taken to ERR at the device */

	bool stamped;
	struct sluice_completions_clock clock;
	struct sluice_calibration calibration;
	uint64_t readings; /* of the device that the calibration has */

	bool threaded;     /* a thread of the library's makes progress too */

	/* Scratch of one post. */
	struct ibv_send_wr *wr;
	struct ibv_sge *sge;
	uint32_t max_sge;

	struct sluice_limiter limiter;
};

/* Whether the CQs of a device share the shard: a group's queue pairs may have any of them. */
static inline bool sl_shared(const struct sl_shard *s) { return s->set.group != SL_GROUP_NONE; }

/* A CQ of the program's that is a send or receive CQ of paced queue pairs. */
enum { SL_CQ_OUTLETS = 8 };
struct sl_cq {
	struct ibv_cq *cq;
	const struct sluice_calls *calls;
	struct sl_device *dev;
	struct sl_channel *channel;
	uint32_t users;     /* queue pairs, counted for send and for receive; by sl_making */
	uint32_t synthetic; /* events that the device knows nothing of, to be acknowledged */
	bool recv_first;    /* whose turn it is */
	bool gone;          /* it is being destroyed, and waits for acknowledgements */
	/* For outlets that are yet to come: how the CQ is armed, and whether it ever was, with a channel. */
	enum sl_arming armed;
	bool sleeps;
	uint32_t n;         /* outlets */
	struct sl_outlet *outlet[SL_CQ_OUTLETS];
	/* In the channel's list; guarded by its lock. */
	bool pending;
	struct sl_cq *next_event;
};

/* A completion channel of such CQs. */
struct sl_channel {
	struct ibv_comp_channel *channel;
	struct sl_device *dev;
	uint32_t cqs; /* by sl_making */
	/* Guards the events, innermost of all locks. */
	pthread_mutex_t lock;
	struct sl_cq *first, *last;
	/* Shards whose hidden CQs wake it. Readers hold list. */
	pthread_mutex_t list;
	struct sl_shard **shards;
	uint32_t n;
};

struct sl_qp {
	struct ibv_qp *qp;
	const struct sluice_calls *calls;
	struct sl_shard *shard;
	struct sl_outlet *outlet;
	struct sl_hidden *hidden;
	struct sl_cq *send, *recv;
	struct sluice_core_qp core;
	struct sluice_core_member place; /* in its group */
	struct sluice_engine engine;

	/* Statistics. */
	uint64_t segments, bytes, cuts;
	uint64_t rtt_sum; /* nanoseconds */
	uint32_t rtt_rest; /* below a nanosecond, in picoseconds */
	uint64_t rtt[SL_RTT_BUCKETS];

	struct ibv_cq *send_cq; /* the program's; qp->send_cq is that of the segments */
	struct ibv_qp_cap cap;
	int sq_sig_all;
	uint32_t index;
	int depth; /* segments that the device takes */
	int64_t cap_rate; /* bits per second, above which its engine is not obeyed; 0 for none */
	int port, mtu;
	enum ibv_rate path_rate; /* which the shim gave the path, IBV_RATE_MAX for none; guarded by modifying */
	uint32_t used; /* by threads that gave the lock up */
	struct sl_qp *next_doomed;
	bool doomed;
	bool leaving; /* qp may be gone, and its number another's */
	/* Its group, guarded by the shard's lock, and what decides which it is. */
	struct sl_group *group; /* NULL without one */
	int weight, class;
	bool named; /* by the program: group_name, "" for no group */
	char group_name[SL_GROUP_NAME];
	union ibv_gid peer; /* by its path, likewise */
	uint32_t flow_label;
	uint16_t lid;
	pthread_mutex_t modifying;
	struct sl_builder *builder; /* of ibv_wr_* calls, or NULL */

	/* Of failures that the environment asks for, once there are some. */
	struct {
		uint32_t number; /* from 1, of the process's queue pairs */
		uint64_t posted, completed;
		bool broken; /* a request of it failed: those behind it are flushed, until it is reset */
	} fate;
};


/* The present of a call: read again where time may have passed. */
struct sl_now {
	int64_t ns;
	sluice_time t; /* of the shard's core, while its lock is held */
};

/* The lock, with nobody to cancel the thread meanwhile: *state is for sl_unlock. */
void sl_lock(struct sl_shard *, int *state);
bool sl_try_lock(struct sl_shard *, int *state);
void sl_unlock(struct sl_shard *, int state);

void sl_look(struct sl_shard *, struct sl_now *);
/* Takes what has completed and sends what is due. The lock is held; it may be given up
 * for a while. 0, or an errno value of a CQ that can't be polled. */
int sl_turn(struct sl_shard *);
/* Sends what is due. The lock is held, and not given up. */
void sl_release(struct sl_shard *, struct sl_now *);
/* Takes queue pairs that failed here to ERR at the device. The lock is held and given
 * up for a while. */
void sl_bury(struct sl_shard *);
/* Fails a queue pair here, which sl_bury has to follow. The lock is held. */
void sl_doom(struct sl_qp *);
/* Moves requests that have finished to the program's CQ. from_nic says that a completion
 * of the device is the cause. */
void sl_finish(struct sl_qp *, bool from_nic);
/* When there is something to do even if nothing completes. */
sluice_time sl_deadline(struct sl_shard *);
int sl_post(struct sl_qp *, struct ibv_send_wr *, struct ibv_send_wr **bad, bool whole);
/* Completions of a CQ's paced sends. */
int sl_poll_sends(struct sl_cq *, int n, struct ibv_wc *);
/* Makes progress of shards whose own CQ nobody polls. */
void sl_help(struct sl_device *);

/* ---- objects.c: shards, CQs, channels and hidden CQs */

struct sl_cq *sl_attach_cq(struct sl_device *, struct ibv_cq *);
/* The CQ's outlet of the shard for these options. NULL with an error. */
struct sl_outlet *sl_outlet_of(struct sl_cq *, const struct sl_settings *);
/* A hidden CQ with room for n segments, which it reserves. NULL with an error. */
struct sl_hidden *sl_reserve(struct sl_shard *, struct sl_channel *, struct ibv_comp_channel *, int n);
int sl_forget_cq(struct ibv_cq *, bool wait);
int sl_forget_channel(struct ibv_comp_channel *);
int sl_forget_context(struct ibv_context *);
int sl_wake(struct sl_hidden *);
/* 0 or ENOMEM: room in the outlet and its shard for one more queue pair. */
int sl_make_room(struct sl_outlet *, const struct ibv_qp_cap *);
void sl_objects_forget(void);

/* ---- events.c */

/* Puts the event that the CQ was armed for on its channel. The shard's lock is held. */
void sl_fire(struct sl_outlet *);
/* Waits until the program has acknowledged the events of a CQ. */
void sl_await_acknowledgements(struct sl_cq *);

/* ---- qp.c */

struct ibv_qp *sl_create(struct ibv_context *, struct ibv_pd *, struct ibv_qp_init_attr *, struct ibv_qp_init_attr_ex *,
			 const struct sl_settings *);
int sl_modify(struct sl_qp *, struct ibv_qp_attr *, int mask);
int sl_destroy(struct sl_qp *);

/* ---- fail.c: failures that the environment asks for */

/* Whether there are any. Nothing of fail.c but sl_fail_read is to be called where not. */
extern bool sl_failing;
int sl_fail_read(void); /* 0, or EINVAL with words */
void sl_fail_enter(struct sl_qp *);
/* Before n requests are posted at once: 0, or an errno value with which they fail. */
int sl_fail_post(struct sl_qp *, int64_t n);
/* Before a poll: 0, or an errno value with which it fails. */
int sl_fail_poll(const struct ibv_cq *);
/* Completions that the program is about to get. The shard's lock is held. */
void sl_fail_completed(struct sl_shard *, struct sluice_verbs_wc *, int n);

/* ---- outcomes.c, generated from the names of scenarios and what a ConnectX gives (go generate ./verbs/internal/connectx) */

struct sl_outcome {
	const char *name;
	int code;
	uint32_t vendor_err; /* of a status; 0 if it is not known */
};
extern const struct sl_outcome sl_errnos[], sl_statuses[];
extern const size_t sl_errnos_n, sl_statuses_n;
extern const uint32_t sl_flushed_vendor_err;

/* ---- group.c */

/* Makes a queue pair that is about to send a member of its group, with the engine that *fresh has
 * if it is the first. *fresh is then NULL, else for the caller to free. False if it is to be in no
 * group. The lock is held, and the queue pair is not in a group. */
bool sl_join(struct sl_qp *, struct sl_group **fresh, bool engine, const struct sl_now *, int64_t line, int64_t limit);
/* Takes a queue pair that was cleared out of its group, if it is in one. The lock is held. */
void sl_quit(struct sl_qp *);

/* ---- stats.c */

void sl_rtt_add(struct sl_qp *, sluice_time);
/* The upper end of a bucket. */
static inline sluice_time sl_rtt_bound(int i) { return (sluice_time)(4 + (i & 3) + 1) << (16 + (i >> 2)); }

enum { SL_VARIABLES = 8 };

/* What a queue pair did, and how it stands. */
struct sl_values {
	uint64_t rate, window; /* that it may have; no window is 0 */
	uint64_t floor, ceiling; /* of the engine's rate; 0 if it has none */
	uint64_t outstanding, messages, failed, segments, bytes, cnps, cuts;
	int n_variables; /* of the engine */
	struct {
		const char *name;
		double value;
	} variables[SL_VARIABLES];
};

/* The shard's lock is held. */
void sl_values(const struct sl_qp *, struct sl_values *);
/* A queue pair is gone: what it did counts among the totals. */
void sl_keep(struct sl_qp *);
void sl_stats_forget(void);

/* ---- metrics.c */

/* A text that grows. It starts as zeros, and at is for free. */
struct sl_text {
	char *at;
	size_t n, room;
	bool failed; /* for want of memory: the text is not whole */
};
void sl_text_add(struct sl_text *, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Adds what the exporter reads. */
void sl_metrics(struct sl_text *);

/* ---- publish.c */

/* Serves sl_metrics to the exporter from now on. A failure is told on standard error, once. */
void sl_publish(void);
void sl_publish_forget(void);

/* ---- thread.c */

/* Starts the device's thread, if it has none. */
void sl_thread_start(struct sl_device *);
void sl_thread_stop(struct sl_device *);
/* There may be work before the thread meant to look again. The shard's lock is held. */
void sl_thread_alert(struct sl_shard *);

/* ---- table.c: objects by the address of libibverbs' object */

enum sl_kind { SL_QP, SL_CQ, SL_CHANNEL, SL_HIDDEN, SL_BUILDER };
void *sl_get(enum sl_kind, const void *key);
/* 0 or ENOMEM. A NULL value takes the key out. */
int sl_set(enum sl_kind, const void *key, void *value);
/* A key that is there and of a context, or NULL. Each of libibverbs' objects has
 * its context first. */
void *sl_any(enum sl_kind, struct ibv_context *);
void sl_table_before_fork(void);
void sl_table_after_fork(bool child);

static inline struct sl_qp *sl_qp_of(const struct ibv_qp *qp) { return sl_get(SL_QP, qp); }
static inline struct sl_cq *sl_cq_of(const struct ibv_cq *cq) { return sl_get(SL_CQ, cq); }
static inline struct sl_channel *sl_channel_of(const struct ibv_comp_channel *channel) { return sl_get(SL_CHANNEL, channel); }

/* ---- calls.c */

const struct sluice_calls *sl_calls_of(struct ibv_context *);
/* What a call of a driver returned, as an errno value: some return -1 and set errno, some
 * -errno, most errno. */
int sl_code(int r);

/* ---- error.c */

enum { SL_ERROR_SIZE = 512 };
extern __thread char sl_error_text[SL_ERROR_SIZE];
int sl_fail(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));
extern bool sl_debugging;
void sl_debug(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- wr.c: ibv_wr_* */

struct sl_builder *sl_builder_new(struct sl_qp *, struct ibv_qp_ex *);
void sl_builder_hook(struct sl_builder *);
void sl_builder_free(struct sl_builder *);

/* Nobody may cancel a thread that holds a lock. */
int sl_enter(void);
void sl_leave(int state);

#endif
