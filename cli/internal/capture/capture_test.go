package capture

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/gopacket/gopacket/layers"
	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// The rping run in the fixture, counted by hand: the client (10.77.0.3) sends the
// addresses of its buffers, the server reads and writes them, three times.
func TestRping(t *testing.T) {
	report, err := Summarize(bytes.NewReader(fixtureBytes(t)))
	if err != nil {
		t.Fatal(err)
	}
	if report.Frames != 76 || report.RoCE != 69 || report.GoodICRCs != 69 || report.BadICRCs != 0 || report.OtherFrames != 7 ||
		len(report.Malformed) != 0 || len(report.Faults) != 0 || report.Format != "pcap" || report.Gzipped {
		t.Errorf("%+v", report)
	}
	report.OnlyQP(0x16)
	if len(report.Connections) != 1 {
		t.Fatalf("%d connections with QP 0x16", len(report.Connections))
	}
	c := report.Connections[0]
	if c.Service != "RC" || c.A.IP.String() != "10.77.0.3" || *c.A.QP != 0x16 || c.B.IP.String() != "10.77.0.2" || *c.B.QP != 0x16 ||
		c.ServiceID != "0x0000000001061c06" || c.FirstFrame != 36 {
		t.Errorf("%+v", c)
	}
	if want := (Messages{Send: 6}); c.AToB.Messages != want {
		t.Errorf("client: %+v", c.AToB.Messages)
	}
	if want := (Messages{Send: 6, Read: 3, Write: 3}); c.BToA.Messages != want {
		t.Errorf("server: %+v", c.BToA.Messages)
	}
	// The client's data are 6 SENDs of 16 bytes and 3 READ responses of 64.
	if c.AToB.PayloadBytes != 6*16+3*64 || c.BToA.PayloadBytes != 6*16+3*64 || c.AToB.Acks != 9 || c.BToA.Acks != 6 || c.AToB.Packets != 18 {
		t.Errorf("client %+v\nserver %+v", c.AToB, c.BToA)
	}
	// The first SEND left at .937387, its ACK came at .941049; it was the slowest.
	if r := c.AToB.RTT; r == nil || r.Samples != 6 || r.MaxUS != 3662 || r.MinUS > r.AvgUS || r.AvgUS > r.MaxUS {
		t.Errorf("client's RTT %+v", r)
	}
	if r := c.BToA.RTT; r == nil || r.Samples != 12 {
		t.Errorf("server's RTT %+v", r)
	}
}

func TestGSIConnection(t *testing.T) {
	report, err := Summarize(bytes.NewReader(fixtureBytes(t)))
	if err != nil {
		t.Fatal(err)
	}
	report.OnlyQP(1)
	if len(report.Connections) != 1 {
		t.Fatalf("%d connections with QP 1", len(report.Connections))
	}
	c := report.Connections[0]
	want := [2]map[string]int64{{"REQ": 1, "RTU": 1, "DREQ": 1}, {"REP": 1, "DREP": 1}}
	if diff := cmp.Diff(want, [2]map[string]int64{c.AToB.CM, c.BToA.CM}); diff != "" || c.Service != "UD" || *c.A.QP != 1 {
		t.Errorf("%+v: %s", c, diff)
	}
}

// The whole capture, where it is. The counts of packets sent again are those of a
// separate count of PSNs that occur twice.
func TestWholeCapture(t *testing.T) {
	name := os.Getenv("SLUICE_RXE_CAPTURE")
	if name == "" {
		name = filepath.FromSlash("../../../../shared/data/rxe/basic.pcap.gz")
	}
	file, err := os.Open(name)
	if err != nil {
		t.Skipf("the whole capture is not here (%v): set SLUICE_RXE_CAPTURE to its name", err)
	}
	defer file.Close()
	report, err := Summarize(file)
	if err != nil {
		t.Fatal(err)
	}
	if report.Frames != 1108 || report.RoCE != 847 || report.GoodICRCs != 847 || report.BadICRCs+report.UncheckedICRC != 0 || !report.Gzipped {
		t.Errorf("%d frames, %d RoCEv2, %d good and %d bad ICRCs", report.Frames, report.RoCE, report.GoodICRCs, report.BadICRCs)
	}
	var messages, again []int64
	for _, c := range report.Connections {
		if c.Service == "RC" && (c.A.QP == nil || c.B.QP == nil) {
			t.Errorf("an end of %+v is not known", c)
		}
		m := c.AToB.Messages
		messages = append(messages, m.Send+m.Write+m.Read+m.CompareSwap+m.FetchAdd)
		again = append(again, c.AToB.RetransmittedPackets, c.BToA.RetransmittedPackets)
	}
	// perftest's write, read, send, fetch and add, compare and swap; CM; rping; write
	// latency; UD send.
	if diff := cmp.Diff([]int64{20, 20, 20, 20, 20, 3, 6, 50, 20}, messages); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int64{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 31, 2, 0, 0}, again); diff != "" {
		t.Error(diff)
	}
}

// One flipped bit anywhere behind the UDP header of any packet is found, save in the
// byte that the ICRC does not cover.
func TestFlippedBit(t *testing.T) {
	records := recordsOf(t, fixtureBytes(t))
	rapid.Check(t, func(t *rapid.T) {
		i := rapid.IntRange(0, len(records)-1).Draw(t, "frame")
		rec := records[i]
		var f roce.Frame
		if f.ParseEthernet(rec.Data) != nil {
			return
		}
		const ib = roce.EthernetBytes + roce.IPv4Bytes + roce.UDPBytes
		at := rapid.IntRange(ib, len(rec.Data)-1).Draw(t, "byte")
		if at == ib+4 {
			at++
		}
		broken := append([]Record(nil), records...)
		broken[i].Data = bytes.Clone(rec.Data)
		broken[i].Data[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		report := summaryOf(broken)
		malformed := int64(0)
		for _, n := range report.Malformed {
			malformed += n
		}
		if report.BadICRCs+malformed != 1 || report.GoodICRCs != 68 || len(report.Faults) != 1 || report.Faults[0].Frame != i+1 {
			t.Fatalf("frame %d, byte %d: %d bad, %d malformed, faults %v", i+1, at, report.BadICRCs, malformed, report.Faults)
		}
	})
}

// The same frames give the same report in whatever file they come.
func TestFormats(t *testing.T) {
	file := fixtureBytes(t)
	want, err := Summarize(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	records := recordsOf(t, file)
	for name, c := range map[string]struct {
		file    []byte
		format  string
		gzipped bool
	}{
		"gzipped":            {zipped(t, file), "pcap", true},
		"big-endian":         {bigEndian(file), "pcap", false},
		"nanoseconds":        {pcapOf(t, records), "pcap", false},
		"pcapng":             {pcapngOf(t, records), "pcapng", false},
		"pcapng, gzipped":    {zipped(t, pcapngOf(t, records)), "pcapng", true},
		"two gzip members":   {append(zipped(t, file[:1000]), zipped(t, file[1000:])...), "pcap", true},
		"two pcapng in one":  {append(pcapngOf(t, records[:30]), pcapngOf(t, records[30:])...), "pcapng", false},
		"pcapng, mixed link": {pcapngOf(t, mixed(records)), "pcapng", false},
	} {
		got, err := Summarize(bytes.NewReader(c.file))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got.Format != c.format || got.Gzipped != c.gzipped {
			t.Errorf("%s: read as %s, gzipped %v", name, got.Format, got.Gzipped)
		}
		if diff := cmp.Diff(want, got, reportOptions...); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

var reportOptions = []cmp.Option{
	cmpopts.IgnoreFields(Report{}, "Format", "Gzipped"), cmpopts.IgnoreUnexported(RTT{}), cmpopts.EquateComparable(Endpoint{}.IP),
	cmpopts.EquateApprox(0, 1e-9), // of the seconds
}

// mixed turns every third frame to raw IP. Lengths stay, so that the reports compare.
func mixed(records []Record) []Record {
	out := append([]Record(nil), records...)
	for i := range out {
		if i%3 == 1 && out[i].Data[12] == 8 && out[i].Data[13] == 0 {
			out[i].Link, out[i].Data = layers.LinkTypeRaw, out[i].Data[roce.EthernetBytes:]
		}
	}
	return out
}

// Packets are found behind whatever a capture puts before them.
func TestLinks(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		tp := newTape()
		tp.v6 = v6
		tp.req(hostA, ib.WriteOnly, 0x22, 5, 64, true)
		frame := tp.records[0].Data
		ip, etherType := frame[roce.EthernetBytes:], frame[12:14]
		tag := []byte{0x81, 0, 0x60, 5}
		join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
		for name, c := range map[string]struct {
			link layers.LinkType
			data []byte
			roce int64
		}{
			"Ethernet":       {layers.LinkTypeEthernet, frame, 1},
			"VLAN":           {layers.LinkTypeEthernet, join(frame[:12], tag, frame[12:]), 1},
			"two VLANs":      {layers.LinkTypeEthernet, join(frame[:12], []byte{0x88, 0xa8, 0, 1}, tag, frame[12:]), 1},
			"raw":            {layers.LinkTypeRaw, ip, 1},
			"raw, 12":        {12, ip, 1},
			"IPv4 or IPv6":   {map[bool]layers.LinkType{false: layers.LinkTypeIPv4, true: layers.LinkTypeIPv6}[v6], ip, 1},
			"null":           {layers.LinkTypeNull, join([]byte{2, 0, 0, 0}, ip), 1},
			"cooked":         {layers.LinkTypeLinuxSLL, join(make([]byte, 14), etherType, ip), 1},
			"cooked, VLAN":   {layers.LinkTypeLinuxSLL, join(make([]byte, 14), tag, etherType, ip), 1},
			"cooked 2":       {layers.LinkTypeLinuxSLL2, join(etherType, make([]byte, 18), ip), 1},
			"cooked ARP":     {layers.LinkTypeLinuxSLL, join(make([]byte, 14), []byte{8, 6}, ip), 0},
			"cooked, short":  {layers.LinkTypeLinuxSLL, make([]byte, 15), 0},
			"cooked 2 short": {layers.LinkTypeLinuxSLL2, nil, 0},
			"null, short":    {layers.LinkTypeNull, []byte{2}, 0},
			"nothing":        {layers.LinkTypeRaw, nil, 0},
		} {
			report := summaryOf([]Record{{Number: 1, Link: c.link, Data: c.data, Length: len(c.data)}})
			if report.RoCE != c.roce || report.GoodICRCs != c.roce || report.OtherFrames != 1-c.roce {
				t.Errorf("%s, IPv6 %v: %+v", name, v6, report)
			}
		}
	}
	report := summaryOf([]Record{{Number: 1, Link: layers.LinkTypeIEEE802_11, Data: make([]byte, 99), Length: 99}})
	if report.UnsupportedLinks != 1 || report.OtherFrames != 0 {
		t.Errorf("802.11: %+v", report)
	}
}

// A file that breaks off anywhere gives an error and the frames before it.
func TestTruncated(t *testing.T) {
	file := fixtureBytes(t)
	for name, file := range map[string][]byte{"pcap": file[:4000], "pcapng": pcapngOf(t, recordsOf(t, file)[:8])} {
		ends := map[int]bool{}
		for n := range file {
			report, err := Summarize(bytes.NewReader(file[:n]))
			switch {
			case report == nil && errors.Is(err, ErrNotCapture):
				if len(ends) > 0 {
					t.Fatalf("%s of %d bytes: %v", name, n, err)
				}
			case err == nil:
				ends[n] = true
			case !errors.Is(err, ErrDamaged):
				t.Fatalf("%s of %d bytes: %v", name, n, err)
			default:
				// A block without a frame may end the file, and then no frame is lost.
				if lost := int64(len(ends)) - report.Frames; name == "pcap" && lost != 1 {
					t.Fatalf("%s of %d bytes: %d frames, %d complete", name, n, report.Frames, len(ends)-1)
				}
			}
		}
		if len(ends) < 5 {
			t.Errorf("%s: only %d lengths are whole captures", name, len(ends))
		}
	}
	// A compressed file that breaks off.
	packed := zipped(t, file)
	report, err := Summarize(bytes.NewReader(packed[:len(packed)/2]))
	if !errors.Is(err, ErrDamaged) || report.RoCE == 0 || report.RoCE >= 69 {
		t.Errorf("half a gzip file: %v, %+v", err, report)
	}
	// One whose end is wrong: all frames, and the error.
	packed[len(packed)-8] ^= 1
	report, err = Summarize(bytes.NewReader(packed))
	if !errors.Is(err, ErrDamaged) || report.Frames != 76 {
		t.Errorf("wrong checksum: %v", err)
	}
}

func TestNotCaptures(t *testing.T) {
	for want, file := range map[string]string{
		"not a packet capture: it is empty":                                       "",
		"not a packet capture: it has only 3 bytes":                               "abc",
		"not a packet capture: it begins with 68656c6c, and is neither":           "hello world",
		"not a packet capture: it begins as pcap does, but":                       "\xd4\xc3\xb2\xa1\x02",
		"not a packet capture: it begins as pcapng does, but":                     "\x0a\x0d\x0d\x0a\x00\x00",
		"not a packet capture: it begins as gzip does, but":                       "\x1f\x8b\x00\x00",
		"not a packet capture: reading its first bytes: ":                         "\x1f\x8b\x08" + strings.Repeat("\x00", 7) + "\xff",
		"not a packet capture: it begins with 61626364, and is neither pcap nor":  string(zipped(t, []byte("abcd"))),
		"not a packet capture: it begins as pcap does, but Unknown major version": "\xd4\xc3\xb2\xa1" + strings.Repeat("\x09", 20),
	} {
		report, err := Summarize(strings.NewReader(file))
		if report != nil || !errors.Is(err, ErrNotCapture) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", file, err, want)
		}
	}
	if _, err := NewReader(failing{}); !errors.Is(err, ErrNotCapture) || !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a reader that fails: %v", err)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrClosedPipe }

// A capture with a short snap length has its packets counted, and none checked.
func TestSnapLength(t *testing.T) {
	records := recordsOf(t, fixtureBytes(t))
	want := summaryOf(records)
	for i := range records {
		records[i].Data = records[i].Data[:min(96, len(records[i].Data))]
	}
	got := summaryOf(records)
	if got.RoCE != want.RoCE || got.UncheckedICRC == 0 || got.GoodICRCs+got.UncheckedICRC != 69 || len(got.Malformed) != 0 {
		t.Errorf("%+v", got)
	}
	ignoreCM := cmp.FilterPath(func(p cmp.Path) bool {
		return strings.HasSuffix(p.String(), "CM") || strings.HasSuffix(p.String(), "ServiceID")
	}, cmp.Ignore())
	// Without the CM messages rping's queue pairs are told by their ACKs, as the others.
	if diff := cmp.Diff(want.Connections, got.Connections, append(reportOptions, ignoreCM)...); diff != "" {
		t.Error(diff)
	}
	for i := range records {
		records[i].Data = records[i].Data[:min(60, len(records[i].Data))]
	}
	if got := summaryOf(records); got.Malformed["cut"] == 0 {
		t.Errorf("half a RETH: %+v", got)
	}
}

// What a sender and a receiver do to each other, on IPv4 and IPv6.
func TestConversation(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		tp := newTape()
		tp.v6 = v6
		const a, b = 0x10, 0x20 // queue pairs at hosts A and B
		psn := uint32(0xfffffe) // PSNs wrap around
		at := func(i uint32) uint32 { return (psn + i) & 0xffffff }
		// A writes three packets; the second is lost behind the capture.
		tp.req(hostA, ib.WriteFirst, b, at(0), 1024, false)
		tp.req(hostA, ib.WriteMiddle, b, at(1), 1024, false)
		tp.tos = roce.ECNCE
		tp.req(hostA, ib.WriteLast, b, at(2), 100, true)
		tp.tos = 0
		tp.resp(hostB, ib.Acknowledge, a, at(1), rc.SyndromeSequence, 0)
		tp.send(hostB, roce.CNP(a, 0), nil)
		tp.req(hostA, ib.WriteMiddle, b, at(1), 1024, false)
		tp.req(hostA, ib.WriteLast, b, at(2), 100, true)
		tp.ack(hostB, a, at(2))
		// A SEND that the receiver was not ready for, sent again.
		tp.req(hostA, ib.SendOnly, b, at(3), 10, true)
		tp.resp(hostB, ib.Acknowledge, a, at(3), rc.SyndromeRNR|5, 0)
		tp.req(hostA, ib.SendOnly, b, at(3), 10, true)
		tp.ack(hostB, a, at(3))
		// A READ of three packets, of which the last is lost before the capture.
		tp.req(hostA, ib.ReadRequest, b, at(4), 2500, true)
		tp.resp(hostB, ib.ReadResponseFirst, a, at(4), rc.SyndromeUnlimited, 1024)
		tp.resp(hostB, ib.ReadResponseMiddle, a, at(5), 0, 1024)
		tp.req(hostA, ib.ReadRequest, b, at(6), 452, true)
		tp.resp(hostB, ib.ReadResponseOnly, a, at(6), rc.SyndromeUnlimited, 452)
		// Atomics, and their responses out of order.
		tp.req(hostA, ib.FetchAdd, b, at(7), 0, true)
		tp.req(hostA, ib.CompareSwap, b, at(8), 0, true)
		tp.resp(hostB, ib.AtomicAcknowledge, a, at(8), rc.SyndromeUnlimited, 0)
		tp.resp(hostB, ib.AtomicAcknowledge, a, at(7), rc.SyndromeUnlimited, 0)
		// B sends back, and is refused in every way.
		tp.req(hostB, ib.SendOnlyInv, a, 50, 8, true)
		tp.ack(hostA, b, 50)
		tp.req(hostB, ib.WriteOnlyImm, a, 51, 8, true)
		for _, syndrome := range []uint8{rc.SyndromeInvalid, rc.SyndromeAccess, rc.SyndromeOperation, 0x64} {
			tp.resp(hostA, ib.Acknowledge, b, 51, syndrome, 0)
		}
		tp.req(hostA, ib.SendOnlyImm, b, at(9), 4, false)

		report := summaryOf(tp.records)
		if int(report.GoodICRCs) != len(tp.records) || len(report.Connections) != 1 {
			t.Fatalf("%+v", report)
		}
		c := report.Connections[0]
		qpA, qpB := uint32(a), uint32(b)
		want := &Connection{
			Service: "RC", A: Endpoint{tp.addr(hostA), &qpA}, B: Endpoint{tp.addr(hostB), &qpB}, FirstFrame: 1,
			AToB: Direction{
				Packets: 17, PayloadBytes: 2*1124 + 1024 + 10 + 10 + 4, Messages: Messages{Write: 1, Send: 1, SendImm: 1, Read: 1, CompareSwap: 1, FetchAdd: 1},
				Acks: 1, NAKs: NAKs{Invalid: 1, Access: 1, Operation: 1, Other: 1}, ECNCEPackets: 1,
				RetransmittedPackets: 4, RetransmittedBytes: 1024 + 100 + 10,
				// Of the requests sent once: the READ's first response and the swap's; the
				// answer to the add came after one that acknowledged it.
				RTT: &RTT{Samples: 2, MinUS: 10, AvgUS: 10, MaxUS: 10},
			},
			BToA: Direction{
				Packets: 12, PayloadBytes: 1024 + 1024 + 452 + 8 + 8, Messages: Messages{SendInv: 1, WriteImm: 1},
				Acks: 2, NAKs: NAKs{Sequence: 1}, RNRNAKs: 1, CNPs: 1, OutOfOrderPackets: 1,
				RTT: &RTT{Samples: 1, MinUS: 10, AvgUS: 10, MaxUS: 10},
			},
		}
		ignoreFrames := cmpopts.IgnoreFields(Direction{}, "FrameBytes")
		if diff := cmp.Diff(want, c, append(reportOptions, ignoreFrames)...); diff != "" {
			t.Errorf("IPv6 %v:\n%s", v6, diff)
		}
	}
}

// A READ whose MTU is not known is reckoned when its response shows it: the
// requests that follow are not taken for late ones, and a repeat of its middle is a repeat.
func TestReadBeforeItsMTU(t *testing.T) {
	tp := newTape()
	tp.req(hostA, ib.ReadRequest, 0x20, 100, 4096, true)
	tp.req(hostA, ib.ReadRequest, 0x20, 104, 4096, true)
	tp.resp(hostB, ib.ReadResponseFirst, 0x10, 100, rc.SyndromeUnlimited, 1024)
	tp.req(hostA, ib.ReadRequest, 0x20, 106, 2048, true)
	tp.req(hostA, ib.SendOnly, 0x20, 108, 1, true)
	report := summaryOf(tp.records)
	d := report.Connections[0].AToB
	if d.Messages.Read != 2 || d.RetransmittedPackets != 1 || d.OutOfOrderPackets != 0 || d.Messages.Send != 1 {
		t.Errorf("%+v", d)
	}
}

// An ACK that came before, or that answers several requests, takes off what it
// answers and no more; READs and atomics wait whether or not they ask for an ACK.
func TestWhatAnAckAnswers(t *testing.T) {
	tp := newTape()
	for psn := range uint32(4) {
		tp.req(hostA, ib.SendOnly, 0x20, psn, 1, true)
	}
	tp.ack(hostB, 0x10, 0)
	tp.ack(hostB, 0x10, 0)
	tp.ack(hostB, 0x10, 2)
	tp.ack(hostB, 0x10, 3)
	tp.req(hostA, ib.ReadRequest, 0x20, 4, 64, false)
	tp.req(hostA, ib.FetchAdd, 0x20, 5, 0, false)
	tp.resp(hostB, ib.ReadResponseOnly, 0x10, 4, rc.SyndromeUnlimited, 64)
	tp.resp(hostB, ib.AtomicAcknowledge, 0x10, 5, rc.SyndromeUnlimited, 0)
	report := summaryOf(tp.records)
	// 0 after four frames, 2 and 3 after four, 4 and 5 after two.
	if r := report.Connections[0].AToB.RTT; r == nil || r.Samples != 5 || r.MinUS != 20 || r.MaxUS != 40 || r.AvgUS != (40+40+40+20+20)/5 {
		t.Errorf("%+v", r)
	}
}

// Responses that fit the requests of two queue pairs belong to neither, until one shows.
func TestAmbiguousPair(t *testing.T) {
	tp := newTape()
	tp.req(hostA, ib.SendOnly, 0x20, 7, 1, true)
	tp.req(hostA, ib.SendOnly, 0x21, 7, 1, true)
	tp.ack(hostB, 0x10, 7)
	if n := len(summaryOf(tp.records).Connections); n != 3 {
		t.Fatalf("%d connections, want 3 halves", n)
	}
	tp.req(hostA, ib.SendOnly, 0x21, 8, 1, true)
	tp.ack(hostB, 0x10, 8)
	tp.req(hostA, ib.SendOnly, 0x20, 8, 1, true)
	tp.ack(hostB, 0x11, 8)
	report := summaryOf(tp.records)
	if len(report.Connections) != 2 {
		t.Fatalf("%d connections, want 2", len(report.Connections))
	}
	for i, want := range [][2]uint32{{0x11, 0x20}, {0x10, 0x21}} {
		c := report.Connections[i]
		if c.A.QP == nil || *c.A.QP != want[0] || *c.B.QP != want[1] {
			t.Errorf("connection %d: %+v", i, c)
		}
	}
	// Both ends on one address.
	loop := newTape()
	loop.req(hostA, ib.SendOnly, 0x20, 7, 1, true)
	loop.ack(hostA, 0x10, 7)
	if n := len(summaryOf(loop.records).Connections); n != 2 {
		t.Errorf("%d connections: an ACK the same way paired", n)
	}
}

// A queue pair's number that CM gives to a new connection begins a new one; a repeated
// REP does not.
func TestQueuePairUsedAgain(t *testing.T) {
	tp := newTape()
	open := func(comm uint32, service uint16) {
		tp.mad(hostA, &roce.REQ{LocalCommID: comm, LocalQPN: 0x10, ServiceID: roce.PortSpaceTCP.ServiceID(service), PathMTU: 1})
		tp.mad(hostB, &roce.REP{LocalCommID: 99, RemoteCommID: comm, LocalQPN: 0x20})
	}
	open(1, 1000)
	tp.req(hostA, ib.SendOnly, 0x20, 0x800000, 1, true)
	open(1, 1000) // as if the network had repeated both
	tp.ack(hostB, 0x10, 0x800000)
	open(2, 2000)
	tp.req(hostA, ib.SendOnly, 0x20, 5, 1, true)
	tp.req(hostA, ib.SendOnly, 0x20, 6, 1, true)
	open(3, 3000)                                                               // never used
	tp.mad(hostB, &roce.REP{LocalCommID: 99, RemoteCommID: 77, LocalQPN: 0x20}) // without a REQ
	report := summaryOf(tp.records)
	var got []string
	for _, c := range report.Connections {
		got = append(got, c.Service+" "+c.ServiceID)
	}
	if diff := cmp.Diff([]string{"UD ", "RC 0x00000000010603e8", "RC 0x00000000010607d0"}, got); diff != "" {
		t.Fatal(diff)
	}
	first, second := report.Connections[1], report.Connections[2]
	if first.AToB.Messages.Send != 1 || first.AToB.RTT == nil || second.AToB.Messages.Send != 2 || second.AToB.PSNRestarts != 0 {
		t.Errorf("%+v\n%+v", first, second)
	}
	// Without CM the jump back of the PSN shows it.
	tp = newTape()
	tp.req(hostA, ib.SendOnly, 0x20, 0x700000, 1, true)
	tp.req(hostA, ib.SendOnly, 0x20, 5, 1, true)
	tp.ack(hostB, 0x10, 5)
	if d := summaryOf(tp.records).Connections[0].AToB; d.PSNRestarts != 1 || d.RetransmittedPackets+d.OutOfOrderPackets != 0 || d.Messages.Send != 2 ||
		d.RTT == nil {
		t.Errorf("%+v", d)
	}
}

func TestDatagramsAndUC(t *testing.T) {
	tp := newTape()
	ud := func(from byte, src, dst uint32, op ib.Opcode) {
		tp.send(from, roce.Packet{Header: rc.Header{Opcode: ib.ServiceUD | op}, DestQP: dst, SrcQP: src, QKey: 1}, make([]byte, 20))
	}
	ud(hostA, 0x30, 0x40, ib.SendOnly)
	ud(hostA, 0x31, 0x40, ib.SendOnly)
	ud(hostB, 0x40, 0x30, ib.SendOnlyImm)
	tp.req(hostB, ib.ServiceUC|ib.WriteOnly, 0x50, 1, 64, false)
	tp.req(hostB, ib.ServiceUC|ib.SendFirst, 0x50, 2, 256, false)
	tp.req(hostB, ib.ServiceUC|ib.SendLastImm, 0x50, 3, 64, false)
	tp.send(hostA, roce.CNP(0x60, 0), nil)
	report := summaryOf(tp.records)
	type row struct {
		Service  string
		A, B     uint32 // 0: not known
		There    Messages
		Back     Messages
		CNPs     int64
		Payloads int64
	}
	var got []row
	for _, c := range report.Connections {
		r := row{Service: c.Service, There: c.AToB.Messages, Back: c.BToA.Messages, CNPs: c.AToB.CNPs, Payloads: c.AToB.PayloadBytes}
		if c.A.QP != nil {
			r.A = *c.A.QP
		}
		if c.B.QP != nil {
			r.B = *c.B.QP
		}
		got = append(got, r)
	}
	want := []row{
		{"UD", 0x30, 0x40, Messages{Send: 1}, Messages{SendImm: 1}, 0, 20},
		{"UD", 0x31, 0x40, Messages{Send: 1}, Messages{}, 0, 20},
		{"UC", 0, 0x50, Messages{Write: 1, SendImm: 1}, Messages{}, 0, 384},
		{"CNP", 0, 0x60, Messages{}, Messages{}, 1, 0},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A bad packet counts as such where its flow is known, and nowhere else.
func TestBadPackets(t *testing.T) {
	tp := newTape()
	tp.req(hostA, ib.SendOnly, 0x20, 1, 64, true)
	tp.req(hostA, ib.SendOnly, 0x20, 2, 64, true)
	tp.req(hostA, ib.SendOnly, 0x21, 3, 64, true)
	for _, i := range []int{1, 2} {
		tp.records[i].Data[60] ^= 1
	}
	tp.req(hostA, 0x1f, 0x20, 4, 0, true) // reserved opcode: Put writes no header
	short := tp.records[0]
	short.Number, short.Data, short.Length = 5, short.Data[:100], 100 // not the snap length: the frame itself
	tp.records = append(tp.records, short)
	report := summaryOf(tp.records)
	if report.BadICRCs != 2 || report.GoodICRCs != 1 || report.RoCE != 3 || len(report.Connections) != 1 || report.Connections[0].AToB.BadICRCs != 1 ||
		report.Connections[0].AToB.Packets != 1 {
		t.Errorf("%+v", report)
	}
	if diff := cmp.Diff(map[string]int64{"too_short": 1, "cut": 1}, report.Malformed); diff != "" {
		t.Error(diff)
	}
	want := []Fault{
		{2, "wrong ICRC on a RC_SEND_ONLY for QP 0x20 from 10.0.0.1 to 10.0.0.2"},
		{3, "wrong ICRC on a RC_SEND_ONLY for QP 0x21 from 10.0.0.1 to 10.0.0.2"},
		{4, "no room for the headers of the opcode"}, {5, "fewer bytes than the headers state"},
	}
	if diff := cmp.Diff(want, report.Faults); diff != "" {
		t.Error(diff)
	}
}

// Without times there are no round trips, and the rest is there.
func TestNoTimes(t *testing.T) {
	records := recordsOf(t, fixtureBytes(t))
	for i := range records {
		records[i].Time = time.Time{}
	}
	report := summaryOf(records)
	for _, c := range report.Connections {
		if c.AToB.RTT != nil || c.BToA.RTT != nil {
			t.Errorf("a round trip: %+v", c)
		}
	}
	if report.StartTime != "" || report.DurationS != 0 || report.RoCE != 69 {
		t.Errorf("%+v", report)
	}
}

func TestRTTAverages(t *testing.T) {
	var r RTT
	for _, us := range []int64{30, 10, 20} {
		r.add(units.Time(us) * units.Microsecond)
	}
	if r.Samples != 3 || r.MinUS != 10 || r.AvgUS != 20 || r.MaxUS != 30 {
		t.Errorf("%+v", r)
	}
	r.add(units.Never)
	r.add(units.Never)
	if r.AvgUS < 0 || r.MaxUS != units.Never.Microseconds() {
		t.Errorf("after overflow: %+v", r)
	}
}

// The JSON has the names that the page promises.
func TestJSON(t *testing.T) {
	report, err := Summarize(bytes.NewReader(fixtureBytes(t)))
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"roce_packets":69`, `"good_icrcs":69`, `"bad_icrcs":0`, `"malformed_packets":{}`, `"faults":[]`, `"a":{"ip":"10.77.0.3","qp":17}`,
		`"RC_ACKNOWLEDGE":17`, `"rtt":null`, `"cm_service_id":"0x0000000001061c06"`, `"retransmitted_packets":0`, `"duration_s":`,
	} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no %s in %s", want, b)
		}
	}
	var back Report
	if err := json.Unmarshal(b, &back); err != nil {
		t.Error(err)
	}
}

func TestTable(t *testing.T) {
	tp := newTape()
	tp.req(hostA, ib.SendOnly, 0x20, 1, 64, true)
	tp.ack(hostB, 0x10, 1)
	tp.resp(hostB, ib.Acknowledge, 0x10, 2, rc.SyndromeAccess, 0)
	tp.req(hostB, ib.WriteOnly, 0x99, 1, 64, false)
	tp.records[2].Data[60] ^= 1 // lies in the ICRC
	tp.records = append(tp.records, Record{Number: 5, Link: 200}, tp.records[0])
	tp.records[5].Data = tp.records[5].Data[:50]
	var b strings.Builder
	if err := summaryOf(tp.records).WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	want := `pcap: 6 frames in 3e-05 s, 4 of them RoCEv2
ICRCs: 3 good, 1 bad
not read: 1 frames of other links than Ethernet, raw IP and Linux cooked
malformed: 1 cut
  frame 3: wrong ICRC on a RC_ACKNOWLEDGE for QP 0x10 from 10.0.0.2 to 10.0.0.1
  frame 1: fewer bytes than the headers state

from      QP    to        QP    service  packets  payload[B]  messages  ACK  bad ICRC  RTT[us] min/avg/max
10.0.0.1  0x10  10.0.0.2  0x20  RC       1        64          1 SEND    0    0         10/10/10
10.0.0.2  0x20  10.0.0.1  0x10  RC       1        0           -         1    1         -
10.0.0.2  ?     10.0.0.1  0x99  RC       1        64          1 WRITE   0    0         -
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
	if err := new(Report).WriteTable(failingWriter{}); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("a writer that fails: %v", err)
	}
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

// The list of faults has an end.
func TestManyFaults(t *testing.T) {
	tp := newTape()
	tp.req(hostA, ib.SendOnly, 0x20, 1, 64, true)
	bad := tp.records[0]
	bad.Data[80] ^= 1
	s := NewSummary("pcap", false)
	for range 3 * maxFaults {
		s.Add(&bad)
	}
	report := s.Report()
	if report.BadICRCs != 3*maxFaults || len(report.Faults) != maxFaults {
		t.Errorf("%d bad, %d listed", report.BadICRCs, len(report.Faults))
	}
	var b strings.Builder
	if err := report.WriteTable(&b); err != nil || !strings.Contains(b.String(), "  and more\n") {
		t.Errorf("%v: %s", err, b.String())
	}
}

// A flow remembers a bounded number of requests.
func TestBounds(t *testing.T) {
	s := NewSummary("pcap", false)
	for i := range uint32(3000) {
		tp := newTape()
		tp.req(hostA, ib.ReadRequest, 0x20, 2*i, 4096, true)
		s.Add(&tp.records[0])
	}
	for _, f := range s.flows.byKey {
		if len(f.waiting) != maxWaiting || len(f.reads) != maxReads || len(f.requests.runs) > maxRuns {
			t.Errorf("%d waiting, %d reads, %d runs", len(f.waiting), len(f.reads), len(f.requests.runs))
		}
	}
}

// Any file gives a report or an error.
func FuzzSummarize(f *testing.F) {
	file := fixtureBytes(f)
	records := recordsOf(f, file)
	// Short ones: the fuzzer spends its time on making inputs small.
	acks := records[60:64]
	f.Add(pcapOf(f, acks))
	f.Add(zipped(f, pcapOf(f, acks)))
	f.Add(pcapngOf(f, acks))
	f.Add(pcapngOf(f, mixed(acks)))
	f.Add(bigEndian(file)[:200])
	f.Fuzz(func(t *testing.T, file []byte) {
		// gzip makes a thousand bytes of one at most, and each frame takes some.
		before, most := allocated(), uint64(64<<20+10_000*len(file))
		report, err := Summarize(bytes.NewReader(file))
		if got := allocated() - before; got > most {
			t.Fatalf("%d bytes were allocated for a file of %d", got, len(file))
		}
		if report == nil {
			if !errors.Is(err, ErrNotCapture) {
				t.Fatal(err)
			}
			return
		}
		malformed := int64(0)
		for _, n := range report.Malformed {
			malformed += n
		}
		if report.RoCE != report.GoodICRCs+report.BadICRCs+report.UncheckedICRC ||
			report.Frames != report.RoCE+malformed+report.OtherFrames+report.UnsupportedLinks {
			t.Fatalf("the counts do not add up: %+v", report)
		}
		if _, err := json.Marshal(report); err != nil {
			t.Fatal(err)
		}
		if err := report.WriteTable(io.Discard); err != nil {
			t.Fatal(err)
		}
	})
}

// Any frames at all, one after the other.
func FuzzFrames(f *testing.F) {
	for _, rec := range recordsOf(f, fixtureBytes(f))[20:40] {
		f.Add(rec.Data, rec.Data)
	}
	f.Fuzz(func(t *testing.T, one, two []byte) {
		s := NewSummary("pcap", false)
		for i, data := range [][]byte{one, two, one, two} {
			// Frames with the right ICRC get further.
			var frame roce.Frame
			if frame.ParseEthernet(data) == nil && len(frame.IB) >= roce.BTHBytes+roce.ICRCBytes {
				roce.PutICRC(frame.IP)
			}
			s.Add(&Record{Number: i + 1, Time: time.Unix(int64(i), 0), Link: layers.LinkTypeEthernet, Data: data, Length: len(data)})
		}
		if err := s.Report().WriteTable(io.Discard); err != nil {
			t.Fatal(err)
		}
	})
}

func BenchmarkSummarize(b *testing.B) {
	records := recordsOf(b, fixtureBytes(b))
	b.ReportAllocs()
	for b.Loop() {
		summaryOf(records)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(records)), "ns/frame")
}
