// Package telemetry is what switches report to senders about the path of a
// packet: the largest queueing delay of any one hop (Poseidon's MPD), a record
// a hop (HPCC's and PowerTCP's INT), an explicit incast notification (Pulser's EIN) and
// ECN; and how each stands in a packet, which docs/telemetry.md draws.
//
// The largest delay is a tag before the EtherType (DelayFormat), the records are
// behind UDP (INT, HopReader), EIN is in the BTH (EIN, EINEcho). Switches quantise,
// SwitchClock and DelayFormat.Quantised say how; senders undo what wrapped.
// Nothing here allocates, but for Append's slice where it is too short.
package telemetry
