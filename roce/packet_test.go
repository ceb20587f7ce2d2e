package roce

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce/rc"
)

// A packet reads back as it was written, whatever its opcode and fields.
func TestPacketRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, payload := genPacket(t)
		b := encode(&p, payload)
		if len(b)%4 != 0 {
			t.Fatalf("%d bytes from BTH to ICRC", len(b))
		}
		var got Packet
		data, err := got.Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		if got != p || !bytes.Equal(data, payload) {
			t.Fatalf("%+v %x\nreads back as\n%+v %x", p, payload, got, data)
		}
		n, err := got.DecodeHeaders(b[:HeaderBytes(p.Opcode)])
		if err != nil || n != HeaderBytes(p.Opcode) || got != p {
			t.Fatalf("headers alone: %d, %v, %+v", n, err, got)
		}
	})
}

// Put ignores fields that the opcode does not have, and bits that a field does
// not have.
func TestPutMasks(t *testing.T) {
	all := Packet{
		Header: rc.Header{PSN: 0xff000001, Syndrome: 0x1f, MSN: 0xff000002, VA: 1, RKey: 2, DMALen: 3, Swap: 4, Compare: 5, Orig: 6, Imm: 7},
		DestQP: 0xff000003, Pad: 0xf4, Reserved6: 0xff, QKey: 8, SrcQP: 0xff000009,
	}
	for op := range 256 {
		p := all
		p.Opcode = ib.Opcode(op)
		b := bytes.Repeat([]byte{0xee}, MaxHeaderBytes+1)
		n := p.Put(b)
		if n != HeaderBytes(p.Opcode) || b[n] != 0xee {
			t.Errorf("%v: Put wrote %d bytes, HeaderBytes says %d", p.Opcode, n, HeaderBytes(p.Opcode))
		}
		if n == 0 {
			continue
		}
		var got Packet
		if _, err := got.DecodeHeaders(b[:n]); err != nil {
			t.Fatal(err)
		}
		if got.PSN != 1 || got.DestQP != 3 || got.Pad != 0 || got.Reserved6 != 63 || got.FECN || got.BECN || got.AckReq || got.MSN > 2 || got.SrcQP > 9 {
			t.Errorf("%v: %+v", p.Opcode, got)
		}
	}
}

// The opcodes are those of the table in IBA 9.2.1, and for RC the transport
// reckons with the same lengths.
func TestOpcodes(t *testing.T) {
	want := map[ib.Opcode]int{ib.CNP: 28, 0x64: 20, 0x65: 24}
	for op, n := range []int{12, 12, 12, 16, 12, 16, 28, 12, 12, 16, 28, 32, 28, 16, 12, 16, 16, 16, 24, 40, 40, 0, 16, 16} {
		want[ib.Opcode(op)] = n
		if op < 12 {
			want[ib.ServiceUC|ib.Opcode(op)] = n
		}
	}
	for op := range 256 {
		op := ib.Opcode(op)
		if got := HeaderBytes(op); got != want[op] {
			t.Errorf("%v: %d bytes of headers, want %d", op, got, want[op])
		}
		if got := rc.HeaderBytes(op); op.Service() != ib.ServiceCNP && got != want[op] {
			t.Errorf("%v: the transport reckons with %d bytes, want %d", op, got, want[op])
		}
	}
	for op, has := range map[ib.Opcode]bool{
		ib.SendOnly: true, ib.ReadRequest: false, ib.ReadResponseMiddle: true, ib.Acknowledge: false, ib.FetchAdd: false,
		ib.AtomicAcknowledge: false, ib.CNP: false, ib.ServiceUD | ib.SendOnlyImm: true, ib.ServiceUC | ib.WriteLast: true, 0xff: false,
	} {
		if HasPayload(op) != has {
			t.Errorf("%v has payload: %v", op, !has)
		}
	}
}

func TestMalformedPackets(t *testing.T) {
	write, ack := frameOf(t, ib.WriteOnly)[42:], frameOf(t, ib.Acknowledge)[42:]
	for name, c := range map[string]struct {
		b      []byte
		change func(b []byte) []byte
		want   error
	}{
		"as sent":            {write, func(b []byte) []byte { return b }, nil},
		"nothing":            {write, func(b []byte) []byte { return nil }, TooShort},
		"half a BTH":         {write, func(b []byte) []byte { return b[:11] }, TooShort},
		"no RETH":            {write, func(b []byte) []byte { return b[:16] }, TooShort},
		"no ICRC":            {write, func(b []byte) []byte { return b[:28] }, TooShort},
		"not aligned":        {write, func(b []byte) []byte { return b[:len(b)-1] }, BadPacketLength},
		"version":            {write, func(b []byte) []byte { b[1] |= 1; return b }, BadTransportVersion},
		"reserved opcode":    {write, func(b []byte) []byte { b[0] = 21; return b }, UnknownOpcode},
		"RD":                 {write, func(b []byte) []byte { b[0] = 0x44; return b }, UnknownOpcode},
		"UC read":            {write, func(b []byte) []byte { b[0] = 0x2c; return b }, UnknownOpcode},
		"UD write":           {write, func(b []byte) []byte { b[0] = 0x6a; return b }, UnknownOpcode},
		"pad but no payload": {write, func(b []byte) []byte { b[1] |= 0x30; return b[:32] }, BadPad},
		"write of nothing":   {write, func(b []byte) []byte { return b[:32] }, nil},
		"ACK with payload":   {ack, func(b []byte) []byte { return append(b, 0, 0, 0, 0) }, UnexpectedPayload},
		"ACK with pad":       {ack, func(b []byte) []byte { b[1] |= 0x10; return b }, UnexpectedPayload},
	} {
		var p Packet
		if _, err := p.Decode(c.change(bytes.Clone(c.b))); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestPad(t *testing.T) {
	for n, want := range map[int]uint8{0: 0, 1: 3, 2: 2, 3: 1, 4: 0, 1021: 3} {
		if got := Pad(n); got != want {
			t.Errorf("Pad(%d) = %d, want %d", n, got, want)
		}
	}
}

// Nothing on the way of a packet allocates.
func TestNoAllocations(t *testing.T) {
	frame := frameOf(t, ib.WriteOnly)
	path, err := NewPath(netip.MustParseAddrPort("10.0.0.1:49152"), netip.MustParseAddrPort("10.0.0.2:4791"))
	if err != nil {
		t.Fatal(err)
	}
	out, mad, short := make([]byte, 2048), make([]byte, MADBytes), frame[:50]
	req := REQ{LocalQPN: 17, Private: make([]byte, REQPrivateBytes)}
	var rep REP
	var ip IPCM
	for name, f := range map[string]func(){
		"receive": func() {
			var f Frame
			var p Packet
			if f.ParseEthernet(frame) != nil || !CheckICRC(f.IP) {
				t.Fatal("the frame is wrong")
			}
			if _, err := p.Decode(f.IB); err != nil {
				t.Fatal(err)
			}
			path.RecoverID(f.IB, 0)
		},
		"refuse": func() {
			var f Frame
			var p Packet
			if f.ParseEthernet(short) == nil {
				t.Fatal("half a frame is right")
			}
			if _, err := p.Decode(short); err == nil {
				t.Fatal("an Ethernet header is a packet")
			}
		},
		"send": func() {
			p := Packet{Header: rc.Header{Opcode: ib.WriteOnly}, Pad: Pad(1023)}
			n := p.Put(out) + 1023
			n += PutPad(out[n:], p.Pad) + ICRCBytes
			path.PutICRC(out[:n], 0)
		},
		"headers": func() {
			n := (&EthernetFields{}).Put(out)
			n += (&IPv4Fields{Src: netip.AddrFrom4([4]byte{1}), Dst: netip.AddrFrom4([4]byte{2})}).Put(out[n:])
			(&UDPFields{}).Put(out[n:])
		},
		"cm": func() {
			m, err := req.Put(mad, 1)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := ParseMAD(m); err != nil || req.Decode(m) != nil || rep.Decode(m) == nil {
				t.Fatal("a REQ is none")
			}
			_, _ = ip.Decode(req.Private)
		},
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func Example() {
	src, dst := netip.MustParseAddrPort("10.0.0.1:49152"), netip.MustParseAddrPort("10.0.0.2:4791")
	path, err := NewPath(src, dst)
	if err != nil {
		fmt.Println(err)
		return
	}
	// What an unconnected UDP socket at 10.0.0.1:49152 has to send for a SEND
	// of five bytes.
	payload := []byte("hello")
	p := Packet{Header: rc.Header{Opcode: ib.SendOnly, AckReq: true, PSN: 7}, DestQP: 0x11, PKey: DefaultPKey, Pad: Pad(len(payload))}
	b := make([]byte, MaxHeaderBytes+len(payload)+3+ICRCBytes)
	n := p.Put(b)
	n += copy(b[n:], payload)
	n += PutPad(b[n:], p.Pad) + ICRCBytes
	path.PutICRC(b[:n], 0)
	fmt.Printf("%x\n", b[:n])

	// And what its receiver makes of it.
	var q Packet
	data, err := q.Decode(b[:n])
	fmt.Println(q.Opcode, q.PSN, q.DestQP, string(data), err, path.CheckICRC(b[:n], 0))
	// Output:
	// 0430ffff000000118000000768656c6c6f000000cf287712
	// RC_SEND_ONLY 7 17 hello <nil> true
}

func BenchmarkPacket(b *testing.B) {
	src, dst := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	p := Packet{Header: rc.Header{Opcode: ib.WriteOnly, VA: 1 << 40, RKey: 77, DMALen: 1024}, DestQP: 17, PKey: DefaultPKey}
	frame := make([]byte, 2048)
	payload := bytes.Repeat([]byte{0x5a}, 1024)
	put := func() int {
		n := (&EthernetFields{EtherType: EtherTypeIPv4}).Put(frame)
		length := UDPBytes + HeaderBytes(p.Opcode) + len(payload) + ICRCBytes
		n += (&IPv4Fields{TotalLen: IPv4Bytes + length, DontFragment: true, TTL: 64, Src: src, Dst: dst}).Put(frame[n:])
		n += (&UDPFields{SrcPort: 49152, DstPort: Port, Len: length}).Put(frame[n:])
		n += p.Put(frame[n:])
		n += copy(frame[n:], payload)
		n += ICRCBytes
		PutICRC(frame[EthernetBytes:n])
		return n
	}
	n := put()
	path, err := NewPath(netip.AddrPortFrom(src, 49152), netip.AddrPortFrom(dst, Port))
	if err != nil {
		b.Fatal(err)
	}
	b.Run("decode_frame_1024B_write", func(b *testing.B) {
		b.SetBytes(int64(len(payload)))
		b.ReportAllocs()
		for b.Loop() {
			var f Frame
			var q Packet
			if f.ParseEthernet(frame[:n]) != nil || !CheckICRC(f.IP) {
				b.Fatal("the frame is wrong")
			}
			if data, err := q.Decode(f.IB); err != nil || len(data) != len(payload) {
				b.Fatal(err)
			}
		}
	})
	b.Run("decode_datagram_1024B_write", func(b *testing.B) {
		b.SetBytes(int64(len(payload)))
		b.ReportAllocs()
		for b.Loop() {
			var q Packet
			data, err := q.Decode(frame[42:n])
			if err != nil || len(data) != len(payload) || !path.CheckICRC(frame[42:n], 0) {
				b.Fatal(err)
			}
		}
	})
	b.Run("encode_frame_1024B_write", func(b *testing.B) {
		b.SetBytes(int64(len(payload)))
		b.ReportAllocs()
		for b.Loop() {
			put()
		}
	})
	b.Run("headers_decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			var q Packet
			if _, err := q.DecodeHeaders(frame[42:]); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("headers_encode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p.Put(frame[42:])
		}
	})
}
