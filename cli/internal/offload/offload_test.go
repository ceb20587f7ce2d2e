package offload

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/roce"
)

// datagram is an Ethernet frame with one UDP datagram.
func datagram(six bool, payload []byte) []byte {
	b := make([]byte, 2000+len(payload))
	e := roce.EthernetFields{Dst: roce.MAC{2, 1}, Src: roce.MAC{2, 2}, EtherType: roce.EtherTypeIPv4}
	if six {
		e.EtherType = roce.EtherTypeIPv6
	}
	n := e.Put(b)
	ip := n
	udp := roce.UDPFields{SrcPort: 0xc123, DstPort: roce.Port, Len: roce.UDPBytes + len(payload)}
	if six {
		f := roce.IPv6Fields{PayloadLen: udp.Len, HopLimit: 64, Src: netip.MustParseAddr("fd00::1"), Dst: netip.MustParseAddr("fd00::2")}
		n += f.Put(b[n:])
	} else {
		f := roce.IPv4Fields{TotalLen: roce.IPv4Bytes + udp.Len, ID: 0xfffe, TTL: 64, DontFragment: true, Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2")}
		n += f.Put(b[n:])
	}
	at := n
	n += udp.Put(b[n:])
	n += copy(b[n:], payload)
	udp.Checksum = roce.UDPChecksum(b[ip:n])
	udp.Put(b[at:])
	return b[:n]
}

// What is left to do to a datagram is done to it, and gives what the sender would
// have sent without offload.
func TestFinish(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		six := rapid.Bool().Draw(t, "six")
		payload := rapid.SliceOfN(rapid.Byte(), 1, 5000).Draw(t, "payload")
		size := rapid.IntRange(0, 6000).Draw(t, "size")
		whole := datagram(six, payload)
		start := roce.EthernetBytes + roce.IPv4Bytes
		pseudo := whole[roce.EthernetBytes+12 : start]
		if six {
			start = roce.EthernetBytes + roce.IPv6Bytes
			pseudo = whole[roce.EthernetBytes+8 : start]
		}
		left := bytes.Clone(whole)
		binary.BigEndian.PutUint16(left[start+6:], roce.Fold(roce.Sum(17+uint64(len(whole)-start), pseudo)))
		h := Header{NeedsChecksum: true, Start: start, Offset: 6}
		var want [][]byte
		if size == 0 {
			want = append(want, whole)
		} else {
			h.GSO, h.Size = UDP, size
			for rest, id := payload, uint16(0xfffe); len(rest) > 0; id++ {
				n := min(size, len(rest))
				d := datagram(six, rest[:n])
				if !six {
					roce.IPv4(d[roce.EthernetBytes:]).SetID(id)
				}
				want, rest = append(want, d), rest[n:]
			}
		}
		var f Finisher
		var got [][]byte
		if err := f.Finish(left, &h, func(b []byte) { got = append(got, bytes.Clone(b)) }); err != nil {
			t.Fatal(err)
		}
		if len(got) != len(want) {
			t.Fatalf("%d frames, want %d", len(got), len(want))
		}
		for i := range got {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("frame %d is\n%x, want\n%x", i, got[i], want[i])
			}
		}
	})
}

// A TCP segment of two and a bit: sequence numbers go on, the flags that end and
// begin something stay at the end and the beginning, checksums are right.
func TestTCP(t *testing.T) {
	const mss, ip = 100, roce.EthernetBytes
	b := datagram(false, make([]byte, 12+250))
	b[ip+9] = 6
	tcp := b[ip+20:]
	for i := range tcp[20:] {
		tcp[20+i] = byte(i * 7)
	}
	binary.BigEndian.PutUint32(tcp[4:], 0xffffff80)
	tcp[12], tcp[13] = 5<<4, 0x80|0x08|0x01|0x10
	data := bytes.Clone(tcp[20:])
	var f Finisher
	var seq uint32 = 0xffffff80
	var got []byte
	n := 0
	err := f.Finish(b, &Header{NeedsChecksum: true, GSO: TCPv4, Size: mss, Start: ip + 20, Offset: 16}, func(s []byte) {
		l4 := s[ip+20:]
		if !roce.IPv4(s[ip:]).ChecksumOK() || roce.IPv4(s[ip:]).TotalLen() != len(s)-ip {
			t.Errorf("segment %d: IP header %x", n, s[ip:ip+20])
		}
		if c := roce.Fold(roce.Sum(roce.Sum(6+uint64(len(l4)), s[ip+12:ip+20]), l4)); c != 0xffff {
			t.Errorf("segment %d: the checksum adds up to %x", n, c)
		}
		if v := binary.BigEndian.Uint32(l4[4:]); v != seq {
			t.Errorf("segment %d: sequence number %x, want %x", n, v, seq)
		}
		want := byte(0x10)
		if n == 0 {
			want |= 0x80
		}
		if n == 2 {
			want |= 0x09
		}
		if l4[13] != want {
			t.Errorf("segment %d: flags %x, want %x", n, l4[13], want)
		}
		got = append(got, l4[20:]...)
		seq += uint32(len(l4) - 20)
		n++
	})
	if err != nil || n != 3 || !bytes.Equal(got, data) {
		t.Errorf("%d segments, %v; the data is whole: %v", n, err, bytes.Equal(got, data))
	}
}

func TestRefuses(t *testing.T) {
	whole := datagram(false, make([]byte, 100))
	for name, c := range map[string]struct {
		b []byte
		h Header
	}{
		"fragmentation offload": {whole, Header{GSO: 3, Size: 10, Start: 34}},
		"checksum behind":       {whole, Header{NeedsChecksum: true, Start: 60000, Offset: 6}},
		"no headers":            {whole[:10], Header{GSO: UDP, Size: 10, Start: 34}},
		"no IP":                 {make([]byte, 100), Header{GSO: UDP, Size: 10, Start: 34}},
		"start in the IP":       {whole, Header{GSO: UDP, Size: 10, Start: 20}},
		"start at the end":      {whole, Header{GSO: UDP, Size: 10, Start: len(whole)}},
		"TCP header too long":   {whole[:55], Header{GSO: TCPv4, Size: 10, Start: 34}},
	} {
		var f Finisher
		if err := f.Finish(bytes.Clone(c.b), &c.h, func([]byte) { t.Errorf("%s: a frame comes out", name) }); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Whatever comes, nothing panics, and segments are as long as they may be.
func FuzzFinish(f *testing.F) {
	f.Add(datagram(false, make([]byte, 300)), uint8(UDP), uint16(100), uint16(34), uint16(6), true)
	f.Add(datagram(true, make([]byte, 300)), uint8(TCPv6), uint16(100), uint16(54), uint16(16), true)
	f.Fuzz(func(t *testing.T, b []byte, gso uint8, size, start, offset uint16, needs bool) {
		var fin Finisher
		h := Header{NeedsChecksum: needs, GSO: gso, Size: int(size), Start: int(start), Offset: int(offset)}
		n := len(b)
		_ = fin.Finish(b, &h, func(s []byte) {
			if len(s) > n {
				t.Fatalf("a frame of %d bytes of one of %d", len(s), n)
			}
		})
	})
}

func TestNoAllocations(t *testing.T) {
	whole := datagram(false, make([]byte, 4000))
	var f Finisher
	n := 0
	emit := func([]byte) { n++ }
	h := Header{NeedsChecksum: true, GSO: UDP, Size: 1000, Start: 34, Offset: 6}
	if a := testing.AllocsPerRun(100, func() { _ = f.Finish(whole, &h, emit) }); a > 0 || n == 0 {
		t.Errorf("%v allocations a frame", a)
	}
}
