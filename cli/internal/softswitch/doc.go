// Package softswitch is a switch between network interfaces, of which each frame's
// way is a P4 program's to say, or, without one, that of a learning bridge. Ports
// have a rate and a buffer: so a pair of virtual interfaces is a link of 200 Mbps
// with a queue that the program sees.
//
// It works with packet sockets (AF_PACKET), on Linux, for root (CAP_NET_RAW). What a
// sender leaves to its interface's segmentation and checksum offload, it does.
//
// The switch itself is internal/plane, a state machine; here are sockets, clock and
// the loop that drives it. A frame's arrival is the kernel's time stamp of it, and a
// port serves its queue from that time on: when the loop runs late, frames are late,
// and the queue that the program sees is no longer than it would have been.
package softswitch
