// Package homa is HOMA: receivers let the shortest of the messages to them go
// first, by grants and by the fabric's priorities.
//
// Source: B. Montazeri et al., "Homa: A Receiver-Driven Low-Latency Transport
// Protocol Using Network Priorities", SIGCOMM 2018, sections 3.2 to 3.5; as
// baseline: V. Addanki et al., "PowerTCP", NSDI 2022, section 4.1 and appendix C.
//
// A flow is one message. Its sender sends the first RTTBytes unasked, at a
// priority that its size decides, and then what the receiver grants, at the
// priority of the grant.
//
// Units: sizes in payload bytes; classes are fabric priorities plus one.
//
// Departures: the priorities of unscheduled packets are configured, not learned;
// losses are repaired by the transport, not by RESEND packets. docs/engines/homa.md
// lists them with what they do.
package homa
