// Package retcp is reTCP: TCP's window, scaled up when the path's circuit is there or
// announced and down when it has gone.
//
// Source: M. Mukerjee et al., "Adapting TCP for Reconfigurable Datacenter Networks",
// NSDI 2020, and its kernel module, which has Reno below it.
//
// Units: windows in packets of the MTU.
//
// Departures: TCP's part is package dctcplaw's without marks, that is RFC 5681's slow
// start and additive increase, halved by a loss. The flag of circuits is one of its own
// in place of ECE. docs/engines/retcp.md says what was chosen.
package retcp
