// Package swift is Swift: a window by additive increase and multiplicative
// decrease around a target for the end-to-end delay, which grows with the number
// of hops and, for small windows, with the number of flows that they bespeak.
//
// Source: G. Kumar et al., "Swift: Delay is Simple and Effective for Congestion
// Control in the Datacenter", SIGCOMM 2020, Algorithm 1 and section 3.5; as
// baseline: W. Wang et al., "Poseidon", NSDI 2023, section 5.1.
//
// Units: windows in packets of the MTU, times in picoseconds.
//
// Departures: one window, that of the fabric. The second one, for congestion at
// the receiver's end, wants the time that the receiver held the packet, which
// cc.Ack does not tell apart: that time is in the delay here. The number of hops
// is Config.Hops unless the acknowledgement brings a record a hop, since cc.Ack
// has no TTL. And guards that per-packet operation never meets.
// docs/engines/swift.md lists them and the readings taken.
package swift
