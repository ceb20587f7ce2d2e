// Package softroce is the verbs provider for any network interface: RoCEv2 in user
// space, over a UDP socket (or packet or AF_XDP sockets), without privileges and without a kernel module. Real
// RDMA devices, the kernel's soft-RoCE driver and programs written for them can be the other
// end.
//
//	import _ "github.com/sluice-rdma/sluice/verbs/softroce"
//	dev, err := verbs.Open("soft:eth0")
//
// # Names
//
// A device is named by an interface ("soft:eth0", "soft:lo") or by an address of
// one ("soft:10.0.0.5", "soft:127.0.0.2"), which is then its only GID. Options
// follow a question mark, "soft:eth0?window=256&gso=off":
//
//	port    UDP port, 4791. With another the device's GIDs carry it as a zone,
//	        "::ffff:127.0.0.1%port14791", by which a peer finds it: two devices
//	        can share an address, but only devices of this package understand it
//	mode    udp; packet: packet sockets, for root; or xdp: AF_XDP sockets, for root
//	        and Ethernet; docs/softroce.md
//	gso     on or off: let the kernel cut messages into packets (UDP_SEGMENT)
//	turnaround  on or off: ask peers how long they take to answer, which those of
//	        this package tell, by a bit that IBA reserves; on by default on the
//	        loopback, off elsewhere; docs/host-ebpf.md
//	window  packets that a connection may have under way: by default 256 KiB, and
//	        at most 256
//	maxqp   queue pairs that the device takes: 65536
//	tclass  traffic class (DSCP and ECN) of what an address vector leaves at 0
//	rate    line rate that the port shows: by default what the interface says, or
//	        40Gbps where it says nothing
//	shape   rate of a link that the device sends over: 10Gbps; by default there is
//	        none. Where rate says nothing, the port shows it
//	delay   how much later packets are at the other end: 5us
//	loss    how many of them are lost: 0.1%
//	seed    which ones, 0: the same seed loses the same
//	telemetry  what packets collect on their way, which is what switches on it
//	        supply and the peer returns, by a form of telemetry.Forms; all but
//	        ein need mode=packet; docs/softroce.md
//
// # What there is
//
// RC, UC and UD queue pairs, SRQs, completion channels, asynchronous events, all
// operations of package verbs. The path MTU is the largest that fits the
// interface's MTU less 80, as with the kernel's driver. Atomics are atomic for the
// program's own sync/atomic too.
//
// Time stamps (verbs.WC.Timestamp) are the kernel's receive time stamps of the
// packet that completed the request, on a counter of nanoseconds since the device
// was opened that setting the wall clock does not move; the device is a
// verbs.ClockReader of the same counter. It is a verbs.MADDevice. Queue pairs are
// verbs.CNPQP, verbs.RepairsQP, and verbs.TelemetryQP, which reports ECN marks and what telemetry= says. A device
// has Counters() map[string]uint64, named as the kernel's hw_counters where it has
// them.
//
// # Polling and waiting
//
// A device has a goroutine that receives. A CQ.Poll that finds nothing receives too,
// so that a loop that polls moves its own packets without a change of goroutine;
// while somebody polls and nobody is in CompChannel.Wait, which sleeps, the goroutine
// looks only every 500 us. Every sixteenth poll in a row that finds nothing yields the
// processor to other threads. PostSend sends in the caller's goroutine what the
// connection's window allows.
//
// # The interface
//
// The port follows its interface: its state is that of the link, its GIDs are the
// addresses of the interface, and what changes is told by asynchronous events. A device
// whose interface is gone has a verbs.LostDevice's end.
//
// # Failures
//
// Devices are verbs.Failers and verbs.LinkFailers: ports, links, queue pairs and whole
// devices fail on demand, to test what is built on them (docs/failures.md).
//
// One lock guards a device: connections that should not share it go on devices
// of their own, one for each address.
//
// docs/softroce.md has the ICRC, what a UDP socket hides from it and what is
// therefore checked, and what protects a device from whom.
package softroce
