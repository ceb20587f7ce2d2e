// Package dctcp is DCTCP: a TCP-like window that falls, once a window of data, in
// proportion to the share of packets that met congestion marks.
//
// Source: M. Alizadeh et al., "Data Center TCP (DCTCP)", SIGCOMM 2010, section 3.3.
//
// Units: windows in packets of the MTU.
//
// Departures: what the paper takes from TCP without saying how is RFC 8257's and RFC
// 5681's, which package dctcplaw names line by line; RDMA's acknowledgements carry
// the marks themselves, so there is no delayed ACK and no ECE to tell runs of marks
// apart. The window never falls below one packet, and nothing is paced.
package dctcp
