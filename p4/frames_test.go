package p4_test

import (
	"encoding/binary"
	"net/netip"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// Frames for the programs, put together by package roce, so with an ICRC that holds.

// host returns the address of host i.
func host(i int) roce.MAC { return roce.MAC{2, 0, 0, 0, 0, byte(i)} }

// frameFields is a RoCEv2 frame from host 1 to host 2.
type frameFields struct {
	v6, vlan bool
	probe    bool
	udpSum   bool // has a UDP checksum
	payload  int  // bytes, a multiple of four; 0: 16
	psn      units.PSN
	dst      int // 0: host 2
}

func (f frameFields) build() []byte {
	if f.payload == 0 {
		f.payload = 16
	}
	if f.dst == 0 {
		f.dst = 2
	}
	p := roce.Packet{
		Header: rc.Header{Opcode: ib.SendOnly, PSN: f.psn}, DestQP: 0x12, PKey: roce.DefaultPKey,
	}
	length := roce.HeaderBytes(p.Opcode) + f.payload + roce.ICRCBytes
	b := make([]byte, 512)
	eth := roce.EthernetFields{Dst: host(f.dst), Src: host(1), EtherType: roce.EtherTypeIPv4, Tagged: f.vlan, Tag: 3<<13 | 5}
	if f.v6 {
		eth.EtherType = roce.EtherTypeIPv6
	}
	ip := eth.Put(b)
	n := ip
	if f.v6 {
		h := roce.IPv6Fields{
			TrafficClass: 0x6a, FlowLabel: 0x54321, PayloadLen: roce.UDPBytes + length, HopLimit: 64,
			Src: netip.MustParseAddr("fd00::1"), Dst: netip.MustParseAddr("fd00::2"),
		}
		n += h.Put(b[n:])
	} else {
		h := roce.IPv4Fields{
			TOS: 0x6a, TotalLen: roce.IPv4Bytes + roce.UDPBytes + length, ID: 7, DontFragment: true, TTL: 64,
			Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"),
		}
		n += h.Put(b[n:])
	}
	udp := n
	u := roce.UDPFields{SrcPort: 0xc123, DstPort: roce.Port, Len: roce.UDPBytes + length}
	n += u.Put(b[n:])
	bth := n
	n += p.Put(b[n:])
	for i := range f.payload {
		b[n] = byte(i)
		n++
	}
	n += roce.ICRCBytes
	b = b[:n]
	if f.probe {
		b[bth] = telemetry.ProbeOpcode
	}
	roce.PutICRC(b[ip:])
	if f.udpSum {
		binary.BigEndian.PutUint16(b[udp+6:], roce.UDPChecksum(b[ip:]))
	}
	return b
}

// ipOffset returns where the IP header of a frame begins, behind the delay tags of
// any form.
func ipOffset(frame []byte) int {
	at := 12
	for {
		switch binary.BigEndian.Uint16(frame[at:]) {
		case roce.EtherTypeIPv4, roce.EtherTypeIPv6:
			return at + 2
		case telemetry.EtherTypeWide:
			at += telemetry.WideBytes
		default: // a VLAN tag or one of the tags of four bytes
			at += 4
		}
	}
}

// udpOffset returns where the UDP header begins.
func udpOffset(frame []byte) int {
	at := ipOffset(frame)
	if frame[at]>>4 == 6 {
		return at + roce.IPv6Bytes
	}
	return at + roce.IPv4Bytes
}

// shim is the header in front of the records.
type shim struct {
	overflow, reflected bool
	hops                []telemetry.HopRecord // in path order
}

// withINT returns frame with a shim and records, as sources and transits leave it.
func withINT(frame []byte, s shim) []byte {
	udp := udpOffset(frame)
	payload := udp + roce.UDPBytes
	out := append([]byte(nil), frame[:payload]...)
	b := make([]byte, len(frame)+128)
	n := telemetry.INT64.Put(b, binary.BigEndian.Uint16(frame[udp+2:]))
	n += copy(b[n:], frame[payload:])
	for _, h := range s.hops {
		n = telemetry.INT64.Push(b, n, h)
	}
	if s.overflow {
		b[0] |= 2
	}
	if s.reflected {
		b[0] |= 1
	}
	out = append(out, b[:n]...)
	binary.BigEndian.PutUint16(out[udp+2:], telemetry.INTPort)
	grow(out, len(out)-len(frame))
	return out
}

// grow adds n to the lengths in a frame and takes its UDP checksum off.
func grow(frame []byte, n int) {
	ip, udp := ipOffset(frame), udpOffset(frame)
	at := ip + 2
	if frame[ip]>>4 == 6 {
		at = ip + 4
	}
	for _, at := range []int{at, udp + 4} {
		binary.BigEndian.PutUint16(frame[at:], uint16(int(binary.BigEndian.Uint16(frame[at:]))+n))
	}
	binary.BigEndian.PutUint16(frame[udp+6:], 0)
	if frame[ip]>>4 == 4 {
		roce.IPv4(frame[ip:]).SetChecksum()
	}
}

// noChecksum returns frame with a UDP checksum of 0.
func noChecksum(frame []byte) []byte {
	out := append([]byte(nil), frame...)
	grow(out, 0)
	return out
}

// checkICRC fails the test unless a NIC would accept frame.
func checkICRC(t failer, frame []byte) {
	t.Helper()
	var f roce.Frame
	if err := f.ParseEthernet(frame); err != nil {
		t.Fatalf("%x: %v", frame, err)
	}
	if !roce.CheckICRC(f.IP) {
		t.Fatalf("the ICRC of %x is wrong", frame)
	}
}

// failer is a testing.TB or a rapid.T.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}
