// Package telemetry is what switches report to senders about the path of a
// packet: the largest queueing delay of any one hop (Poseidon's MPD), a record
// a hop (HPCC's and PowerTCP's INT), an early incast notice (Pulser's EIN) and
// ECN; and how each looks in a packet.
package telemetry
