// Package dcqcn is DCQCN's reaction point: a rate that falls with each congestion
// notification packet, by half of an estimate of how congested the path is, and
// rises again in stages that a timer and a byte counter drive: back towards what it
// was, then by a step each, then by larger ones.
//
// Source: Y. Zhu et al., "Congestion Control for Large-Scale RDMA Deployments",
// SIGCOMM 2015, section 3.1. Its congestion point is ECN in package fabric, and its
// notification point is the NIC's (nicmodel.Congestion.CNPInterval).
//
// Units: rates in bits per second, times in picoseconds.
//
// Departures: there are no timers. What would have run out since the last event is
// caught up with at the next, in closed form where it is many steps, so that the rate
// of a flow that is not acknowledged meanwhile rises late; docs/engines/dcqcn.md says
// what else was left open.
package dcqcn
