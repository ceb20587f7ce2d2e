// Package timely is TIMELY: a rate from the gradient of the round-trip time.
//
// Source: R. Mittal et al., "TIMELY: RTT-based Congestion Control for the
// Datacenter", SIGCOMM 2015, Algorithm 1 with hyperactive increase and the
// rules of section 5; as an option the patched TIMELY of Y. Zhu et al., "ECN or
// Delay: Lessons Learnt from Analysis of DCQCN and TIMELY", CoNEXT 2016,
// Algorithm 2.
//
// Units: rates in bits per second, times in picoseconds.
//
// Departures: a floor under the rate, because Algorithm 1's decrease goes
// negative for a gradient above 1/beta; and, unless Config.MaxDecrease is 1, a bound
// of half on what one completion may take. docs/engines/timely.md has the figures for
// both, and the readings taken.
package timely
