// Package rc is the transport of reliable and unreliable connections, and of
// unreliable datagrams (InfiniBand Architecture volume 1, cited as IBA, chapter 9),
// as a plain state machine. One QP is the requester and the responder of one queue pair. The cycle-level NIC model and
// the user-space endpoint both drive it, so what an application runs is what
// the simulator exercises.
//
// A QP deals in descriptors, never in bytes. It reads no clock, starts no goroutine
// and draws no random number; after New it allocates nothing. The driver passes
// what arrived and when; the QP returns what to send, where a payload goes and what
// has completed. Everything that touches the world belongs to the driver: packets
// and their ICRC, memory tables and copying, pacing, congestion control, CNPs,
// completion queues.
//
// # How to drive it
//
// Make a [RecvQueue] and a QP with [New]; it is in state RTR and responds.
// [QP.ReadyToSend] takes it to RTS. Work requests come in by [QP.PostSend] and
// [RecvQueue.Post]; each returns a slot, by which the driver keeps its scatter and
// gather lists. A send slot is free when [QP.PollSend] has gone past it, a receive
// slot when the driver calls [RecvQueue.Free].
//
// To send: whenever the wire is free, first take responses by [QP.NextResponse],
// then, as pacing and window allow, requests by [QP.NextRequest]. [QP.PeekRequest]
// returns the size of the next one beforehand and [QP.Inflight] the bytes
// outstanding. For each [Descriptor], fetch Payload bytes from where Source says, ask
// [QP.Fresh] whether the packet is still wanted, and send it. Fetches may take their
// time; packets leave in the order of the calls. On an unreliable connection, and for
// datagrams, call [QP.Sent] for each packet when it has left. A SourceLocalInv is not
// a packet: invalidate the key and go on; nor is a SourceBindMW. When a fetch fails, call [QP.FailSend] or
// [QP.FailResponse]. A driver with a window of its own sets it by [QP.BoundInflight].
// A driver that wants an early acknowledgement of a packet may set AckReq in the
// header of any request.
//
// To receive: hand each packet with a good ICRC from the peer to
// [QP.Receive], and do what [Effects].Do says, in this order:
//
//  1. DoCheck: look up the key, protection domain, bounds and access of
//     Effects.Check, and answer by [QP.Checked], which fills the same Effects
//     in anew. Until then the QP drops what else arrives. A range is checked
//     once for a whole message; a driver whose memory may be deregistered in
//     the middle of one looks again at each placement.
//  2. DoPlace: move the payload to Effects.Place. It is never outside what was
//     checked, the receive's length, or the request. When that fails, say
//     [QP.FailRecv] for places of the responder (PlaceMemory, PlaceRecv) and
//     [QP.FailSend] for those of the requester (PlaceRead, PlaceAtomic).
//  3. DoAtomic: perform Effects.Atomic on memory as a peer of all other
//     accesses, now or later but in order with placements; then say
//     [QP.AtomicDone]. Responses to later requests wait for it.
//  4. DoRecv: report Effects.Recv when all that was placed for it is in
//     memory. If it has invalidated a key (HasInvalidate), do that before.
//  5. DoComplete: take completions by [QP.PollSend], and in state Err flushed
//     receives by [QP.PollRecv]. A READ's or atomic's completion may be given
//     out only when what it brought is in memory.
//  6. DoRespond and DoSend: there may be something to send.
//
// Rewind, AckedBytes, AckedPackets and Drop are for congestion control and
// statistics; Events are asynchronous events to raise.
//
// To keep time: after NextRequest, Receive and Expire look at [QP.Deadline],
// and call [QP.Expire] at that time. An event or timer that is already set for
// an earlier time need not be moved: one timer is enough, and it is set anew
// once a timeout, not once a packet.
//
// The Example is a driver complete with bytes.
//
// # The requester
//
// A request gets its PSNs when it is posted; a READ takes one for each response
// (9.7.2). An acknowledgement covers all packets before it, as does any response
// (9.7.5.1.2). Recovery is go-back-N from one place, the oldest PSN that was not
// acknowledged or not answered: after a NAK for a sequence error, an implied NAK, a
// timeout (9.7.6.1.3) or an RNR wait (9.7.5.2.8). A READ that is partly answered is
// requested again from the first missing response on. The timer is that of the
// oldest packet under way that asks for an answer; while there is none, each packet
// sent restarts it. The retry counter counts timeouts, sequence errors and implied
// NAKs in a row without progress (9.9.2); RNR NAKs have their own. What an earlier
// loss already explains (more responses behind a gap, a NAK repeated) does not go
// back twice; READ responses that begin anew behind the same gap say that its answer was lost again. Outstanding READs and atomics, fences (10.8), PSNs (9.7.2) and
// end-to-end credits (9.7.7.2) hold requests back.
//
// With [Config].Reorder recovery is selective repeat (selective.go): WRITEs and READ
// responses are placed as they come, messages complete in order, and only what is missing
// is sent again, once for each NAK or timeout that shows it.
//
// A failure completes the oldest request with its status; later ones are
// flushed (WCWRFlushErr), and the QP is in state Err.
//
// # The responder
//
// A request with the expected PSN goes through the checks of 9.7.4: sequence of
// opcodes, operations admitted, length, receive, resources, R_Key. One NAK answers
// a gap, until the expected PSN arrives (9.7.5.1). Duplicates are acknowledged,
// executed again (READ) or answered with the saved result (atomics) from the
// responder resources (9.7.5.1); others are dropped. Fatal
// NAKs go out behind all responses owed before, and the QP is in state Err at once.
//
// Acknowledgements are a state, not a queue: a driver that takes responses
// after each Receive sends one for each packet that asks, one that takes them
// after a batch coalesces (9.7.5.1.2).
//
// # Unreliable connections
//
// With [Config].Type ib.UC the QP has SENDs and WRITEs, with or without immediate
// data, and answers nothing (9.8). A request completes as its last packet is Sent. A
// local error ends the send queue alone, in state SQE, and [QP.Resume] goes on from
// there. The responder drops a message of which a packet is missing, or which a
// reliable connection would refuse, and goes on with the next First or Only; only
// memory of its own that it may not write brings it to Err (9.9.3).
//
// # Datagrams
//
// With Type ib.UD each request is a SEND of one packet, of at most [Config].MTU bytes,
// to a place of its own, which the driver keeps by slot (IBA 9.8.3). It completes as
// it is Sent; the send queue fails like an unreliable connection's. This package does
// not check who sends: the driver checks the Q_Key ([QKey] returns the one to send),
// and passes on admitted packets. PSNs mean nothing. The place of a received datagram
// begins with [GRHBytes] for the driver to fill. A datagram without a receive, or
// whose receive is too small for header and payload, is dropped and counted. The
// receive stays posted, so that no stranger can bring the queue pair down (9.9.3.1.2,
// class E).
//
// # Choices and departures
//
//   - A packet of an unreliable connection whose PSN is up to 65536 before the
//     expected one is dropped as a duplicate. 9.8.3 knows only the expected PSN
//     and a gap, so a doubled or late First or Only would be a message again.
//   - A receive that a dropped message of an unreliable connection held is for the
//     next message, also from a shared queue, where 9.9.3 (class E) completes it in
//     error.
//   - A timeout comes after exactly 4.096 us * 2^n without progress, or what adaptive retransmission has (adaptive.go);
//     9.7.6.1.3 allows up to four times that.
//   - A READ response that is lost again takes nothing off the retry counter; 9.9.2
//     counts each implied NAK.
//   - RetryCount 7 is seven retries, as in the specification; some
//     implementations take it for infinite.
//   - A READ response is accepted with First for Middle and the other way
//     round; only the last of a message must say so, and sizes must fit. That is
//     all that its place needs, and restarted READs begin with First anywhere.
//   - A duplicate READ must lie within the original, fit its PSN and carry the
//     same R_Key; others are dropped, so that a guessed duplicate reads nothing.
//   - A duplicate SEND or WRITE is acknowledged up to the next READ or atomic at
//     most; 9.7.5.1 would allow the latest PSN, which would imply the loss of
//     answers that are on their way.
//   - A message broken off by an invalid packet flushes the receive that it held
//     with WCRemInvReqErr.
//   - The responder never sends an acknowledgement unasked, not even for new
//     credits: a requester without credits learns of them from its one packet
//     beyond the limit.
//   - Automatic path migration, atomic extensions and flush operations are not
//     there.
package rc
