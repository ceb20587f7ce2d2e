package roce

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"pgregory.net/rapid"
)

// What gopacket writes, with lengths and checksums of its own reckoning, is what the
// Fields here write, and Frame finds in it what was put in.
func TestHeadersAgainstGopacket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v6, tagged := rapid.Bool().Draw(t, "v6"), rapid.Bool().Draw(t, "tagged")
		withSum := rapid.Bool().Draw(t, "checksum")
		src, dst := genAddr(t, v6), genAddr(t, v6)
		payload := genBytes(t, 0, 90)
		ether := EthernetFields{Dst: MAC(genBytes(t, 6, 6)), Src: MAC(genBytes(t, 6, 6)), EtherType: EtherTypeIPv4, Tagged: tagged}
		if tagged {
			ether.Tag = rapid.Uint16().Draw(t, "tag")
		}
		udp := UDPFields{SrcPort: rapid.Uint16().Draw(t, "sport"), DstPort: Port, Len: UDPBytes + len(payload)}
		tos, ttl := rapid.Uint8().Draw(t, "tos"), rapid.Uint8().Draw(t, "ttl")

		theirs := []gopacket.SerializableLayer{&layers.Ethernet{DstMAC: ether.Dst[:], SrcMAC: ether.Src[:], EthernetType: layers.EthernetTypeIPv4}}
		inner := layers.EthernetTypeIPv4
		if v6 {
			ether.EtherType, inner = EtherTypeIPv6, layers.EthernetTypeIPv6
			theirs[0].(*layers.Ethernet).EthernetType = inner
		}
		if tagged {
			theirs[0].(*layers.Ethernet).EthernetType = layers.EthernetTypeDot1Q
			theirs = append(theirs, &layers.Dot1Q{
				Priority: uint8(ether.Tag >> 13), DropEligible: ether.Tag>>12&1 != 0, VLANIdentifier: ether.Tag & 0xfff, Type: inner,
			})
		}
		theirUDP := &layers.UDP{SrcPort: layers.UDPPort(udp.SrcPort), DstPort: Port}
		b := make([]byte, 200)
		n := ether.Put(b)
		start := n
		if v6 {
			f := IPv6Fields{
				TrafficClass: tos, FlowLabel: rapid.Uint32Range(0, 1<<20-1).Draw(t, "label"),
				PayloadLen: udp.Len, HopLimit: ttl, Src: src, Dst: dst,
			}
			n += f.Put(b[n:])
			ip := &layers.IPv6{
				Version: 6, TrafficClass: tos, FlowLabel: f.FlowLabel, NextHeader: layers.IPProtocolUDP, HopLimit: ttl,
				SrcIP: net.IP(src.AsSlice()), DstIP: net.IP(dst.AsSlice()),
			}
			if err := theirUDP.SetNetworkLayerForChecksum(ip); err != nil {
				t.Fatal(err)
			}
			theirs = append(theirs, ip)
		} else {
			f := IPv4Fields{
				TOS: tos, TotalLen: IPv4Bytes + udp.Len, ID: rapid.Uint16().Draw(t, "id"), DontFragment: rapid.Bool().Draw(t, "DF"),
				TTL: ttl, Src: src, Dst: dst,
			}
			n += f.Put(b[n:])
			ip := &layers.IPv4{
				Version: 4, TOS: tos, Id: f.ID, TTL: ttl, Protocol: layers.IPProtocolUDP,
				SrcIP: net.IP(src.AsSlice()), DstIP: net.IP(dst.AsSlice()),
			}
			if f.DontFragment {
				ip.Flags = layers.IPv4DontFragment
			}
			if err := theirUDP.SetNetworkLayerForChecksum(ip); err != nil {
				t.Fatal(err)
			}
			theirs = append(theirs, ip)
		}
		n += udp.Put(b[n:])
		n += copy(b[n:], payload)
		if withSum {
			ip := b[start:n]
			udp.Checksum = UDPChecksum(ip)
			udp.Put(b[n-len(payload)-UDPBytes:])
			if again := UDPChecksum(ip); again != udp.Checksum {
				t.Fatalf("checksum %#x, and %#x once it is in place", udp.Checksum, again)
			}
		}
		theirs = append(theirs, theirUDP, gopacket.Payload(payload))
		buffer := gopacket.NewSerializeBuffer()
		if err := gopacket.SerializeLayers(buffer, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, theirs...); err != nil {
			t.Fatal(err)
		}
		want := bytes.Clone(buffer.Bytes())
		if !withSum {
			sum := want[n-len(payload)-2:]
			sum[0], sum[1] = 0, 0
		}
		// gopacket pads to the 60 bytes that Ethernet wants.
		if !bytes.Equal(b[:n], want[:n]) {
			t.Fatalf("%x, gopacket writes\n%x", b[:n], want)
		}

		var f Frame
		if err := f.ParseEthernet(want); err != nil {
			t.Fatal(err)
		}
		if f.Src != src || f.Dst != dst || f.SrcPort != udp.SrcPort || f.TOS != tos || f.TTL != ttl || f.Tag != ether.Tag ||
			f.Len != len(payload) || !bytes.Equal(f.IB, payload) || len(f.IP) != n-start {
			t.Fatalf("found %+v", f)
		}
	})
}

// A second tag, and the fields that drivers change in place.
func TestViews(t *testing.T) {
	frame := frameOf(t, 10)
	double := append(append(bytes.Clone(frame[:12]), 0x88, 0xa8, 0, 7, 0x81, 0, 0x60, 9), frame[12:]...)
	var f, plain Frame
	if err := f.ParseEthernet(double); err != nil || f.Tag != 0x6009 {
		t.Fatalf("two tags: %v, tag %#x", err, f.Tag)
	}
	if err := plain.ParseEthernet(frame); err != nil || plain.Tag != 0 || !bytes.Equal(plain.IP, f.IP) {
		t.Fatalf("no tag: %v, %+v", err, plain)
	}
	if got := Ethernet(frame).Src().String(); got != "52:54:00:00:00:03" && got != "52:54:00:00:00:02" {
		t.Errorf("source %s", got)
	}

	ip := IPv4(bytes.Clone(plain.IP))
	ip.SetTOS(0x68 | ECNCE)
	ip.SetID(77)
	if !ip.ChecksumOK() || ip.TOS() != 0x6b || ip.ID() != 77 {
		t.Errorf("after SetTOS and SetID: %x", ip[:IPv4Bytes])
	}
	if err := f.ParseIP(ip); err != nil || f.ECN() != ECNCE {
		t.Errorf("ECN %d, %v", f.ECN(), err)
	}
	v6 := IPv6(make([]byte, IPv6Bytes))
	(&IPv6Fields{TrafficClass: 0xff, FlowLabel: 0xabcde, Src: netip.IPv6Loopback(), Dst: netip.IPv6Loopback()}).Put(v6)
	v6.SetTrafficClass(0x69)
	if v6.TrafficClass() != 0x69 || v6.FlowLabel() != 0xabcde || v6[0]>>4 != 6 {
		t.Errorf("after SetTrafficClass: %x", v6[:4])
	}
	h := BTH(bytes.Clone(plain.IB))
	h[4] |= 0x15
	h.SetFECN(true)
	h.SetBECN(true)
	h.SetFECN(false)
	if h.FECN() || !h.BECN() || h.Reserved6() != 0x15 || h.DestQP() != BTH(plain.IB).DestQP() {
		t.Errorf("after SetFECN and SetBECN: %x", h[:BTHBytes])
	}
}

// Each way in which a frame can be wrong has its name, and is told from a frame that
// is not RoCEv2.
func TestMalformedFrames(t *testing.T) {
	good := frameOf(t, 10)
	const ip, udp = EthernetBytes, EthernetBytes + IPv4Bytes
	fixSum := func(b []byte) { IPv4(b[ip:]).SetChecksum() }
	v6 := func() []byte {
		b := make([]byte, 200)
		n := (&EthernetFields{EtherType: EtherTypeIPv6}).Put(b)
		n += (&IPv6Fields{PayloadLen: UDPBytes + 16, Src: netip.IPv6Loopback(), Dst: netip.IPv6Loopback()}).Put(b[n:])
		n += (&UDPFields{DstPort: Port, Len: UDPBytes + 16}).Put(b[n:])
		return b[:n+16]
	}
	for name, c := range map[string]struct {
		frame  []byte
		change func(b []byte) []byte
		want   error
	}{
		"empty":             {good, func(b []byte) []byte { return b[:0] }, ErrNotRoCE},
		"addresses only":    {good, func(b []byte) []byte { return b[:13] }, ErrNotRoCE},
		"no IP":             {good, func(b []byte) []byte { return b[:ip] }, ErrNotRoCE},
		"half an IP header": {good, func(b []byte) []byte { return b[:ip+19] }, ErrNotRoCE},
		"half a UDP header": {good, func(b []byte) []byte { return b[:udp+7] }, ErrNotRoCE},
		"ends in a tag":     {good, func(b []byte) []byte { b[12], b[13] = 0x81, 0; return b[:16] }, ErrNotRoCE},
		"three tags": {good, func(b []byte) []byte {
			return append(append(bytes.Clone(b[:12]), bytes.Repeat([]byte{0x81, 0, 0, 1}, 3)...), b[12:]...)
		}, ErrNotRoCE},
		"ARP":                {good, func(b []byte) []byte { b[13] = 6; return b }, ErrNotRoCE},
		"IPv6 as IPv4":       {good, func(b []byte) []byte { b[ip] = 0x60; return b }, ErrNotRoCE},
		"TCP":                {good, func(b []byte) []byte { b[ip+9] = 6; return b }, ErrNotRoCE},
		"another port":       {good, func(b []byte) []byte { b[udp+3]++; return b }, ErrNotRoCE},
		"a later fragment":   {good, func(b []byte) []byte { b[ip+7] = 1; return b }, ErrNotRoCE},
		"first fragment":     {good, func(b []byte) []byte { b[ip+6] = 0x20; fixSum(b); return b }, IPFragment},
		"IPv4 checksum":      {good, func(b []byte) []byte { b[ip+8]--; return b }, BadIPChecksum},
		"IPv4 too short":     {good, func(b []byte) []byte { b[ip+2], b[ip+3] = 0, 27; fixSum(b); return b }, BadIPHeader},
		"IPv4 length":        {good, func(b []byte) []byte { b[ip+3]++; fixSum(b); return b }, BadUDPLength},
		"UDP length":         {good, func(b []byte) []byte { b[udp+5]--; return b }, BadUDPLength},
		"cut":                {good, func(b []byte) []byte { return b[:len(b)-1] }, Cut},
		"Ethernet's padding": {good, func(b []byte) []byte { return append(b, 0, 0) }, nil},
		"IPv4 options": {good, func(b []byte) []byte {
			b[ip] = 0x46
			return append(append(bytes.Clone(b[:udp]), 1, 1, 1, 1), b[udp:]...)
		}, BadIPHeader},
		"IPv6":              {v6(), func(b []byte) []byte { return b }, nil},
		"IPv6 cut":          {v6(), func(b []byte) []byte { return b[:len(b)-3] }, Cut},
		"IPv6 too short":    {v6(), func(b []byte) []byte { b[ip+5] = 7; return b }, BadIPHeader},
		"IPv6 length":       {v6(), func(b []byte) []byte { b[ip+5]--; return b }, BadUDPLength},
		"IPv6 hop-by-hop":   {v6(), func(b []byte) []byte { b[ip+6] = 0; return b }, ErrNotRoCE},
		"half an IPv6":      {v6(), func(b []byte) []byte { return b[:ip+39] }, ErrNotRoCE},
		"IPv4 as IPv6":      {v6(), func(b []byte) []byte { b[ip] = 0x45; return b }, ErrNotRoCE},
		"neither 4 nor 6":   {good, func(b []byte) []byte { b[ip] = 0x55; return b }, ErrNotRoCE},
		"header of 0 bytes": {good, func(b []byte) []byte { b[ip] = 0x40; copy(b[ip:], "\x40\x00\x12\xb7"); return b }, BadIPHeader},
	} {
		var f Frame
		if err := f.ParseEthernet(c.change(bytes.Clone(c.frame))); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	var f Frame
	if err := f.ParseIP(nil); !errors.Is(err, ErrNotRoCE) {
		t.Errorf("nothing: %v", err)
	}
	if err := f.ParseIP(bytes.Repeat([]byte{0x55}, 40)); !errors.Is(err, ErrNotRoCE) {
		t.Errorf("IP version 5: %v", err)
	}
	// A short snap length leaves the headers.
	if err := f.ParseEthernet(good[:60]); !errors.Is(err, Cut) || f.Len != len(good)-42 || len(f.IB) != 18 || !f.Src.IsValid() {
		t.Errorf("cut: %v, %+v", err, f)
	}
	keys := map[string]bool{}
	for m := Malformed(1); m < NumMalformed; m++ {
		if m.Key() == "" || keys[m.Key()] || m.Error() == "roce: " {
			t.Errorf("%d has no name of its own: %q, %q", m, m.Key(), m.Error())
		}
		keys[m.Key()] = true
	}
}

// The figures are worked out by hand from the rule that SrcPort and FlowLabel state.
func TestSourcePort(t *testing.T) {
	for label, want := range map[uint32]uint16{0: 0xc000, 0x3fff: 0xffff, 0x4000: 0xc001, 0xfffff: 0xffc0, 0xb44fc: 0xc4d1} {
		if got := SrcPort(label); got != want {
			t.Errorf("SrcPort(%#x) = %#x, want %#x", label, got, want)
		}
	}
	// 0x11 * 0x11 = 0x121; 0xffffff^2 = 0xfffffe000001, folded by 20 and 40 bits.
	v := uint64(0xfffffe000001)
	v ^= v >> 20
	v ^= v >> 40
	for _, c := range [][3]uint32{{0x11, 0x11, 0x121}, {3, 5, 15}, {0xffffff, 0xffffff, uint32(v & 0xfffff)}} {
		if got := FlowLabel(c[0], c[1]); got != c[2] || got != FlowLabel(c[1], c[0]) {
			t.Errorf("FlowLabel(%#x, %#x) = %#x, want %#x", c[0], c[1], got, c[2])
		}
	}
}
