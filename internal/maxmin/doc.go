// Package maxmin computes the max-min fair rates of flows that share links, by
// progressive filling (Bertsekas and Gallager, Data Networks, 2nd edition, section
// 6.5.2): all rates grow together, and a flow's stops where one of its links is
// full. It knows capacities and paths, nothing of packets.
package maxmin
