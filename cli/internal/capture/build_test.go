package capture

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

const fixture = "../../../roce/testdata/rxe.pcap"

func fixtureBytes(t testing.TB) []byte {
	t.Helper()
	b, err := os.ReadFile(fixture)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func recordsOf(t testing.TB, file []byte) []Record {
	t.Helper()
	r, err := NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	var out []Record
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, rec)
	}
}

func summaryOf(records []Record) *Report {
	s := NewSummary("pcap", false)
	for i := range records {
		s.Add(&records[i])
	}
	return s.Report()
}

func pcapOf(t testing.TB, records []Record) []byte {
	t.Helper()
	var b bytes.Buffer
	w := pcapgo.NewWriterNanos(&b)
	if err := w.WriteFileHeader(65536, records[0].Link); err != nil {
		t.Fatal(err)
	}
	for _, r := range records {
		if err := w.WritePacket(gopacket.CaptureInfo{Timestamp: r.Time, CaptureLength: len(r.Data), Length: r.Length}, r.Data); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// pcapngOf writes every record to an interface of its link type.
func pcapngOf(t testing.TB, records []Record) []byte {
	t.Helper()
	var b bytes.Buffer
	intf := pcapgo.DefaultNgInterface
	intf.LinkType = records[0].Link
	w, err := pcapgo.NewNgWriterInterface(&b, intf, pcapgo.DefaultNgWriterOptions)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[layers.LinkType]int{intf.LinkType: 0}
	for _, r := range records {
		id, ok := ids[r.Link]
		if !ok {
			intf.LinkType = r.Link
			if id, err = w.AddInterface(intf); err != nil {
				t.Fatal(err)
			}
			ids[r.Link] = id
		}
		info := gopacket.CaptureInfo{Timestamp: r.Time, CaptureLength: len(r.Data), Length: r.Length, InterfaceIndex: id}
		if err := w.WritePacket(info, r.Data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zipped(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// tape is a capture in the making, a frame every 10 us.
type tape struct {
	records []Record
	now     time.Time
	v6      bool
	tos     uint8
}

const step = 10 * time.Microsecond

func newTape() *tape { return &tape{now: time.Unix(1_700_000_000, 0)} }

// Hosts of a tape.
const (
	hostA = 1
	hostB = 2
)

func (t *tape) addr(host byte) netip.Addr {
	if t.v6 {
		return netip.AddrFrom16([16]byte{0xfd, 15: host})
	}
	return netip.AddrFrom4([4]byte{10, 0, 0, host})
}

// send captures a packet from a host to the other.
func (t *tape) send(from byte, p roce.Packet, payload []byte) {
	p.PKey, p.Pad = roce.DefaultPKey, roce.Pad(len(payload))
	b := make([]byte, 8192)
	n := (&roce.EthernetFields{EtherType: map[bool]uint16{false: roce.EtherTypeIPv4, true: roce.EtherTypeIPv6}[t.v6]}).Put(b)
	start := n
	udp := roce.UDPBytes + roce.HeaderBytes(p.Opcode) + len(payload) + int(p.Pad) + roce.ICRCBytes
	src, dst := t.addr(from), t.addr(hostA+hostB-from)
	if t.v6 {
		n += (&roce.IPv6Fields{TrafficClass: t.tos, PayloadLen: udp, HopLimit: 64, Src: src, Dst: dst}).Put(b[n:])
	} else {
		n += (&roce.IPv4Fields{TOS: t.tos, TotalLen: roce.IPv4Bytes + udp, DontFragment: true, TTL: 64, Src: src, Dst: dst}).Put(b[n:])
	}
	n += (&roce.UDPFields{SrcPort: 49152, DstPort: roce.Port, Len: udp}).Put(b[n:])
	n += p.Put(b[n:])
	n += copy(b[n:], payload)
	n += roce.PutPad(b[n:], p.Pad) + roce.ICRCBytes
	roce.PutICRC(b[start:n])
	t.now = t.now.Add(step)
	t.records = append(t.records, Record{Number: len(t.records) + 1, Time: t.now, Link: layers.LinkTypeEthernet, Data: b[:n:n], Length: n})
}

// req sends a request of n bytes to a queue pair; ack says whether it asks for an
// acknowledgement.
func (t *tape) req(from byte, op ib.Opcode, qp, psn uint32, n int, ack bool) {
	p := roce.Packet{Header: rc.Header{Opcode: op, PSN: units.MakePSN(psn), AckReq: ack}, DestQP: qp}
	if !roce.HasPayload(op) {
		p.DMALen, n = uint32(n), 0
	}
	t.send(from, p, make([]byte, n))
}

// resp sends a response.
func (t *tape) resp(from byte, op ib.Opcode, qp, psn uint32, syndrome uint8, n int) {
	t.send(from, roce.Packet{Header: rc.Header{Opcode: op, PSN: units.MakePSN(psn), Syndrome: syndrome}, DestQP: qp}, make([]byte, n))
}

func (t *tape) ack(from byte, qp, psn uint32) {
	t.resp(from, ib.Acknowledge, qp, psn, rc.SyndromeUnlimited, 0)
}

// mad sends a CM message.
func (t *tape) mad(from byte, m interface {
	Put(b []byte, tid uint64) (roce.MAD, error)
}) {
	b, err := m.Put(make([]byte, roce.MADBytes), 7)
	if err != nil {
		panic(err)
	}
	t.send(from, roce.GSI(0, roce.DefaultPKey), b)
}

// bigEndian turns a little-endian pcap file with microseconds around.
func bigEndian(file []byte) []byte {
	b := bytes.Clone(file)
	turn := func(at, size int) {
		for i, j := at, at+size-1; i < j; i, j = i+1, j-1 {
			b[i], b[j] = b[j], b[i]
		}
	}
	for _, f := range [][2]int{{0, 4}, {4, 2}, {6, 2}, {8, 4}, {12, 4}, {16, 4}, {20, 4}} {
		turn(f[0], f[1])
	}
	for at := 24; at < len(b); {
		n := int(binary.LittleEndian.Uint32(b[at+8:]))
		for i := range 4 {
			turn(at+4*i, 4)
		}
		at += 16 + n
	}
	return b
}
