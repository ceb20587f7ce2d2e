// Package storm runs programs that use verbs through storms of faults, in simulated
// time, over the code that they run on in production: the transport and the device of
// package softroce on a wire in memory, or the NIC model of package simverbs, with the
// shim of package paced over it or without.
//
// A run has a seed, from which its faults are drawn: packets that are dropped, doubled,
// late, corrupted or marked, partitions, processes that crash and begin anew or stand
// still, NIC clocks that step and drift (package fault). The same seed gives the same
// run. A run fails if
//
//   - a completion contradicts the contract of package verbs: it is for no request,
//     comes twice or out of order, succeeds after a failure, has another length; or a
//     post is refused while there is room;
//   - a program reports it (Process.Failf), returns an error, or panics;
//   - a program has not ended so long after the last fault (Config.Grace);
//   - objects cannot be destroyed, or remain, when a process has crashed or ended.
//
// A failed run is shrunk: Shrink leaves out faults for as long as it still fails.
//
// The program may be one's own, a Program. Peers is the one that comes with the package:
// its processes connect with each other, some by rdma_cm's messages, send all kinds of
// requests both ways and hold memory, receives and atomics against what they must be.
package storm
