// Package maxmin computes the max-min fair rates of flows that share links, by
// progressive filling (Bertsekas and Gallager, Data Networks, 2nd edition, section
// 6.5.2): all rates grow together, and a flow's rate stops growing when one of its
// links is full. The package knows capacities and paths, not packets.
package maxmin
