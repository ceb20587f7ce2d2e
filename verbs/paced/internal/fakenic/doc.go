// Package fakenic is a small verbs provider in simulated time, to test package
// paced against. It moves bytes between RC queue pairs of one World. A test decides
// which requests complete, when, and which fail. The package is strict where a
// provider may be: a send queue has exactly the requested room, and regains it as
// completions are polled.
//
// The wire is as simple as the tests allow: a NIC serialises what it sends at
// LineRate, in the order of posting. Half of Latency later the peer has the data.
// After the other half, and a delay that the test chooses, the sender has the
// acknowledgement. A Read's request takes no time on the wire, and its data queue
// at the responder's NIC.
//
// Everything runs on the caller's goroutine. Time passes in Poll when it finds
// nothing, in Wait, and in World.RunUntil.
package fakenic
