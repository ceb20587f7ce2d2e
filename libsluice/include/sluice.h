/*
 * sluice.h - congestion control and pacing under RC queue pairs of libibverbs.
 *
 * A queue pair made by sluice_create_qp() is one of libibverbs, whose RDMA
 * Writes and Reads are cut into segments that leave at the pace that a rate
 * engine sets. Functions are named as libibverbs' and return what those return:
 * 0 or an errno value, a pointer or NULL with errno set, a count or a negative
 * value. sluice_error() says in words what the last failure of the thread was.
 *
 * All functions may be called from any thread. As with libibverbs, an object
 * must not be used while it is destroyed. docs/c-api.md has the rest.
 */
#ifndef SLUICE_H
#define SLUICE_H

#include <stddef.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SLUICE_VERSION_MAJOR 0
#define SLUICE_VERSION_MINOR 1
#define SLUICE_VERSION_PATCH 0
#define SLUICE_VERSION "0.1.0"

/*
 * How a queue pair is paced. sluice_options_init() sets every field to its
 * default; set some, and leave the others. Queue pairs of one device with equal
 * options share a scheduler.
 */
struct sluice_options {
	size_t size; /* of this struct, set by sluice_options_init */

	/* Rate engine, a name of sluice_schemes(); NULL or "" for none. */
	const char *engine;
	/* Its configuration as YAML, "{t_low: 60us, t_high: 400us}"; NULL for the
	 * defaults. */
	const char *engine_config;

	/* Bits per second, at most which a queue pair or its group sends; 0 is the line
	 * rate. Without an engine this is the pace. */
	uint64_t rate;
	/* Into what Writes and Reads are cut: 4096 to 65536 bytes; 0 is 16384. */
	uint32_t segment;
	/* Segments posted in one call at most, 1 to 256; 0 is 16. */
	uint32_t batch;
	/* Bytes that one queue pair, and its group, has with the NIC; 0 follows the link, see
	 * docs/shim.md. */
	uint64_t max_outstanding;
	/* Line rate in bits per second; 0 is what the port says. */
	uint64_t line_rate;
	/* Round trip of one packet on an idle network; 0 is 20000. */
	uint64_t base_rtt_ns;
	/* Rate in bits per second of the NIC's own limiter, or where RC queue pairs have none of
	 * the path's static rate, rounded up to a step; 0 leaves them alone. */
	uint64_t nic_rate;
	/* Longest time between readings of the NIC's clock; 0 is 100 ms. */
	uint64_t calibrate_ns;

	/* Nonzero starts a thread that sends what is due while the program neither
	 * polls nor waits. It is always there once a CQ with a channel is armed. */
	int progress_thread;
	/* Nonzero spares TIMELY the round trips below t_low while its rate is the line's,
	 * as eRPC does: a segment then costs less. Other engines get all. */
	int bypass;

	/* "destination", "path" or "port": queue pairs of the device, with options equal to these,
	 * share one engine if they send to one GID from one port, or of those with one flow label, or
	 * are at one port. What they send together has its rate and window, and rate and
	 * max_outstanding bound it. They share one lock, too, whatever their CQs. NULL, "" or "none":
	 * each has an engine of its own. */
	const char *group;
};

void sluice_options_init(struct sluice_options *options);

/*
 * Create an RC queue pair that is paced. The parameters are ibv_create_qp()'s;
 * options may be NULL. attr->cap is set to what the queue pair has. Other types
 * fail with EOPNOTSUPP.
 *
 * The result is the device's own queue pair: post receives, query GIDs and so on
 * with libibverbs. But use the functions below, not those of libibverbs, to
 * modify, query and destroy it, to post its sends, and to poll, arm and destroy
 * its CQs: its sends complete on a CQ of sluice's.
 */
struct ibv_qp *sluice_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr,
				const struct sluice_options *options);
/* The same for ibv_create_qp_ex(). The ibv_wr_* calls of a queue pair with
 * IBV_QP_INIT_ATTR_SEND_OPS_FLAGS are paced too. */
struct ibv_qp *sluice_create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr,
				   const struct sluice_options *options);
int sluice_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask);
int sluice_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
		    struct ibv_qp_init_attr *init_attr);
int sluice_destroy_qp(struct ibv_qp *qp);

/* One call into the library a list. ENOMEM says that the queue is full. */
int sluice_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);

/*
 * Poll, and send what is due. Completions of
 * paced sends and of everything else on the CQ take turns; each kind is in order.
 * A poll while nothing paced is outstanding is a poll of the CQ alone.
 */
int sluice_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
int sluice_req_notify_cq(struct ibv_cq *cq, int solicited_only);

/* Wait for an event; segments go on meanwhile. Acknowledge each with
 * sluice_ack_cq_events(). A program may sleep on channel->fd (poll, epoll) with
 * the descriptor set to O_NONBLOCK: EAGAIN then says that a segment was all that
 * woke it. */
int sluice_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);
void sluice_ack_cq_events(struct ibv_cq *cq, unsigned int nevents);

/* For CQs, channels and devices that queue pairs of sluice's were made with,
 * in place of libibverbs' functions. */
int sluice_destroy_cq(struct ibv_cq *cq);
int sluice_destroy_comp_channel(struct ibv_comp_channel *channel);
int sluice_close_device(struct ibv_context *context);

/*
 * Groups, of queue pairs that were made with the option group. A queue pair joins its group on the
 * way from RTR to RTS, and leaves it at RESET or when it is destroyed. The last one to leave ends
 * the group: the next to join starts its engine anew. Whoever polls any CQ of such queue pairs,
 * posts or waits sends what is due of all of them. These functions return 0 or an errno value, and
 * may be called from any thread.
 */
#define SLUICE_MAX_WEIGHT 255
#define SLUICE_CLASSES 4

/*
 * How a queue pair shares its group's rate and window. Of the queue pairs that have something to
 * send, the highest class goes first, 0 (the default) to SLUICE_CLASSES - 1, and leaves each lower
 * one that waits a hundredth of what it sends. Within a class they share by weight, in bytes: 1 (the
 * default) to SLUICE_MAX_WEIGHT. It holds at once, and in groups that the queue pair joins later.
 * EINVAL, and no change: either is out of range.
 */
int sluice_qp_set_share(struct ibv_qp *qp, int weight, int service_class);

/*
 * Name the queue pair's group, in place of what the option says: queue pairs with equal options
 * and one name, of 1 to 63 bytes, are one. "" is for no group, and NULL for the option's again. The
 * name is copied. EINVAL: it is too long, or the queue pair was made without the option. EBUSY: the
 * queue pair is past RTR.
 */
int sluice_qp_set_group(struct ibv_qp *qp, const char *name);

/* The group of a queue pair, as it stands. */
struct sluice_group_stats {
	size_t size; /* set it to sizeof(struct sluice_group_stats) */

	uint32_t members;     /* queue pairs; 0 says that the queue pair is in no group */
	uint64_t rate;        /* bits per second that the engine allows them together */
	uint64_t window;      /* bytes; 0 if it sets none */
	uint64_t outstanding; /* payload bytes of all that are with the NIC */
};

int sluice_query_group(struct ibv_qp *qp, struct sluice_group_stats *stats);

/* What a queue pair has done since it was made, and how it stands. */
struct sluice_stats {
	size_t size; /* set it to sizeof(struct sluice_stats) */

	char engine[32];      /* its name; "" without one */
	uint64_t rate;        /* bits per second that it allows */
	uint64_t window;      /* bytes that it allows; 0 if it sets none */
	uint64_t outstanding; /* payload bytes that are with the NIC */

	uint64_t messages;      /* requests that completed, signaled or not */
	uint64_t failed;        /* requests that did not succeed */
	uint64_t segments;      /* taken by the NIC */
	uint64_t segment_bytes; /* their payload */
	uint64_t cnps;          /* congestion notifications that reached the engine */

	/* Round trips of segments, serialisation included: each within a fifth. */
	uint64_t rtt_samples;
	uint64_t rtt_mean_ns, rtt_p50_ns, rtt_p90_ns, rtt_p99_ns, rtt_max_ns;
};

int sluice_query_stats(struct ibv_qp *qp, struct sluice_stats *stats);

/* The engines, NULL-terminated; static. */
const char *const *sluice_schemes(void);
/* SLUICE_VERSION of the library; static. */
const char *sluice_version(void);
/* What the last failed call of this thread failed on, and what would mend it;
 * "" if none did. Valid until the thread's next call. */
const char *sluice_error(void);

#ifdef __cplusplus
}
#endif

#endif
