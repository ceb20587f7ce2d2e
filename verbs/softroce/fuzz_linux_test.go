package softroce

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/verbs/softroce/internal/endpoint"
)

// Whatever follows the question mark gives options in their ranges or an error.
func FuzzOptions(f *testing.F) {
	for _, s := range []string{
		"port=14791", "mode=packet&gso=off", "window=256&maxqp=10", "tclass=0x2", "rate=10Gbps", "rate=never", "port=0",
		"window=-1", "%zz", "&&=", "gso=on&gso=off", "mode",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, query string) {
		o, err := parseOptions(query)
		if err != nil {
			return
		}
		if o.Port == 0 || o.Window < 0 || o.Window > maxWindow || o.MaxQP < 1 || o.MaxQP > endpoint.MaxQP || o.Rate < 0 {
			t.Errorf("%q: %+v", query, o)
		}
	})
}

// Whatever control messages come with a datagram.
func FuzzControl(f *testing.F) {
	b := appendControl(make([]byte, 0, controlLen), unix.IPPROTO_IP, unix.IP_TOS, 4, 3)
	b = appendControl(b, unix.IPPROTO_UDP, unix.UDP_GRO, 4, 4112)
	f.Add(b)
	f.Add(appendControl(make([]byte, 0, controlLen), unix.IPPROTO_UDP, unix.UDP_GRO, 2, 4112))
	stamp := make([]byte, unix.CmsgSpace(16))
	binary.NativeEndian.PutUint64(stamp, uint64(unix.CmsgLen(16)))
	binary.NativeEndian.PutUint32(stamp[8:], unix.SOL_SOCKET)
	binary.NativeEndian.PutUint32(stamp[12:], unix.SCM_TIMESTAMPNS)
	f.Add(stamp)
	f.Add(stamp[:20])
	f.Fuzz(func(t *testing.T, b []byte) {
		c := parseControl(b)
		if len(b) < unix.CmsgLen(0) && c != (control{}) {
			t.Errorf("%x says %+v", b, c)
		}
	})
}

// sink is who gets packets, and sees that they can be looked at and lie in the message.
func sink(t *testing.T, got *int) collector {
	return newCollector(func(packets []endpoint.Packet) {
		for i := range packets {
			*got += len(packets[i].Data)
			if len(packets[i].Data) < roce.BTHBytes+roce.ICRCBytes {
				t.Errorf("a packet of %d bytes went on", len(packets[i].Data))
			}
		}
	})
}

// Whatever datagram comes by a UDP socket, as one packet or as several that
// were put together.
func FuzzDatagram(f *testing.F) {
	src, four := netip.MustParseAddrPort("10.0.0.2:4791"), netip.MustParseAddrPort("10.0.0.1:4791")
	six := netip.MustParseAddrPort("[fd00::1]:4791")
	p := roce.GSI(1, roce.DefaultPKey)
	packet := make([]byte, roce.HeaderBytes(p.Opcode)+roce.MADBytes+roce.ICRCBytes)
	p.Put(packet)
	f.Add(packet, len(packet), 0, false)
	f.Add(append(packet, packet...), len(packet), 1, false)
	f.Add(packet, 20, 0, true)
	f.Add(packet, -1, 300, false)
	f.Fuzz(func(t *testing.T, data []byte, segment, right int, v6 bool) {
		if segment > 0xffff { // the kernel has 16 bits for it
			return
		}
		data = bytes.Clone(data)
		got := 0
		s := &udpSocket{local: four, counters: new(wireCounters), out: sink(t, &got)}
		from := src
		if v6 {
			s.local, from = six, netip.MustParseAddrPort("[fd00::2]:4791")
		}
		// The ICRC of the first part is made good, so that it gets further.
		first := data
		if segment > 0 && segment < len(first) {
			first = first[:segment]
		}
		if len(first) >= roce.BTHBytes+roce.ICRCBytes {
			path := s.paths.get(from, s.local)
			path.PutICRC(first, uint16(right))
		}
		s.parse(data, control{segment: segment}, from, 0)
		s.out.flush()
		if n := len(first); n >= roce.BTHBytes+roce.ICRCBytes && got < n {
			t.Errorf("a good packet of %d bytes did not go on, %d bytes did", n, got)
		}
		if got > len(data) {
			t.Errorf("%d bytes of %d went on", got, len(data))
		}
	})
}

// Whatever frame comes by a packet socket, behind struct virtio_net_hdr.
func FuzzFrame(f *testing.F) {
	const head = virtioBytes + roce.EthernetBytes
	p := roce.GSI(1, roce.DefaultPKey)
	local := netip.MustParseAddr("10.0.0.1")
	udp := roce.UDPFields{SrcPort: 49152, DstPort: roce.Port, Len: roce.UDPBytes + roce.HeaderBytes(p.Opcode) + roce.MADBytes + roce.ICRCBytes}
	frame := make([]byte, head+roce.IPv4Bytes+udp.Len)
	frame[virtioBytes+12] = 8 // IPv4
	ip := roce.IPv4Fields{TotalLen: roce.IPv4Bytes + udp.Len, ID: 7, DontFragment: true, TTL: 64, Src: netip.MustParseAddr("10.0.0.2"), Dst: local}
	at := head + ip.Put(frame[head:])
	at += udp.Put(frame[at:])
	p.Put(frame[at:])
	roce.PutICRC(frame[head:])
	f.Add(frame, true)
	f.Add(frame[virtioBytes+roce.EthernetBytes:], false)
	cut := bytes.Clone(frame)
	cut[1] = 5 // UDP segmentation
	binary.NativeEndian.PutUint16(cut[4:], 90)
	f.Add(cut, true)
	w := &packetWire{gids: newGIDs([]netip.Addr{local, netip.MustParseAddr("fd00::1")}), counters: new(wireCounters), collect: new(collect)}
	f.Fuzz(func(t *testing.T, b []byte, ethernet bool) {
		got := 0
		if w.out, w.ethernet, w.virtio = sink(t, &got), ethernet, 0; ethernet {
			w.virtio = virtioBytes
		}
		w.parse(b, 0)
		w.out.flush()
		if got > len(b) {
			t.Errorf("%d bytes of %d went on", got, len(b))
		}
	})
}
