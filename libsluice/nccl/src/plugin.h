/* What the files of the plugin share. */
#ifndef SLUICE_NCCL_PLUGIN_H
#define SLUICE_NCCL_PLUGIN_H

#include "balance.h"
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
	bool disabled;
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
	struct ibv_context *context; /* open between devices_open and devices_close */
	struct ibv_pd *pd;           /* while users > 0 */
	int users;
	int port, gid_index, speed, ptr_support;
	uint64_t guid;
	union ibv_gid gid;
	enum ibv_mtu mtu;
	uint32_t max_message; /* bytes, of its port */
};

extern struct device devices[MAX_DEVICES];
extern int device_count;

void devices_open(void);
/* devices_close returns false, and closes none, while connections or memory are left. */
bool devices_close(void);
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

struct memory {
	struct device *device;
	struct ibv_mr *mr;
	uintptr_t addr;
	size_t size;
	bool gpu;
};

nccl_result memory_register(struct device *d, void *data, size_t size, int type, uint64_t offset, int fd, struct memory **m);
nccl_result memory_deregister(struct memory *m);

/* ---- what goes over a connection's queue pairs, little endian as RDMA hosts are */

/* By Send, to the sender: where it may write. */
struct clear_to_send {
	uint32_t sequence, token;
	uint32_t count, unused;
	struct {
		uint64_t addr, size;
		uint32_t rkey;
		int32_t tag;
	} buffers[MAX_RECEIVES];
};

/* By Send, to the receiver, on each queue pair that has pieces of a message, after them. */
struct message_end {
	uint32_t token, sequence;
	uint16_t buffer, ends; /* of the queue pairs */
	uint32_t unused;
	uint64_t size;
};

/* ---- connection.c */

enum request_kind { SEND, RECEIVE, FLUSH };

struct request {
	struct connection *connection;
	enum request_kind kind;
	bool used;
	/* of a send */
	uintptr_t addr, remote;
	uint64_t size, posted;
	uint32_t lkey, rkey, token, sequence, outstanding, paths;
	uint16_t buffer;
	bool ended;
	/* of a receive */
	int count, complete;
	struct {
		uint64_t size, room; /* what arrived, of what was posted */
		uint16_t ends, expected;
	} buffers[MAX_RECEIVES];
	/* of a flush */
	bool flushed;
};

/* A queue pair's work requests complete in the order in which they were posted. */
struct work {
	uint16_t request;
	bool piece;
};

enum { WORKS = 1024 };

struct lane {
	struct ibv_qp *qp;
	uint32_t psn, peer_qpn, peer_psn;
	struct work works[WORKS];
	uint32_t first, count;
};

/* What a device reads and writes by itself, registered. */
struct wire {
	union {
		struct {
			struct clear_to_send arriving[RECEIVES];
			struct message_end ends[SENDS];
		} sender;
		struct {
			struct message_end arriving[MAX_QPS][SENDS];
			struct clear_to_send leaving[RECEIVES];
		} receiver;
	};
	char flushed[64];
};

/* The connecting side: CONNECTING, HELLO_LEAVES, ANSWER_ARRIVES, READY_LEAVES; the other: HELLO_ARRIVES, ANSWER_LEAVES, READY_ARRIVES. */
enum stage { CONNECTING, HELLO_LEAVES, ANSWER_ARRIVES, READY_LEAVES, HELLO_ARRIVES, ANSWER_LEAVES, READY_ARRIVES, CONNECTED };

struct hello { /* big endian: on the socket */
	uint64_t magic, nonce;
	uint32_t version;
	uint8_t qps, mtu, unused[2];
	uint8_t gid[16];
	uint32_t qpn[MAX_QPS], psn[MAX_QPS];
};

struct connection {
	struct device *device;
	bool sender;
	nccl_result error;
	struct ibv_cq *cq;
	int qps, traffic_class, gid_index;
	union ibv_gid gid; /* of this end, by the route to the peer */
	enum ibv_mtu mtu;  /* of the path */
	struct lane lanes[MAX_QPS];
	struct wire *wire;
	struct ibv_mr *wire_mr;

	/* the socket */
	int fd;
	enum stage stage;
	struct hello mine, theirs;
	uint64_t nonce, attempt;
	size_t moved;
	int64_t looked, lost;
	struct connection *next;

	/* of a sender */
	struct balance balance;
	struct clear_to_send cleared[RECEIVES]; /* by sequence */
	bool valid[RECEIVES], matched[RECEIVES][MAX_RECEIVES];
	uint32_t next_cleared;
	uint16_t queue[SENDS]; /* whose pieces are still to be posted, a ring */
	uint32_t queue_first, queue_count;
	struct request sends[SENDS];

	/* of a receiver */
	uint32_t sequence;
	struct request receives[RECEIVES];
	struct request flushes[RECEIVES];
	struct ibv_qp *flush_qp;
};

/* connection_new has a socket and no queue pairs; it owns the socket from here on. */
struct connection *connection_new(struct device *d, bool sender, int traffic_class, int fd);
/* connection_open makes the queue pairs, and says of them what the peer has to know. */
bool connection_open(struct connection *c, int qps);
/* connection_join brings them to the peer's, by what it said. */
bool connection_join(struct connection *c);
/* connection_flush_qp makes the queue pair that transfer_flush reads by. */
bool connection_flush_qp(struct connection *c);
/* connection_fail makes an error the connection's, unless it has one. */
nccl_result connection_fail(struct connection *c, nccl_result error);
void connection_close(struct connection *c);

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
/* transfer_start posts the receives that peers' messages need. */
bool transfer_start(struct connection *c);

#pragma GCC visibility pop
#endif
