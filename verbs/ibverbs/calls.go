//go:build ibverbs

package ibverbs

// #cgo pkg-config: libibverbs
// #cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra
// #cgo LDFLAGS: -ldl
// #cgo noescape shim_poll
// #cgo nocallback shim_poll
// #include "shim.h"
import "C"

import "unsafe"

// Calls is what a Device calls in place of libibverbs' functions: C function
// pointers of libibverbs' types (verbs.h), nil for its own. The first five are a
// driver's, which verbs.h calls by way of ibv_context.ops; where a hook sits
// there, give the function that it replaced. The others are of the names with
// ibv_ before them.
//
// The posting and polling ones must not call back into Go.
type Calls struct {
	PostSend, PostRecv, PostSRQRecv, PollCQ, ReqNotifyCQ unsafe.Pointer

	AllocPD, DeallocPD, RegMR, DeregMR unsafe.Pointer

	CreateCQ, CreateCQEx, DestroyCQ        unsafe.Pointer
	CreateCompChannel, DestroyCompChannel  unsafe.Pointer
	GetCQEvent, AckCQEvents                unsafe.Pointer
	CreateQP, ModifyQP, QueryQP, DestroyQP unsafe.Pointer
	ModifyQPRateLimit                      unsafe.Pointer

	CreateSRQ, DestroySRQ, CreateAH, DestroyAH unsafe.Pointer

	GetAsyncEvent, AckAsyncEvent unsafe.Pointer
	QueryRTValuesEx              unsafe.Pointer
}

// Calls has the layout of struct ibverbs_calls: an offset that differs, or a field
// more on one side, does not compile.
var (
	_ = [1]struct{}{}[unsafe.Sizeof(Calls{})-C.sizeof_struct_ibverbs_calls]
	_ = [1]struct{}{}[unsafe.Offsetof(Calls{}.PostSend)-unsafe.Offsetof(C.struct_ibverbs_calls{}.post_send)]
	_ = [1]struct{}{}[unsafe.Offsetof(Calls{}.PostRecv)-unsafe.Offsetof(C.struct_ibverbs_calls{}.post_recv)]
	_ = [1]struct{}{}[unsafe.Offsetof(Calls{}.PostSRQRecv)-unsafe.Offsetof(C.struct_ibverbs_calls{}.post_srq_recv)]
	_ = [1]struct{}{}[unsafe.Offsetof(Calls{}.PollCQ)-unsafe.Offsetof(C.struct_ibverbs_calls{}.poll_cq)]
	_ = [1]struct{}{}[unsafe.Offsetof(Calls{}.ReqNotifyCQ)-unsafe.Offsetof(C.struct_ibverbs_calls{}.req_notify_cq)]
	_ = [1]struct{}{}[unsafe.Offsetof(Calls{}.AllocPD)-unsafe.Offsetof(C.struct_ibverbs_calls{}.alloc_pd)]
	_ = [1]struct{}{}[unsafe.Offsetof(Calls{}.DeallocPD)-unsafe.Offsetof(C.struct_ibverbs_calls{}.dealloc_pd)]
	_ = [1]struct{}{}[unsafe.Offsetof(Calls{}.RegMR)-unsafe.Offsetof(C.struct_ibverbs_calls{}.reg_mr)]
	_ = [1]struct{}{}[unsafe.Offsetof(Calls{}.DeregMR)-unsafe.Offsetof(C.struct_ibverbs_calls{}.dereg_mr)]
	_ = [1]struct{}{}[unsafe.Offsetof(Calls{}.CreateCQ)-unsafe.Offsetof(C.struct_ibverbs_calls{}.create_cq)]
	_ = [1]struct{}{}[unsafe.Offsetof(Calls{}.CreateCQEx)-unsafe.Offsetof(C.struct_ibverbs_calls{}.create_cq_ex)]
	_ = [1]struct{}{}[unsafe.Offsetof(Calls{}.DestroyCQ)-unsafe.Offsetof(C.struct_ibverbs_calls{}.destroy_cq)]
	_ = [1]struct{}{}[unsafe.Offsetof(Calls{}.CreateCompChannel)-unsafe.Offsetof(C.struct_ibverbs_calls{}.create_comp_channel)]
	_ = [1]struct{}{}[unsafe.Offsetof(Calls{}.DestroyCompChannel)-unsafe.Offsetof(C.struct_ibverbs_calls{}.destroy_comp_channel)]
	_ = [1]struct{}{}[unsafe.Offsetof(Calls{}.GetCQEvent)-unsafe.Offsetof(C.struct_ibverbs_calls{}.get_cq_event)]
	_ = [1]struct{}{}[unsafe.Offsetof(Calls{}.AckCQEvents)-unsafe.Offsetof(C.struct_ibverbs_calls{}.ack_cq_events)]
	_ = [1]struct{}{}[unsafe.Offsetof(Calls{}.CreateQP)-unsafe.Offsetof(C.struct_ibverbs_calls{}.create_qp)]
	_ = [1]struct{}{}[unsafe.Offsetof(Calls{}.ModifyQP)-unsafe.Offsetof(C.struct_ibverbs_calls{}.modify_qp)]
	_ = [1]struct{}{}[unsafe.Offsetof(Calls{}.QueryQP)-unsafe.Offsetof(C.struct_ibverbs_calls{}.query_qp)]
	_ = [1]struct{}{}[unsafe.Offsetof(Calls{}.DestroyQP)-unsafe.Offsetof(C.struct_ibverbs_calls{}.destroy_qp)]
	_ = [1]struct{}{}[unsafe.Offsetof(Calls{}.ModifyQPRateLimit)-unsafe.Offsetof(C.struct_ibverbs_calls{}.modify_qp_rate_limit)]
	_ = [1]struct{}{}[unsafe.Offsetof(Calls{}.CreateSRQ)-unsafe.Offsetof(C.struct_ibverbs_calls{}.create_srq)]
	_ = [1]struct{}{}[unsafe.Offsetof(Calls{}.DestroySRQ)-unsafe.Offsetof(C.struct_ibverbs_calls{}.destroy_srq)]
	_ = [1]struct{}{}[unsafe.Offsetof(Calls{}.CreateAH)-unsafe.Offsetof(C.struct_ibverbs_calls{}.create_ah)]
	_ = [1]struct{}{}[unsafe.Offsetof(Calls{}.DestroyAH)-unsafe.Offsetof(C.struct_ibverbs_calls{}.destroy_ah)]
	_ = [1]struct{}{}[unsafe.Offsetof(Calls{}.GetAsyncEvent)-unsafe.Offsetof(C.struct_ibverbs_calls{}.get_async_event)]
	_ = [1]struct{}{}[unsafe.Offsetof(Calls{}.AckAsyncEvent)-unsafe.Offsetof(C.struct_ibverbs_calls{}.ack_async_event)]
	_ = [1]struct{}{}[unsafe.Offsetof(Calls{}.QueryRTValuesEx)-unsafe.Offsetof(C.struct_ibverbs_calls{}.query_rt_values)]
)
