// Package paced is the host shim: a verbs device whose RC queue pairs cut RDMA
// Writes and Reads into segments, pace the segments, time each one and let a rate
// engine steer the pace (TIMELY, SIGCOMM 2015, sections 3 and 5). It wraps the
// device of any provider. An application uses a Shim as it uses any other
// verbs.Device.
//
//	dev, err := paced.Wrap(provider, paced.DefaultConfig())
//
// # Progress
//
// A Shim has no thread. It works inside the calls that the application makes
// anyway: PostSend sends what may leave at once; CQ.Poll takes completions and
// sends what has come due, of the queue pairs of that CQ, and of others that nobody
// has polled for a while; CompChannel.Wait does the same for all queue pairs each time
// it wakes: when a completion arrives and when a segment is due. A program that neither polls nor
// waits while it has work posted gives the shim no time: segments that are not yet
// with the NIC are not sent.
//
// A driver that owns the time, such as a simulation, calls Progress itself: on
// every completion event, and at Deadline.
//
// # Parts
//
// internal/core decides where a segment goes and when it leaves. It is a state
// machine whose caller passes the time. This package is its driver: it holds the
// lock, reads the clocks, posts to the provider and polls it, and keeps completion
// queues and channels.
//
// # Concurrency
//
// The rules are those of package verbs. Queue pairs that send to one CQ are a shard: a
// core with its own lock. Threads of which each has a CQ of its own share no lock on the
// data path. Of the provider's calls only PostSend is made with a shard's lock held, so
// a provider must not call back into the shim from there; control calls, polls and waits
// of one thread hold up no other one. Nothing on the data path allocates.
//
// docs/shim.md follows a write through the shim and lists what is guaranteed.
package paced
