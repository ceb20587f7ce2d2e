// Package cm is InfiniBand's connection manager for reliable connections over
// RoCEv2 (IBA volume 1, chapter 12), as rdma_cm of Linux uses it: the exchange of
// REQ, REP and RTU that joins two queue pairs, of DREQ and DREP that parts them,
// and the MRA, REJ and timeouts in between.
//
// A Manager holds the connections of one device. It is a plain state machine: the
// caller passes the time and the management datagrams that arrived at queue pair 1,
// and fetches those to send and the events:
//
//	m.Receive(now, path, mad)   // or Connect, Accept, Ready, Disconnect, Expire
//	for m.NextMAD(&out) { ... } // send out.MAD along out.Path
//	for m.NextEvent(&ev) { ... }
//	wait until m.Deadline(), then m.Expire(now)
//
// It reads no clock and draws no random number but from the source it was given.
// Package verbs/rdmacm drives it for applications.
//
// # States
//
// The names are those of IBA 12.9.5 and 12.9.6. An active connection goes from
// REQSent by a REP to REPReceived, where the application moves its queue pair to
// RTS and calls Ready, and then is Established. A passive one starts as
// REQReceived; Accept makes it REPSent, and the RTU, or the first packet on the
// queue pair, Established. Disconnect leads by DREQSent, the peer's DREQ
// directly, to TimeWait, in which late messages are still answered and the queue
// pair's number must not be used again. Connections that were refused or given up pass
// through TimeWait too: that is how a lost REJ is repeated.
//
// # What is answered again
//
// Every message may be lost, doubled and delayed. REQ, REP and DREQ are sent again
// until an answer comes or their retries are used up; a doubled REQ, REP or DREQ gets
// its answer again. While the application has not decided, that answer is an MRA, so
// that the other side waits (IBA 12.6.6). Once a side has given up, it answers later
// messages of the other with a REJ, so that neither side keeps a connection alone.
//
// # Departures
//
// A REP or RTU for a communication ID that does not exist is refused with a REJ (Linux
// ignores it), so that the other side learns it sooner. Messages must come from the peer
// address of the connection, and a REQ from the address that it names: the specification
// requires neither. Waiting times that the other side requests are clamped to 10 ms to 69
// s. Alternate paths (LAP, APR) and reliable datagram are not there.
//
// # Datagrams
//
// LookUp asks by a SIDR_REQ for the queue pair that serves a service ID, and Answer
// answers (IBA 12.11). Both have IDs as connections have, and share their bounds: a
// repeated SIDR_REQ gets its answer again for a while.
package cm
