/*
 * The interface between NCCL and a network plugin, versions 6 to 12, as NCCL 2.30's public headers define it: a
 * plugin exports a table ncclNetPlugin_vN for each version, and NCCL takes the newest that it knows. Sizes are of the
 * LP64 ABI. What the functions mean is said once, at version 12.
 */
#ifndef SLUICE_NCCL_NET_H
#define SLUICE_NCCL_NET_H

#include <stddef.h>
#include <stdint.h>

typedef enum {
	NCCL_SUCCESS = 0,
	NCCL_UNHANDLED_CUDA_ERROR = 1,
	NCCL_SYSTEM_ERROR = 2,
	NCCL_INTERNAL_ERROR = 3,
	NCCL_INVALID_ARGUMENT = 4,
	NCCL_INVALID_USAGE = 5,
	NCCL_REMOTE_ERROR = 6,
} nccl_result;

enum { NCCL_LOG_WARN = 2, NCCL_LOG_INFO = 3, NCCL_LOG_TRACE = 5 };
enum { NCCL_INIT = 0x1, NCCL_NET = 0x10, NCCL_ENV = 0x80 };

/* Where memory is; getProperties says which of them a device reaches. */
enum { NCCL_PTR_HOST = 1, NCCL_PTR_CUDA = 2, NCCL_PTR_DMABUF = 4 };

enum {
	NCCL_NET_HANDLE_MAXSIZE = 128,
	NCCL_NET_DEVICE_HOST = 0,             /* netDeviceType: no part of the plugin runs on a GPU */
	NCCL_NET_DEVICE_INVALID_VERSION = 0,
	NCCL_NET_UNDEFINED = -1,              /* a traffic class, rail or plane that is not given */
	NCCL_NET_MAX_REQUESTS = 32,           /* outstanding on a communicator; version 6 had 8 */
};

typedef void (*nccl_logger)(int level, unsigned long flags, const char *file, int line, const char *format, ...);
typedef nccl_result (*nccl_profiler)(void **event, int type, void *parent, int64_t plugin, void *data);

typedef struct {
	int traffic_class;
} nccl_config;

/* Of a device handle for GPUs, which this plugin has none of. */
typedef struct nccl_device_handle nccl_device_handle;

typedef struct {
	char *name, *pci_path;
	uint64_t guid;
	int ptr_support, speed, port;
	float latency;
	int max_comms, max_recvs;
} nccl_properties_v6;

typedef struct {
	char *name, *pci_path;
	uint64_t guid;
	int ptr_support, speed, port;
	float latency;
	int max_comms, max_recvs, device_type, device_version;
} nccl_properties_v7;

typedef struct {
	char *name, *pci_path;
	uint64_t guid;
	int ptr_support, reg_is_global, speed, port;
	float latency;
	int max_comms, max_recvs, device_type, device_version;
} nccl_properties_v8;

/* The devices that one is made of. */
typedef struct {
	int count, devices[4];
} nccl_members_v9;

typedef struct {
	int count, devices[8];
} nccl_members_v12;

typedef struct {
	char *name, *pci_path;
	uint64_t guid;
	int ptr_support, reg_is_global, force_flush, speed, port;
	float latency;
	int max_comms, max_recvs, device_type, device_version;
	nccl_members_v9 members;
	size_t max_p2p_bytes, max_coll_bytes;
} nccl_properties_v9; /* and of version 10 */

typedef struct {
	char *name, *pci_path;
	uint64_t guid;
	int ptr_support, reg_is_global, force_flush, speed, port;
	float latency;
	int max_comms, max_recvs, device_type, device_version;
	nccl_members_v9 members;
	size_t max_p2p_bytes, max_coll_bytes;
	int max_multi_request;
} nccl_properties_v11;

typedef struct {
	char *name, *pci_path; /* pci_path: of the PCI device in /sys */
	uint64_t guid;         /* of the chip */
	int ptr_support;       /* bits of NCCL_PTR */
	int reg_is_global;     /* a registration is good for all communicators of the device */
	int force_flush;
	int speed;             /* Mbit/s */
	int port;
	float latency;         /* microseconds */
	int max_comms, max_recvs, device_type, device_version;
	nccl_members_v12 members;
	size_t max_p2p_bytes, max_coll_bytes;
	int max_multi_request;
	int16_t rail, plane;
} nccl_properties_v12;

typedef nccl_result nccl_init_v6(nccl_logger log);
typedef nccl_result nccl_init_v10(nccl_logger log, nccl_profiler profiler);
typedef nccl_result nccl_init_v11(void **context, uint64_t communicator, nccl_config *config, nccl_logger log, nccl_profiler profiler);
typedef nccl_result nccl_devices(int *count);
typedef nccl_result nccl_listen_v6(int device, void *handle, void **listener);
typedef nccl_result nccl_listen_v11(void *context, int device, void *handle, void **listener);
typedef nccl_result nccl_connect_v6(int device, void *handle, void **sender);
typedef nccl_result nccl_connect_v7(int device, void *handle, void **sender, nccl_device_handle **on_gpu);
typedef nccl_result nccl_connect_v10(int device, nccl_config *config, void *handle, void **sender, nccl_device_handle **on_gpu);
typedef nccl_result nccl_connect_v11(void *context, int device, void *handle, void **sender, nccl_device_handle **on_gpu);
typedef nccl_result nccl_accept_v6(void *listener, void **receiver);
typedef nccl_result nccl_accept_v7(void *listener, void **receiver, nccl_device_handle **on_gpu);
typedef nccl_result nccl_register_v6(void *comm, void *data, int size, int type, void **memory);
typedef nccl_result nccl_register_v8(void *comm, void *data, size_t size, int type, void **memory);
typedef nccl_result nccl_register_dmabuf(void *comm, void *data, size_t size, int type, uint64_t offset, int fd, void **memory);
typedef nccl_result nccl_deregister(void *comm, void *memory);
typedef nccl_result nccl_send_v6(void *sender, void *data, int size, int tag, void *memory, void **request);
typedef nccl_result nccl_send_v9(void *sender, void *data, size_t size, int tag, void *memory, void **request);
typedef nccl_result nccl_send_v10(void *sender, void *data, size_t size, int tag, void *memory, void *event, void **request);
typedef nccl_result nccl_receive_v6(void *receiver, int n, void **data, int *sizes, int *tags, void **memories, void **request);
typedef nccl_result nccl_receive_v9(void *receiver, int n, void **data, size_t *sizes, int *tags, void **memories, void **request);
typedef nccl_result nccl_receive_v10(void *receiver, int n, void **data, size_t *sizes, int *tags, void **memories, void **events, void **request);
typedef nccl_result nccl_flush(void *receiver, int n, void **data, int *sizes, void **memories, void **request);
typedef nccl_result nccl_test(void *request, int *done, int *sizes);
typedef nccl_result nccl_close(void *comm);
typedef nccl_result nccl_device_memory(void *comm, void *memory, void **on_gpu);
typedef nccl_result nccl_receive_consumed(void *receiver, int n, void *request);
typedef nccl_result nccl_make_device_v9(int *device, nccl_members_v9 *members);
typedef nccl_result nccl_make_device_v12(int *device, nccl_members_v12 *members);
typedef nccl_result nccl_finalize(void *context);
typedef nccl_result nccl_set_attributes(void *context, void *attributes);

typedef struct {
	const char *name;
	nccl_init_v6 *init;
	nccl_devices *devices;
	nccl_result (*get_properties)(int device, nccl_properties_v6 *properties);
	nccl_listen_v6 *listen;
	nccl_connect_v6 *connect;
	nccl_accept_v6 *accept;
	nccl_register_v6 *reg_mr;
	nccl_register_dmabuf *reg_mr_dmabuf;
	nccl_deregister *dereg_mr;
	nccl_send_v6 *isend;
	nccl_receive_v6 *irecv;
	nccl_flush *iflush;
	nccl_test *test;
	nccl_close *close_send, *close_recv, *close_listen;
} nccl_net_v6;

typedef struct {
	const char *name;
	nccl_init_v6 *init;
	nccl_devices *devices;
	nccl_result (*get_properties)(int device, nccl_properties_v7 *properties);
	nccl_listen_v6 *listen;
	nccl_connect_v7 *connect;
	nccl_accept_v7 *accept;
	nccl_register_v6 *reg_mr;
	nccl_register_dmabuf *reg_mr_dmabuf;
	nccl_deregister *dereg_mr;
	nccl_send_v6 *isend;
	nccl_receive_v6 *irecv;
	nccl_flush *iflush;
	nccl_test *test;
	nccl_close *close_send, *close_recv, *close_listen;
	nccl_device_memory *device_memory;
	nccl_receive_consumed *receive_consumed;
} nccl_net_v7;

typedef struct {
	const char *name;
	nccl_init_v6 *init;
	nccl_devices *devices;
	nccl_result (*get_properties)(int device, nccl_properties_v8 *properties);
	nccl_listen_v6 *listen;
	nccl_connect_v7 *connect;
	nccl_accept_v7 *accept;
	nccl_register_v8 *reg_mr;
	nccl_register_dmabuf *reg_mr_dmabuf;
	nccl_deregister *dereg_mr;
	nccl_send_v6 *isend;
	nccl_receive_v6 *irecv;
	nccl_flush *iflush;
	nccl_test *test;
	nccl_close *close_send, *close_recv, *close_listen;
	nccl_device_memory *device_memory;
	nccl_receive_consumed *receive_consumed;
} nccl_net_v8;

typedef struct {
	const char *name;
	nccl_init_v6 *init;
	nccl_devices *devices;
	nccl_result (*get_properties)(int device, nccl_properties_v9 *properties);
	nccl_listen_v6 *listen;
	nccl_connect_v7 *connect;
	nccl_accept_v7 *accept;
	nccl_register_v8 *reg_mr;
	nccl_register_dmabuf *reg_mr_dmabuf;
	nccl_deregister *dereg_mr;
	nccl_send_v9 *isend;
	nccl_receive_v9 *irecv;
	nccl_flush *iflush;
	nccl_test *test;
	nccl_close *close_send, *close_recv, *close_listen;
	nccl_device_memory *device_memory;
	nccl_receive_consumed *receive_consumed;
	nccl_make_device_v9 *make_device;
} nccl_net_v9;

typedef struct {
	const char *name;
	nccl_init_v10 *init;
	nccl_devices *devices;
	nccl_result (*get_properties)(int device, nccl_properties_v9 *properties);
	nccl_listen_v6 *listen;
	nccl_connect_v10 *connect;
	nccl_accept_v7 *accept;
	nccl_register_v8 *reg_mr;
	nccl_register_dmabuf *reg_mr_dmabuf;
	nccl_deregister *dereg_mr;
	nccl_send_v10 *isend;
	nccl_receive_v10 *irecv;
	nccl_flush *iflush;
	nccl_test *test;
	nccl_close *close_send, *close_recv, *close_listen;
	nccl_device_memory *device_memory;
	nccl_receive_consumed *receive_consumed;
	nccl_make_device_v9 *make_device;
} nccl_net_v10;

typedef struct {
	const char *name;
	nccl_init_v11 *init;
	nccl_devices *devices;
	nccl_result (*get_properties)(int device, nccl_properties_v11 *properties);
	nccl_listen_v11 *listen;
	nccl_connect_v11 *connect;
	nccl_accept_v7 *accept;
	nccl_register_v8 *reg_mr;
	nccl_register_dmabuf *reg_mr_dmabuf;
	nccl_deregister *dereg_mr;
	nccl_send_v10 *isend;
	nccl_receive_v10 *irecv;
	nccl_flush *iflush;
	nccl_test *test;
	nccl_close *close_send, *close_recv, *close_listen;
	nccl_device_memory *device_memory;
	nccl_receive_consumed *receive_consumed;
	nccl_make_device_v9 *make_device;
	nccl_finalize *finalize;
	nccl_set_attributes *set_attributes;
} nccl_net_v11;

typedef struct {
	const char *name;
	/* Once for each communicator of NCCL's, whose context it makes. Before version 11: once a process. */
	nccl_init_v11 *init;
	nccl_devices *devices;
	nccl_result (*get_properties)(int device, nccl_properties_v12 *properties);
	/* The handle goes to the peer, who connects to it. */
	nccl_listen_v11 *listen;
	/* These two do not wait: they give NULL until they are called often enough, with the same handle. */
	nccl_connect_v11 *connect;
	nccl_accept_v7 *accept;
	nccl_register_v8 *reg_mr;
	nccl_register_dmabuf *reg_mr_dmabuf;
	nccl_deregister *dereg_mr;
	/* These two give a NULL request where they would have to wait: NCCL calls again. */
	nccl_send_v10 *isend;
	nccl_receive_v10 *irecv;
	/* A NULL request: there is nothing to flush. */
	nccl_flush *iflush;
	nccl_test *test;
	nccl_close *close_send, *close_recv, *close_listen;
	nccl_device_memory *device_memory;
	nccl_receive_consumed *receive_consumed;
	nccl_make_device_v12 *make_device;
	nccl_finalize *finalize;
	nccl_set_attributes *set_attributes;
} nccl_net_v12;

#endif
