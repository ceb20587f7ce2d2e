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

// The Go and the C layouts of what both sides touch are the same.
var (
	_ = [1]struct{}{}[unsafe.Sizeof(Calls{})-C.sizeof_struct_shim_calls]
	_ = [1]struct{}{}[unsafe.Offsetof(Calls{}.QueryRTValuesEx)-unsafe.Offsetof(C.struct_shim_calls{}.query_rt_values)]
)
