// Package paced is the host shim: a verbs device whose RC queue pairs cut RDMA
// Writes and Reads into segments, pace the segments, time each one and let a
// rate engine steer the pace (TIMELY, SIGCOMM 2015, sections 3 and 5). It wraps
// the device of any provider; what an application does with a Shim it does with
// any other verbs.Device.
//
//	dev, err := paced.Wrap(provider, paced.DefaultConfig())
//
// # Progress
//
// A Shim has no thread. It works inside the calls that the application makes
// anyway: PostSend sends what may leave at once; CQ.Poll takes completions and
// sends what has come due; CompChannel.Wait does the same each time it wakes,
// which is when a completion comes and when a segment is due. A program that
// neither polls nor waits while it has work posted gives the shim no time, and
// what is not yet with the NIC stays where it is.
//
// A driver that owns the time, such as a simulation, calls Progress itself: on
// every completion event, and at Deadline.
//
// # Parts
//
// What a segment's way is, and when it leaves, is decided in internal/core, a state
// machine that is given the time. This package is its driver: it has the lock, reads
// the clocks, posts to the provider and polls it, and keeps completion queues and
// channels.
//
// # Concurrency
//
// The rules are those of package verbs. One lock guards the shim's state; it is
// never held while the provider is polled or waited on. A provider must not call
// back into the shim from within PostSend. Nothing on the data path allocates.
//
// docs/shim.md follows a write through the shim and lists what is guaranteed.
package paced
