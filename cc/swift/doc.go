// Package swift is Swift: a window by additive increase and multiplicative
// decrease around a target for the end-to-end delay, which grows with the number
// of hops and, for small windows, with the number of flows that they bespeak.
//
// Source: G. Kumar et al., "Swift: Delay is Simple and Effective for Congestion
// Control in the Datacenter", SIGCOMM 2020, Algorithm 1, sections 3.3 and 3.5; as
// baseline: W. Wang et al., "Poseidon", NSDI 2023, section 5.1.
//
// Units: windows in packets of the MTU, times in picoseconds.
//
// Departures: the number of hops is Config.Hops where the driver does not know it,
// as a host does not; the endpoint's delay is the receiver's alone. And guards that
// per-packet operation never meets.
// docs/engines/swift.md lists them and the readings taken.
package swift
