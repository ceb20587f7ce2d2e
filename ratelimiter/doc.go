// Package ratelimiter paces many flows with one scheduler: each flow has a rate,
// and the scheduler says which flow may send its next segment and when (TIMELY,
// SIGCOMM 2015, section 3.3). The host shim schedules segments with it, the NIC
// model packets.
//
// # How it is used
//
// The caller keeps each flow's queue. The scheduler holds at most one segment of a
// flow, the head of that queue, and only its size:
//
//	Enqueue(now, flow, bytes)   the flow's next segment wants to leave
//	NextDue()                   when to call Dequeue next
//	Dequeue(now)                the flow whose segment leaves now, if any
//
// After Dequeue the caller sends the segment and enqueues the next one, if the flow
// has one and its window is open. So the order within a flow is that of the
// caller's queue and can't change here. A flow that is held back (closed window,
// full send queue) is simply not enqueued. The cost of a flow does not depend on
// how much it has queued. A Scheduler that kept queues would hold every segment
// twice, since both callers need the work request anyway.
//
// # When a segment is due
//
// The gap after a segment of n bytes at rate R is 8n/R; the next segment is due a
// gap after the due time of the one before. Remainders below a picosecond carry
// over, so any number of segments at one rate take their exact time, rounded down,
// and not a picosecond more. Two corrections bound bursts:
//
//   - A flow that had nothing to send when its segment could have left has no
//     credit for it beyond Config.Burst: its gaps count from when it enqueues again.
//   - A segment that waited longer than its due time, because the caller polled
//     late or other flows were ahead, counts as sent at most Config.CatchUp before
//     it was. A caller's jitter then costs no throughput, and a long stall makes
//     no burst.
//
// Over any span t a flow of rate R thus sends at most R(t+CatchUp) + Burst and
// one segment. Segments that have left never count against a new rate.
//
// # Changes of rate
//
// Changes of rate are enforced lazily (TIMELY section 5): SetRate stores the rate.
// If the rate has decreased when the head segment is due, its due time is computed
// again from the last transmission, and the segment returns to the wheel if that
// time is in the future. An increase counts from the next gap on. But a flow at a
// low rate may have its head filed seconds ahead, so SetRate brings it forward if
// that gains more than Config.PullIn.
//
// # Which segment is first
//
// Segments whose time has come wait in one round-robin ring: in the order of
// their due times, those due at once on being enqueued going to the end. A flow
// has one segment in the ring, so with n flows in it, every flow is served once
// in n calls. With SetWeight a flow has several segments a turn, so that flows that
// always have one to send share the line as their weights are.
//
// # The wheel
//
// Segments in the future are filed in a hierarchical timing wheel (Varghese and
// Lauck, SOSP 1987) of 11 levels with 64 slots, whose finest slot is one picosecond;
// a word of bits a level finds the first occupied slot. So there is no granularity
// to choose and no horizon to overflow. Due times are exact, as simulated time
// requires. The levels below the first occupied one cost nothing, because the wheel
// turns to the earliest segment and not to the next slot: with 1, 1,000 and 100,000
// flows that share 400 Gbps in segments of 16 KiB, a segment is filed 1, 2.6 and 3.6
// times before it leaves, not eleven.
//
// A Scheduler is plain state: it reads no clock, starts no goroutine and is not
// safe for concurrent use. Enqueue, Dequeue, NextDue, SetRate and Withdraw
// allocate nothing.
package ratelimiter
