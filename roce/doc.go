// Package roce is RoCEv2 on the wire: the InfiniBand transport headers inside
// UDP datagrams for port 4791 (IBA volume 1, chapter 9 and annex A17), their
// ICRC, and the connection management datagrams that set queue pairs up
// (chapter 12, annex A11).
//
// Wire types are views over bytes (BTH, RETH, IPv4, MAD and so on), and a Packet
// is one packet's headers in the terms of roce/rc with the fields that drivers
// own. Reading a packet off an Ethernet interface takes three steps:
//
//	var f roce.Frame
//	err := f.ParseEthernet(b)         // where IP, UDP and BTH begin
//	ok := roce.CheckICRC(f.IP)
//	var p roce.Packet
//	payload, err := p.Decode(f.IB)
//
// A program that reads from a UDP socket begins with Decode. It checks the ICRC by
// a Path, which represents the headers that the socket hides. Sending is the
// reverse:
//
//	n := p.Put(b)                     // headers
//	n += copy(b[n:], payload)
//	n += roce.PutPad(b[n:], p.Pad)
//	path.PutICRC(b[:n+roce.ICRCBytes], 0)
//
// Nothing here allocates, keeps state between packets, or panics on any input. An
// invalid packet is refused with a Malformed, which is small enough to index
// counters. docs/wire.md has the layouts.
package roce
