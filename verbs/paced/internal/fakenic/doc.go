// Package fakenic is a small verbs provider in simulated time, to test package
// paced against. It moves bytes between RC queue pairs of one World, completes
// what a device is told to complete when it is told to, fails what a test tells
// it to fail, and is strict where a provider may be: a send queue has exactly the
// room asked for, and gets it back as completions are polled.
//
// The wire is as simple as the tests allow: a NIC serialises what it sends at
// LineRate, in the order of posting; half of Latency later the peer has it, and
// after the other half and a delay of the test's choosing the sender has the
// acknowledgement. A Read's request takes no time on the wire, and its data
// queue at the responder's NIC.
//
// Everything runs on the caller's goroutine. Time passes in Poll when it finds
// nothing, in Wait, and in World.RunUntil.
package fakenic
