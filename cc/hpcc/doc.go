// Package hpcc is HPCC: a window that keeps what is in flight through every link
// of the path just below that link's bandwidth-delay product, which in-band
// telemetry tells for each hop. Each acknowledgement moves the window, but always
// from a reference that itself moves once a round trip, so that no congestion is
// reacted to twice.
//
// Source: Y. Li et al., "HPCC: High Precision Congestion Control", SIGCOMM 2019,
// Algorithm 1 and section 3.
//
// Units: windows in bytes, times in picoseconds, inflight bytes normalised by a
// link's bandwidth-delay product and so without a unit.
//
// Departures: none of the law. What Algorithm 1 leaves open, with the reading
// taken: the first records of a flow or of a path with another number of hops
// are differenced against nothing, so they are kept and the window waits; records
// that did not advance are left out; U starts at 1; the window is bounded by the
// initial one; the window is whole packets, rounded up, and pacing carries the
// fraction. docs/engines/hpcc.md has the rest.
package hpcc
