// Package route finds how a verbs device reaches a peer, as the kernel routes packets to
// it: the address to send from and its index in the port's GID table, the path MTU, and
// the line rate of the way out.
//
// RoCEv2 packets are IP packets: one whose source is not the one that the kernel's route
// gives is refused, or its answer goes astray. A device that lists several addresses does
// not say which of them a peer can answer; the route to the peer does (RTM_GETROUTE, with
// its rules, its src and its mtu).
//
// It knows of no connection: packages peer, exchange, rdmacm and bench/perf ask it with
// the peer's address, and the virtual devices' rdma_cm asks it for programs.
package route
