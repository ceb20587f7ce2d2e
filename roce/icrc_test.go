package roce

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"net/netip"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce/rc"
)

// plainICRC is the rule as it is written down: a copy of the packet behind eight
// bytes of ones, masked.
func plainICRC(ip []byte) uint32 {
	b := append(bytes.Repeat([]byte{0xff}, 8), ip[:len(ip)-ICRCBytes]...)
	p := b[8:]
	udp := IPv4Bytes
	if p[0]>>4 == 6 {
		udp = IPv6Bytes
		p[0] |= 0x0f // traffic class, flow label
		p[1], p[2], p[3] = 0xff, 0xff, 0xff
		p[7] = 0xff // hop limit
	} else {
		p[1] = 0xff // TOS
		p[8] = 0xff // TTL
		p[10], p[11] = 0xff, 0xff
	}
	p[udp+6], p[udp+7] = 0xff, 0xff // checksum
	p[udp+UDPBytes+4] = 0xff        // FECN, BECN, reserved
	return crc32.ChecksumIEEE(b)
}

func TestICRCByTheRule(t *testing.T) {
	if got := ^crc32.ChecksumIEEE(bytes.Repeat([]byte{0xff}, 8)); got != icrcSeed {
		t.Fatalf("seed %#x, want %#x", uint32(icrcSeed), got)
	}
	rapid.Check(t, func(t *rapid.T) {
		ip := genIP(t)
		if got, want := ICRC(ip), plainICRC(ip); got != want {
			t.Fatalf("ICRC %#08x, by the rule %#08x", got, want)
		}
		if !CheckICRC(ip) {
			t.Fatal("PutICRC wrote what CheckICRC refuses")
		}
	})
}

// Published packets of other makers' NICs.
func TestICRCOfOthers(t *testing.T) {
	// A CNP captured on a ConnectX-4 Lx (in the tests of Scapy's RoCE layer).
	cnp, _ := hex.DecodeString("45c2003c718c4000401191610a0011010a001201" + "000012b700280000" +
		"8100ffff4000011800000000" + "00000000000000000000000000000000" + "82fd002a")
	var f Frame
	var p Packet
	if err := f.ParseIP(cnp); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Decode(f.IB); err != nil || p != CNP(0x118, DefaultPKey) || !CheckICRC(f.IP) {
		t.Errorf("CNP: %v, %+v, ICRC right: %v", err, p, CheckICRC(f.IP))
	}
	if got := encode(&p, nil); !bytes.Equal(got[:len(got)-4], f.IB[:len(f.IB)-4]) {
		t.Errorf("CNP encodes as %x", got)
	}

	// A UC SEND between ports of one NIC (ibid.): 20 bytes of payload, of which 2 are
	// pad, UDP checksum set.
	addr := netip.MustParseAddr("192.168.0.7")
	payload := []byte("F0\x81\x8b\xe2\x895\xd9\x0e\x9a\x95PT\x01\xbe\x88^P")
	p = Packet{Header: rc.Header{Opcode: ib.ServiceUC | ib.SendOnly, PSN: 13571856}, DestQP: 211, PKey: DefaultPKey, Migrated: true, Pad: Pad(len(payload))}
	b := make([]byte, 64)
	n := (&IPv4Fields{TOS: 1, TotalLen: 64, ID: 1144, DontFragment: true, TTL: 64, Src: addr, Dst: addr}).Put(b)
	n += (&UDPFields{SrcPort: 49152, DstPort: Port, Len: 44, Checksum: 0xaca2}).Put(b[n:])
	copy(b[n:], encode(&p, payload))
	if sum := IPv4(b).Checksum(); sum != 0xb4d5 {
		t.Errorf("IPv4 checksum %#x, want 0xb4d5", sum)
	}
	PutICRC(b)
	if got := hex.EncodeToString(b[60:]); got != "78f353f3" {
		t.Errorf("ICRC %s, want 78f353f3", got)
	}
}

// Every bit of a packet is covered except the masked ones, and those are exactly
// the ones that the specification names.
func TestICRCFindsEveryFlippedBit(t *testing.T) {
	for _, frame := range [][]byte{frameOf(t, ib.Acknowledge), frameOf(t, ib.WriteOnly)} {
		ip := bytes.Clone(frame[EthernetBytes:])
		free := map[int]bool{1: true, 8: true, 10: true, 11: true, 26: true, 27: true, 32: true}
		for i := range ip {
			for bit := range 8 {
				if i == 0 && bit >= 4 {
					continue // another IP version is no packet at all
				}
				ip[i] ^= 1 << bit
				if CheckICRC(ip) != free[i] {
					t.Errorf("bit %d of byte %d flipped: right %v", bit, i, !free[i])
				}
				ip[i] ^= 1 << bit
			}
		}
	}
}

func TestICRCOfTooLittle(t *testing.T) {
	for n := range minPacket6 {
		for _, version := range []byte{0x45, 0x60, 0x50} {
			b := make([]byte, n)
			if n > 0 {
				b[0] = version
			}
			if n < minPacket4 && (CheckICRC(b) || ICRC(b) != 0) {
				t.Errorf("%d bytes have an ICRC", n)
			}
		}
	}
	p, err := NewPath(netip.MustParseAddrPort("10.0.0.1:49152"), netip.MustParseAddrPort("10.0.0.2:4791"))
	if err != nil {
		t.Fatal(err)
	}
	short := make([]byte, 15)
	if _, ok := p.RecoverID(short, 0); ok || p.CheckICRC(short, 0) || p.ICRC(short, 0) != 0 {
		t.Error("15 bytes have an ICRC")
	}
	for _, c := range [][2]string{{"10.0.0.1:1", "[::1]:1"}, {"[::1]:1", "10.0.0.1:1"}} {
		if _, err := NewPath(netip.MustParseAddrPort(c[0]), netip.MustParseAddrPort(c[1])); err == nil {
			t.Errorf("a path from %s to %s", c[0], c[1])
		}
	}
	if _, err := NewPath(netip.AddrPort{}, netip.AddrPort{}); err == nil {
		t.Error("a path from nowhere to nowhere")
	}
}

// A Path gives the ICRC that the packet itself gives.
func TestPathAgreesWithPacket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ip := genIP(t)
		var f Frame
		if ip[0]>>4 == 4 {
			ip[6], ip[7] = 0x40, 0 // DF, as a Path assumes
			IPv4(ip).SetChecksum()
			PutICRC(ip)
		}
		if err := f.ParseIP(ip); err != nil {
			t.Fatal(err)
		}
		src, dst := f.Src, f.Dst
		if src.Is4() && rapid.Bool().Draw(t, "mapped") {
			src, dst = netip.AddrFrom16(src.As16()), netip.AddrFrom16(dst.As16())
		}
		if src.Unmap().Is4() != dst.Unmap().Is4() || src.Is4In6() && ip[0]>>4 == 6 {
			t.Skip("an IPv6 packet between mapped addresses")
		}
		path, err := NewPath(netip.AddrPortFrom(src, f.SrcPort), netip.AddrPortFrom(dst, Port))
		if err != nil {
			t.Fatal(err)
		}
		var id uint16
		if ip[0]>>4 == 4 {
			id = IPv4(ip).ID()
		}
		if !path.CheckICRC(f.IB, id) {
			t.Fatalf("path: %#x, packet: %#x", path.ICRC(f.IB, id), ICRC(ip))
		}
		if got, ok := path.RecoverID(f.IB, 0); !ok || got != id {
			t.Fatalf("identification %d, %v; want %d", got, ok, id)
		}
		likely := rapid.OneOf(rapid.Just(id), rapid.Uint16()).Draw(t, "likely")
		if got, ok := path.RecoverID(f.IB, likely); !ok || got != id {
			t.Fatalf("identification %d, %v, with %d the likely one; want %d", got, ok, likely, id)
		}
		// In three parts: the first by itself, the second copied, the third where it is.
		end := len(f.IB) - ICRCBytes
		i := rapid.IntRange(BTHBytes, end).Draw(t, "first part")
		j := rapid.IntRange(i, end).Draw(t, "second part")
		parts := bytes.Clone(f.IB)
		clear(parts[i:j])
		clear(parts[end:])
		path.BeginICRC(parts[:i], len(parts), id).Copy(parts[i:], f.IB[i:j]).Add(parts[j:end]).Put(parts[end:])
		if !bytes.Equal(parts, f.IB) {
			t.Fatal("the ICRC in parts differs from the packet's")
		}
		again := bytes.Clone(f.IB)
		clear(again[len(again)-ICRCBytes:])
		path.PutICRC(again, id)
		if !bytes.Equal(again, f.IB) {
			t.Fatal("PutICRC differs from the packet's ICRC")
		}
	})
}

// A Path remembers what packets of one length have in common. It gives the ICRC that a new
// one gives whatever it has seen before.
func TestPathOfManyPackets(t *testing.T) {
	for name, ends := range map[string][2]string{"IPv4": {"10.0.0.1:49152", "10.0.0.2:4791"}, "IPv6": {"[fe80::1]:49152", "[fe80::2]:4791"}} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				src, dst := netip.MustParseAddrPort(ends[0]), netip.MustParseAddrPort(ends[1])
				used, err := NewPath(src, dst)
				if err != nil {
					t.Fatal(err)
				}
				for range rapid.IntRange(1, 10).Draw(t, "packets") {
					b := genBytes(t, BTHBytes+ICRCBytes, BTHBytes+ICRCBytes+2)
					id := rapid.OneOf(rapid.Uint16Range(0, 70), rapid.Uint16()).Draw(t, "id")
					fresh, _ := NewPath(src, dst)
					if got, want := used.ICRC(b, id), fresh.ICRC(b, id); got != want {
						t.Fatalf("%d bytes with identification %d: expected %#x, got %#x", len(b), id, want, got)
					}
				}
			})
		})
	}
}

// soft-RoCE's packets, seen as behind a UDP socket: their identification is what
// makes the ICRC right. Of packets with an error nearly all are found; at most
// one of 2^16 would pass.
func TestRecoverIDOfSoftRoCE(t *testing.T) {
	wrong := 0
	for _, frame := range roceFrames(t) {
		var f Frame
		if err := f.ParseEthernet(frame); err != nil {
			t.Fatal(err)
		}
		path, err := NewPath(netip.AddrPortFrom(f.Src, f.SrcPort), netip.AddrPortFrom(f.Dst, Port))
		if err != nil {
			t.Fatal(err)
		}
		want := IPv4(f.IP).ID()
		if id, ok := path.RecoverID(f.IB, 0); !ok || id != want || want == 0 {
			t.Errorf("identification %d, %v; want %d", id, ok, want)
		}
		if path.CheckICRC(f.IB, 0) {
			t.Error("right with identification 0")
		}
		for i := range f.IB {
			b := bytes.Clone(f.IB)
			b[i] ^= 0x10
			if _, ok := path.RecoverID(b, 0); ok && i != 4 {
				wrong++
			}
		}
	}
	// Deterministic: the flips above are some 24000, so 1 would be no surprise.
	if wrong > 2 {
		t.Errorf("%d wrong packets pass", wrong)
	}
}

// back undoes zero bytes.
func TestBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		state := rapid.Uint32().Draw(t, "state")
		n := rapid.IntRange(0, 5000).Draw(t, "bytes")
		after := state
		for range n {
			after = crc32.IEEETable[byte(after)] ^ after>>8
		}
		if got := mulMod(back(n), after); got != state {
			t.Fatalf("%#x comes back as %#x after %d bytes", state, got, n)
		}
	})
}

func BenchmarkICRC(b *testing.B) {
	p := Packet{Header: rc.Header{Opcode: ib.WriteMiddle}}
	body := encode(&p, make([]byte, 1024))
	src, dst := netip.MustParseAddrPort("10.0.0.1:49152"), netip.MustParseAddrPort("10.0.0.2:4791")
	path, err := NewPath(src, dst)
	if err != nil {
		b.Fatal(err)
	}
	path.PutICRC(body, 4242)
	b.Run("path", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			path.PutICRC(body, 4242)
		}
	})
	b.Run("recover", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, ok := path.RecoverID(body, 0); !ok {
				b.Fatal("wrong ICRC")
			}
		}
	})
	b.Run("crc32_alone", func(b *testing.B) { // the floor: the same bytes in one call
		b.ReportAllocs()
		var sum uint32
		for b.Loop() {
			sum += crc32.ChecksumIEEE(body)
		}
		binary.LittleEndian.PutUint32(body, sum)
	})
}
