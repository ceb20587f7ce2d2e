// Package poseidon is Poseidon: a window from the largest queueing delay of any
// hop, held against a target that falls as the flow's rate rises. Flows that
// share a queue see one delay and differ in their targets, so that only the
// fastest of them give way; each flow ends at its max-min fair share.
//
// Source: W. Wang et al., "Poseidon: Efficient, Robust, and Practical
// Datacenter CC via Deployable INT", NSDI 2023, Algorithms 1 and 2, equations 3
// and 4, section 4.1.
//
// Units: windows in packets of the MTU, rates in bits per second, times in
// picoseconds.
//
// Departures: an acknowledgement clears the count of retransmissions, as in
// Swift, on which Poseidon builds; and guards that per-packet operation never
// meets. docs/engines/poseidon.md lists them and the readings taken.
package poseidon
