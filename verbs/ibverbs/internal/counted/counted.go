//go:build ibverbs

// Package counted is hooks for tests, such as a preloaded library puts into
// libibverbs: C functions that count and go on to the original.
package counted

// #cgo pkg-config: libibverbs
// #include <infiniband/verbs.h>
//
// static long posts, polls, created;
// static struct ibv_context *opened;
//
// static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
// {
//	posts++;
//	return ibv_post_send(qp, wr, bad);
// }
// static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
// {
//	polls++;
//	return ibv_poll_cq(cq, n, wc);
// }
// static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *a)
// {
//	created++;
//	return ibv_create_qp(pd, a);
// }
// static long posted(void) { return posts; }
// static long polled(void) { return polls; }
// static long made(void) { return created; }
// static void *post_send_hook(void) { return post_send; }
// static void *poll_cq_hook(void) { return poll_cq; }
// static void *create_qp_hook(void) { return create_qp; }
//
// static struct ibv_context *open_first(void)
// {
//	struct ibv_device **list = ibv_get_device_list(NULL);
//	if (!list)
//		return NULL;
//	opened = list[0] ? ibv_open_device(list[0]) : NULL;
//	ibv_free_device_list(list);
//	return opened;
// }
import "C"

import "unsafe"

// Hooks are the functions.
func Hooks() (postSend, pollCQ, createQP unsafe.Pointer) {
	return C.post_send_hook(), C.poll_cq_hook(), C.create_qp_hook()
}

// Counts returns how often each was called.
func Counts() (posts, polls, created int) { return int(C.posted()), int(C.polled()), int(C.made()) }

// A Program is what a C program has made: pointers to libibverbs' objects.
type Program struct{ Context, PD, Channel, CQ unsafe.Pointer }

// Start opens the first device and makes objects.
func Start() Program {
	ctx := C.open_first()
	if ctx == nil {
		return Program{}
	}
	pd, channel := C.ibv_alloc_pd(ctx), C.ibv_create_comp_channel(ctx)
	cq := C.ibv_create_cq(ctx, 64, nil, channel, 0)
	return Program{unsafe.Pointer(ctx), unsafe.Pointer(pd), unsafe.Pointer(channel), unsafe.Pointer(cq)}
}

// End frees them. It reports whether all could be.
func (p Program) End() bool {
	return C.ibv_destroy_cq((*C.struct_ibv_cq)(p.CQ))|C.ibv_destroy_comp_channel((*C.struct_ibv_comp_channel)(p.Channel))|
		C.ibv_dealloc_pd((*C.struct_ibv_pd)(p.PD))|C.ibv_close_device((*C.struct_ibv_context)(p.Context)) == 0
}
