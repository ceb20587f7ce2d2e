package capture

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/gopacket/gopacket/layers"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
)

// joined makes one frame of a tape's, as segmentation offload leaves them: one IP and UDP
// header for all. Each packet's ICRC is that of the packet as the interface cuts it, whose
// identification rises by step.
func joined(tp *tape, step int) Record {
	start := roce.EthernetBytes + roce.IPv4Bytes
	if tp.v6 {
		start = roce.EthernetBytes + roce.IPv6Bytes
	}
	first := tp.records[0]
	all := bytes.Clone(first.Data[:start+roce.UDPBytes])
	for k, r := range tp.records {
		ip := r.Data[roce.EthernetBytes:]
		if !tp.v6 {
			binary.BigEndian.PutUint16(ip[4:], uint16(7+k*step))
			roce.PutICRC(ip)
		}
		all = append(all, r.Data[start+roce.UDPBytes:]...)
	}
	ip, udp := all[roce.EthernetBytes:], all[start:]
	binary.BigEndian.PutUint16(udp[4:], uint16(len(udp)))
	if tp.v6 {
		binary.BigEndian.PutUint16(ip[4:], uint16(len(udp)))
	} else {
		binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
		binary.BigEndian.PutUint16(ip[4:], 7)
		checksum(ip)
	}
	return Record{Number: 1, Time: first.Time, Link: layers.LinkTypeEthernet, Data: all, Length: len(all)}
}

func checksum(ip []byte) {
	binary.BigEndian.PutUint16(ip[10:], 0)
	binary.BigEndian.PutUint16(ip[10:], ^roce.Fold(roce.Sum(0, ip[:roce.IPv4Bytes])))
}

// relinked gives a record of Ethernet another link.
func relinked(r Record, link string) Record {
	ip, kind := r.Data[roce.EthernetBytes:], r.Data[12:14]
	var head []byte
	switch link {
	case "ethernet":
		return r
	case "vlan":
		head = append(append(bytes.Clone(r.Data[:12]), 0x81, 0, 0x60, 5), kind...)
	case "sll":
		head, r.Link = append(make([]byte, 14), kind...), layers.LinkTypeLinuxSLL
	case "sll2":
		head, r.Link = append(bytes.Clone(kind), make([]byte, 18)...), layers.LinkTypeLinuxSLL2
	case "raw":
		r.Link = layers.LinkTypeRaw
	}
	r.Data = append(head, ip...)
	r.Length = len(r.Data)
	return r
}

// write is a message of n packets of 1024 bytes and a last, shorter one.
func write(v6 bool, n int) *tape {
	tp := newTape()
	tp.v6 = v6
	tp.req(hostA, ib.WriteFirst, 0x11, 5, 1024, false)
	for i := range n - 2 {
		tp.req(hostA, ib.WriteMiddle, 0x11, uint32(6+i), 1024, false)
	}
	tp.req(hostA, ib.WriteLast, 0x11, uint32(4+n), 100, true)
	// WRITE First has 16 bytes more than Middle: as long as them in packets of one length.
	tp.records[0].Data = shorten(tp.records[0].Data, v6)
	return tp
}

// shorten takes the RETH's 16 bytes off a packet's payload.
func shorten(b []byte, v6 bool) []byte {
	b = bytes.Clone(b[:len(b)-16])
	ip := b[roce.EthernetBytes:]
	if v6 {
		binary.BigEndian.PutUint16(ip[4:], uint16(len(ip)-roce.IPv6Bytes))
		binary.BigEndian.PutUint16(ip[roce.IPv6Bytes+4:], uint16(len(ip)-roce.IPv6Bytes))
	} else {
		binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)))
		binary.BigEndian.PutUint16(ip[roce.IPv4Bytes+4:], uint16(len(ip)-roce.IPv4Bytes))
		checksum(ip)
	}
	roce.PutICRC(ip)
	return b
}

// What segmentation offload leaves together is split and each packet checked, whatever
// link and file it is captured from.
func TestSuperPackets(t *testing.T) {
	for _, link := range []string{"ethernet", "vlan", "sll", "sll2", "raw"} {
		for _, v6 := range []bool{false, true} {
			for step := range 2 {
				t.Run(fmt.Sprintf("%s v6=%v step %d", link, v6, step), func(t *testing.T) {
					rec := relinked(joined(write(v6, 8), step), link)
					for what, file := range map[string][]byte{"pcap": pcapOf(t, []Record{rec}), "pcapng": pcapngOf(t, []Record{rec})} {
						r, err := Summarize(bytes.NewReader(file))
						if err != nil {
							t.Fatal(err)
						}
						if r.GoodICRCs != 8 || r.BadICRCs != 0 || r.RoCE != 8 || r.SplitFrames != 1 || r.Frames != 1 || len(r.Faults) > 0 {
							t.Errorf("%s: %+v", what, r)
						}
						if d := r.Connections[0].AToB; d.Packets != 8 || d.Messages.Write != 1 {
							t.Errorf("%s: %+v", what, d)
						}
					}
				})
			}
		}
	}
}

// Packets without payload, and several whole messages, are put together too.
func TestSuperPacketsOfOneKind(t *testing.T) {
	acks, sends := newTape(), newTape()
	for i := range 5 {
		acks.ack(hostB, 0x12, uint32(i))
		sends.req(hostA, ib.SendOnly, 0x11, uint32(i), 36, true)
	}
	for what, tp := range map[string]*tape{"acks": acks, "sends": sends} {
		r := summaryOf([]Record{joined(tp, 1)})
		if r.GoodICRCs != 5 || r.BadICRCs != 0 || len(r.Malformed) != 0 || r.SplitFrames != 1 {
			t.Errorf("%s: %+v", what, r)
		}
	}
}

// One packet of several that is corrupt is one that is corrupt.
func TestACorruptPacketAmongSeveral(t *testing.T) {
	rec := joined(write(false, 8), 1)
	rec.Data[len(rec.Data)-400] ^= 1
	if r := summaryOf([]Record{rec}); r.GoodICRCs != 7 || r.BadICRCs != 1 || len(r.Faults) != 1 {
		t.Errorf("%+v", r)
	}
}

// What can't be checked is not called corrupt.
func TestNotChecked(t *testing.T) {
	rec := joined(write(false, 8), 1)
	for i := range rec.Data[roce.EthernetBytes+roce.IPv4Bytes+roce.UDPBytes+60:] { // all packets are
		rec.Data[roce.EthernetBytes+roce.IPv4Bytes+roce.UDPBytes+60+i] ^= 0x55
	}
	cut := joined(write(false, 8), 1)
	cut.Data = cut.Data[:96]
	acks := newTape()
	for i := range 20 {
		acks.ack(hostB, 0x12, uint32(i))
	}
	cutAcks := joined(acks, 1)
	cutAcks.Data = cutAcks.Data[:96]
	r := summaryOf([]Record{rec, cut, cutAcks})
	if r.BadICRCs != 0 || r.UncheckedOffload != 1 || r.UncheckedICRC != 2 || r.RoCE != 3 || len(r.Faults) > 0 {
		t.Errorf("%+v", r)
	}
	var b strings.Builder
	if err := r.WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"not checked: segmentation offload: 1 packets", "not checked: cut off by the capture's snap length: 2 packets"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in:\n%s", want, &b)
		}
	}
}

// What the network numbered in no order and a receiver put together has lost its
// numbers, and with them its ICRCs.
func TestLostIdentification(t *testing.T) {
	if r := summaryOf([]Record{joined(write(false, 8), 5)}); r.GoodICRCs != 1 || r.UncheckedOffload != 7 || r.BadICRCs != 0 || len(r.Faults) > 0 {
		t.Errorf("%+v", r)
	}
	if r := summaryOf([]Record{joined(write(true, 8), 5)}); r.GoodICRCs != 8 {
		t.Errorf("IPv6 has none: %+v", r)
	}
}

// A sender may leave the IP header's checksum to its interface.
func TestIPChecksumLeftToTheInterface(t *testing.T) {
	for _, link := range []string{"ethernet", "vlan", "sll", "sll2", "raw"} {
		tp := newTape()
		tp.ack(hostB, 0x12, 1)
		rec := relinked(tp.records[0], link)
		ip := rec.Data[len(rec.Data)-len(tp.records[0].Data)+roce.EthernetBytes:]
		ip[10], ip[11] = 0, 0
		if r := summaryOf([]Record{rec}); r.GoodICRCs != 1 || len(r.Faults) > 0 {
			t.Errorf("%s: %+v", link, r)
		}
		ip[10] = 1
		if r := summaryOf([]Record{rec}); r.GoodICRCs != 0 || len(r.Faults) != 1 {
			t.Errorf("%s: a wrong checksum is taken: %+v", link, r)
		}
	}
}

func TestSplittingAllocatesNothing(t *testing.T) {
	rec := joined(write(false, 8), 1)
	var f roce.Frame
	if err := parse(&f, &rec); err != nil {
		t.Fatal(err)
	}
	var s splitter
	if n := testing.AllocsPerRun(100, func() {
		if !s.cut(&f) {
			t.Fatal("not split")
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
