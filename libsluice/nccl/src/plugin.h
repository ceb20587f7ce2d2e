/* What the files of the plugin share. */
#ifndef SLUICE_NCCL_PLUGIN_H
#define SLUICE_NCCL_PLUGIN_H

#include "balance.h"
#include "ledger.h"
#include "net.h"

#include <infiniband/verbs.h>
#include <pthread.h>
#include <sys/socket.h>

#define HIDDEN __attribute__((visibility("hidden")))
#pragma GCC visibility push(hidden)

enum {
	MAX_DEVICES = 32,
	MAX_QPS = BALANCE_PATHS,
	MAX_RECEIVES = 8,                         /* buffers of one receive */
	RECEIVES = NCCL_NET_MAX_REQUESTS,         /* outstanding on a connection */
	SENDS = RECEIVES * MAX_RECEIVES,
	MAX_MESSAGE = 1 << 30,                    /* bytes: a test reports sizes by an int */
	GRACE = 100000000,                        /* ns: how long after the peer has gone its last messages may come */
	LIVENESS = 1000000,                       /* ns: how often the peer's socket is looked at */
	MAX_MEMBERS = 4,                          /* devices that one is made of */
};

/* ---- settings.c: the environment */

enum match { MATCH_PREFIX, MATCH_EXACT };

/* A list of names as NCCL_IB_HCA and NCCL_SOCKET_IFNAME have it: ^ excludes, = takes whole names. */
struct name_list {
	bool given, exclude;
	enum match match;
	char text[256];
};

struct settings {
	struct name_list hcas, interfaces;
	int gid_index, traffic_class, service_level, timeout, retries;
	int qps, piece;
	int flow_label; /* of the first queue pair; -1: none */
	enum balance_policy balance;
	int probe; /* ms from a queue pair's failure to the first try to bring it back */
	bool disabled, failover, failback;
};

/* settings_read returns false when the environment has an invalid value, which it logs. */
bool settings_read(struct settings *s);

/* listed reports whether a list takes a name. port is 0 where there are no ports. */
bool listed(const struct name_list *l, const char *name, int port);

/* ---- plugin.c: log and state of the process */

extern nccl_logger plugin_log;
extern struct settings settings;

#define LOG(level, flags, ...) \
	do { \
		if (plugin_log) \
			plugin_log(level, flags, __FILE__, __LINE__, __VA_ARGS__); \
	} while (0)
#define WARN(...) LOG(NCCL_LOG_WARN, ~0ul, "NET/Sluice : " __VA_ARGS__)
#define INFO(...) LOG(NCCL_LOG_INFO, NCCL_INIT | NCCL_NET, "NET/Sluice : " __VA_ARGS__)

int64_t now_ns(void);

/* ---- device.c */

struct device {
	char name[64], *pci_path;
	struct ibv_context *context; /* open between devices_open and devices_close; NULL of one that is made of others */
	struct ibv_pd *pd;           /* while users > 0 */
	int users;
	int port, gid_index, speed, ptr_support;
	uint64_t guid;
	union ibv_gid gid;
	enum ibv_mtu mtu;
	uint32_t max_message; /* bytes, of its port */
	/* Those that it is made of, or itself alone. */
	int members;
	struct device *member[MAX_MEMBERS];
};

extern struct device devices[MAX_DEVICES];
extern int device_count;

void devices_open(void);
/* devices_close returns false, and closes none, while connections or memory are left. */
bool devices_close(void);
/* device_make makes one device of several, which are numbers of devices with a port of their own. */
nccl_result device_make(int *number, int count, const int *of);
/* device_use takes the device's protection domain, device_release gives it back. */
bool device_use(struct device *d);
void device_release(struct device *d);
/* device_route chooses the GID by which packets leave as a connected socket's do, and the path's MTU: the socket's
 * source is the route's. Where no GID is that address, or the user names one, it leaves the device's own. */
void device_route(const struct device *d, int fd, union ibv_gid *gid, int *gid_index, enum ibv_mtu *mtu);
/* device_addresses are where peers reach this device's host by TCP, up to most: the address of its GID, and its port's
 * others, which some peers reach alone. 0 if there is none. */
int device_addresses(const struct device *d, struct sockaddr_storage *all, int most);
/* device_has reports whether an address is one of the port's GIDs. */
bool device_has(const struct device *d, const struct sockaddr_storage *addr);
/* device_gid_index is where a GID is in the port's table now, or -1. */
int device_gid_index(const struct device *d, const union ibv_gid *gid);

struct memory {
	struct device *device;
	struct ibv_mr *mr[MAX_MEMBERS];
	uintptr_t addr;
	size_t size;
	bool gpu;
};

nccl_result memory_register(struct device *d, void *data, size_t size, int type, uint64_t offset, int fd, struct memory **m);
nccl_result memory_deregister(struct memory *m);

/* ---- what goes over a connection's queue pairs by Send, little endian as RDMA hosts are */

enum message_kind { CLEAR_TO_SEND = 1, MESSAGE_END, LANE_FAILED, LANE_OFFER, LANE_ANSWER, LANE_PROBE };

/* To the sender: where it may write. */
struct clear_to_send {
	uint32_t kind, sequence, token, count;
	struct {
		uint64_t addr, size;
		uint32_t rkey[MAX_MEMBERS]; /* of the receiver's devices */
		int32_t tag, unused;
	} buffers[MAX_RECEIVES];
};

/* To the receiver, on each queue pair that has pieces of a message, after them. */
struct message_end {
	uint32_t kind, token, sequence, buffer;
	uint64_t size, covers; /* of the message; of the pieces on this queue pair */
};

/* To the peer, on any queue pair, of one that has failed, or comes back. */
struct control {
	uint32_t kind, lane, epoch;
	uint32_t arrived;  /* Sends, before it failed */
	uint32_t qpn, psn; /* of an offer, and of an answer; no qpn: not now */
};

/* ---- connection.c */

enum request_kind { SEND, RECEIVE, FLUSH };

struct request {
	struct connection *connection;
	enum request_kind kind;
	bool used;
	/* of a send, which is the ledger's message of this number */
	uintptr_t addr, remote;
	uint64_t size;
	const struct memory *memory;
	uint32_t rkey[MAX_MEMBERS], token, sequence;
	uint16_t buffer;
	bool waiting; /* for its ends */
	/* of a receive */
	int count, complete;
	struct {
		uint64_t size, covered, room; /* what arrives, of what was posted */
		bool known, complete;
	} buffers[MAX_RECEIVES];
	/* of a flush */
	int reads;
};

/*
 * A queue pair. When it fails, it goes to ERR; when all that was posted has come back, it is destroyed, and the peer is
 * told how many Sends had arrived. The peer does the same. With the peer's word, what had not arrived there is repeated on
 * others. The sender then offers a new queue pair every now and then, which takes messages once a probe has come through.
 */
enum lane_state { LANE_UP, LANE_DRAINING, LANE_DOWN, LANE_RESTING, LANE_OFFERED, LANE_PROBING };

struct lane {
	struct ibv_qp *qp;
	uint32_t psn, peer_qpn, peer_psn;
	enum lane_state state;
	uint32_t epoch;    /* which of its queue pairs this is */
	uint32_t posted;   /* receives */
	uint32_t flushed;  /* sends that came back undone */
	int64_t since;     /* of the state */
	int64_t wait;      /* to the next offer, ns */
	uint32_t ends;     /* of a sender: messages' ends on it, ever */
	bool tell;         /* the peer is to be told that it has failed */
	unsigned again;    /* what is to be said again of it, a bit by kind */
	bool offered;      /* by the peer, with offer */
	struct control failed[2], offer; /* the peer's word, by epoch modulo 2; kind 0: none */
};

/* What devices read and write by themselves, registered with each: of a connection, and of each queue pair. */
struct wire_lane {
	union {
		struct {
			struct clear_to_send arriving[2 * RECEIVES];
			struct message_end ends[LEDGER_WORKS];
		} sender;
		struct message_end arriving[SENDS + 2 * MAX_QPS];
	};
	struct control control[LANE_PROBE + 1]; /* by kind */
	/* What the peer reads: the Sends that have arrived, and of which of the queue pairs; where this end reads that. */
	union {
		struct {
			uint32_t arrived, epoch;
		};
		uint64_t word;
	} count, read;
};

struct wire {
	struct clear_to_send leaving[RECEIVES];
	char flushed[64];
	struct wire_lane lanes[];
};

/* The connecting side: CONNECTING, HELLO_LEAVES, ANSWER_ARRIVES, READY_LEAVES; the other: HELLO_ARRIVES, ANSWER_LEAVES, READY_ARRIVES. */
enum stage { CONNECTING, HELLO_LEAVES, ANSWER_ARRIVES, READY_LEAVES, HELLO_ARRIVES, ANSWER_LEAVES, READY_ARRIVES, CONNECTED };

struct hello { /* big endian: on the socket */
	uint64_t magic, nonce, wire;
	uint32_t version;
	uint8_t qps, members, mtu[MAX_MEMBERS], unused[6];
	uint8_t gid[MAX_MEMBERS][16];
	uint32_t rkey[MAX_MEMBERS]; /* of wire */
	uint32_t qpn[MAX_QPS], psn[MAX_QPS];
};

/* A connection's part of one of its devices. */
struct member {
	struct device *device;
	struct ibv_cq *cq;
	struct ibv_mr *wire_mr;
	union ibv_gid gid; /* of this end, by the route to the peer */
	int gid_index;
	enum ibv_mtu mtu; /* of the path */
	struct ibv_qp *flush_qp;
};

struct connection {
	struct device *device;
	bool sender;
	nccl_result error;
	int qps, traffic_class;
	int members;
	struct member member[MAX_MEMBERS]; /* a queue pair's is that of its number modulo members */
	struct lane lanes[MAX_QPS];
	int troubled; /* lanes that are not up */
	struct ledger ledger;
	struct wire *wire;

	/* the socket */
	int fd;
	enum stage stage;
	struct hello mine, theirs;
	uint64_t nonce, attempt;
	size_t moved;
	int64_t looked, lost, heard; /* heard: while the socket is of no use, when queue pairs were last tried */
	bool deaf;                   /* the socket is of no use */
	struct connection *next;

	/* of a sender */
	struct balance balance;
	struct clear_to_send cleared[RECEIVES]; /* by sequence */
	bool valid[RECEIVES], matched[RECEIVES][MAX_RECEIVES];
	uint32_t next_cleared;
	uint16_t queue[SENDS]; /* whose pieces are still to be posted, a ring */
	uint32_t queue_first, queue_count;
	int waiting; /* sends for their ends */
	struct request sends[SENDS];

	/* of a receiver */
	uint32_t sequence;
	struct request receives[RECEIVES];
	struct request flushes[RECEIVES];
};

/* connection_new has a socket and no queue pairs; it owns the socket from here on. */
struct connection *connection_new(struct device *d, bool sender, int traffic_class, int fd);
/* connection_open makes the queue pairs, and says of them what the peer has to know. */
bool connection_open(struct connection *c, int qps);
/* connection_join brings them to the peer's, by what it said. */
bool connection_join(struct connection *c);
/* connection_flush_qp makes the queue pair that transfer_flush reads by, from a device. */
bool connection_flush_qp(struct connection *c, struct member *m);
/* connection_lane makes a queue pair, with what it may receive; connection_join_lane brings it to the peer's. */
bool connection_lane(struct connection *c, int lane);
bool connection_join_lane(struct connection *c, int lane);
/* connection_fail makes an error the connection's, unless it has one. */
nccl_result connection_fail(struct connection *c, nccl_result error);
void connection_close(struct connection *c);

static inline struct member *member_of(struct connection *c, unsigned lane)
{
	return &c->member[lane % c->members];
}

/* ---- rendezvous.c */

nccl_result rendezvous_listen(struct device *d, int traffic_class, void *handle, void **listener);
nccl_result rendezvous_connect(struct device *d, int traffic_class, void *handle, void **sender);
nccl_result rendezvous_accept(void *listener, void **receiver);
nccl_result rendezvous_close(void *listener);

/* ---- transfer.c */

nccl_result transfer_send(struct connection *c, void *data, size_t size, int tag, struct memory *m, void **request);
nccl_result transfer_receive(struct connection *c, int n, void **data, const size_t *sizes, const int *tags, void **memories, void **request);
nccl_result transfer_flush(struct connection *c, int n, void **data, const int *sizes, void **memories, void **request);
nccl_result transfer_test(struct request *r, int *done, int *sizes);
/* The sends and receives that a queue pair has room for. */
unsigned transfer_sends(const struct connection *c);
unsigned transfer_receives(const struct connection *c);
/* transfer_start posts the receives that a peer's messages on a queue pair need. */
bool transfer_start(struct connection *c, unsigned lane);
/* transfer_room reports whether a queue pair takes another work. */
bool transfer_room(const struct connection *c, unsigned lane);
/* transfer_post posts a work on a queue pair. What it is about is in wire, or in the memory of a message. */
bool transfer_post(struct connection *c, unsigned lane, struct ledger_work w);
/* transfer_resume goes on with messages that a queue pair has lost something of. */
void transfer_resume(struct connection *c);

/* ---- lanes.c */

/* What a note of the ledger is about: the token of buffers, or a control message. */
enum { NOTE_CONTROL = RECEIVES };

static inline unsigned note_of(enum message_kind kind, unsigned lane)
{
	return NOTE_CONTROL + kind * MAX_QPS + lane;
}

/* lanes_fail has a queue pair fail, unless it has already. */
void lanes_fail(struct connection *c, unsigned lane);
/* lanes_hear takes in a control message. */
void lanes_hear(struct connection *c, const struct control *m);
/* These say that a probe, and a look at the peer's count for a queue pair, have come through. */
void lanes_probed(struct connection *c, unsigned lane);
void lanes_looked(struct connection *c, unsigned lane);
/* lanes_progress goes on with what is not up. */
void lanes_progress(struct connection *c, int64_t now);
/* lanes_send is a queue pair that takes a note now, or -1. */
int lanes_send(const struct connection *c);
/* lanes_try looks whether the peer's device is still there, on each queue pair that has nothing outstanding. */
void lanes_try(struct connection *c);

#pragma GCC visibility pop
#endif
