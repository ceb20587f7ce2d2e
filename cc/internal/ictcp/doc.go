// Package ictcp is ICTCP: a receiver opens and closes the windows of the flows to
// it by the bandwidth that its port has left.
//
// Source: H. Wu et al., "ICTCP: Incast Congestion Control for TCP in Data Center
// Networks", CoNEXT 2010, section 4; as baseline: H. Almasi et al., "Pulser",
// LANMAN 2019.
//
// Senders are TCP (RFC 5681) under that window. They share their law with package
// dctcp, without its marks.
//
// Units: windows in bytes, rates in bytes a second.
//
// Departures: the receiver measures payload, and its round trips are the base RTT
// and what packets waited. docs/engines/ictcp.md lists them.
package ictcp
