// Package fast is FAST*, the scheme after TCP FAST that TIMELY compares itself with: the
// rate moves to where the flow keeps a set amount of its own traffic in queues, as
// told by the round trip against the shortest one seen.
//
// Source: R. Mittal et al., "TIMELY", SIGCOMM 2015, section 6.1: "we use the TCP FAST
// equation to adjust the pacing rate", alpha being a throughput. The equation: D. Wei
// et al., "FAST TCP: Motivation, Architecture, Algorithms, Performance", IEEE/ACM
// Transactions on Networking 14(6), 2006, section IV.
//
// Units: rates in bits per second, times in picoseconds.
//
// Departures: the rate takes the window's place, as TIMELY's sentence has it, and
// completions that fall into one base round trip share one update (its section 5). The
// shortest round trip is forgotten after a while.
package fast
