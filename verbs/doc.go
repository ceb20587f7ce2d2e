// Package verbs is the API through which applications use RDMA devices. Its
// objects and rules are those of libibverbs, in Go's idiom: a Device (an opened
// ibv_context) makes protection domains and completion queues; a PD registers
// memory and makes queue pairs; work requests are posted to a QP and come back
// as completions from a CQ. Each is an interface that a provider implements.
//
// # Providers
//
// A provider registers itself under a scheme, as database/sql drivers do, and
// Open takes "scheme:device". Import the providers an application should be
// able to open:
//
//	import _ "github.com/sluice-rdma/sluice/verbs/simverbs" // sim:NETWORK/HOST, the built-in model
//
// What only some devices can do (pathway telemetry, a readable clock, hardware rate
// limits) is an optional interface of the object concerned, found by a type
// assertion. New abilities will be added the same way, so that the interfaces here
// do not grow for providers that implement them.
//
// # Concurrency
//
// Objects of different kinds and different objects of one kind may be used from
// different goroutines at once. One QP's PostSend, one QP's PostRecv and one
// CQ's Poll must each be called by one goroutine at a time.
//
// # Memory
//
// Work requests name memory by MR.Addr plus an offset, never by a Go pointer. A device
// may read and write a registered buffer from RegMR until Close; between posting a
// request and its completion its buffers belong to the device. The bytes of a completion
// (a receive's, a READ's, and at a peer in the same process those of a WRITE) are in
// memory before Poll returns it. Memory that one-sided WRITEs change while it is watched
// without a completion has no such order: that is a data race to Go.
//
// # Simulated time
//
// On a simulated device time passes only while every application goroutine
// waits in Poll or Wait. Start such goroutines with Run, which does the same
// job on a real device by plain goroutines. A goroutine inside Run that must wait for
// something other than the device (a channel, a lock) does so within Blocking.
package verbs
