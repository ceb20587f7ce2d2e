package roce

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopacket/gopacket/pcapgo"

	"github.com/sluice-rdma/sluice/ib"
)

const fixture = "testdata/rxe.pcap"

// framesOf returns the frames of a pcap file.
func framesOf(t testing.TB, name string) [][]byte {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var r io.Reader = file
	if strings.HasSuffix(name, ".gz") {
		if r, err = gzip.NewReader(file); err != nil {
			t.Fatal(err)
		}
	}
	pcap, err := pcapgo.NewReader(r)
	if err != nil {
		t.Fatal(err)
	}
	var frames [][]byte
	for {
		frame, _, err := pcap.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return frames
		}
		if err != nil {
			t.Fatal(err)
		}
		frames = append(frames, frame)
	}
}

// roceFrames returns the RoCEv2 frames of the fixture.
func roceFrames(t testing.TB) [][]byte {
	var out [][]byte
	for _, frame := range framesOf(t, fixture) {
		if new(Frame).ParseEthernet(frame) == nil {
			out = append(out, frame)
		}
	}
	return out
}

// frameOf returns the first frame of the fixture with an opcode.
func frameOf(t testing.TB, op ib.Opcode) []byte {
	t.Helper()
	for _, frame := range roceFrames(t) {
		if ib.Opcode(frame[42]) == op {
			return frame
		}
	}
	t.Fatalf("the fixture has no %v", op)
	return nil
}

// again builds from decoded fields alone what was decoded from a frame.
func again(frame []byte, f *Frame, p *Packet, payload []byte) []byte {
	b := make([]byte, len(frame))
	ether := Ethernet(frame)
	etherType, _, _ := ether.Payload()
	n := (&EthernetFields{Dst: ether.Dst(), Src: ether.Src(), EtherType: etherType}).Put(b)
	start := n
	ip, udp := IPv4(f.IP), UDP(f.IP[IPv4Bytes:])
	n += (&IPv4Fields{
		TOS: f.TOS, TotalLen: len(f.IP), ID: ip.ID(), DontFragment: ip.DontFragment(), TTL: f.TTL, Src: f.Src, Dst: f.Dst,
	}).Put(b[n:])
	n += (&UDPFields{SrcPort: f.SrcPort, DstPort: Port, Len: UDPBytes + f.Len, Checksum: udp.Checksum()}).Put(b[n:])
	n += p.Put(b[n:])
	n += copy(b[n:], payload)
	n += PutPad(b[n:], p.Pad)
	n += ICRCBytes
	PutICRC(b[start:n])
	return b[:n]
}

// checkCapture decodes every RoCEv2 frame, encodes it again and checks its ICRC,
// and returns how many there are by opcode.
func checkCapture(t *testing.T, frames [][]byte) map[ib.Opcode]int {
	t.Helper()
	opcodes := map[ib.Opcode]int{}
	for i, frame := range frames {
		var f Frame
		if err := f.ParseEthernet(frame); errors.Is(err, ErrNotRoCE) {
			continue
		} else if err != nil {
			t.Fatalf("frame %d: %v", i+1, err)
		}
		var p Packet
		payload, err := p.Decode(f.IB)
		if err != nil {
			t.Fatalf("frame %d: %v", i+1, err)
		}
		opcodes[p.Opcode]++
		if !CheckICRC(f.IP) {
			t.Errorf("frame %d: %v: wrong ICRC", i+1, p.Opcode)
		}
		if got := again(frame, &f, &p, payload); !bytes.Equal(got, frame) {
			t.Errorf("frame %d: %v:\n%x encodes as\n%x", i+1, p.Opcode, frame, got)
		}
	}
	return opcodes
}

// Every kind of packet that soft-RoCE sent is in the fixture.
func TestFixture(t *testing.T) {
	opcodes := checkCapture(t, framesOf(t, fixture))
	total := 0
	for _, n := range opcodes {
		total += n
	}
	if total != 69 || len(opcodes) != 18 {
		t.Errorf("%d RoCEv2 packets of %d opcodes, want 69 of 18: %v", total, len(opcodes), opcodes)
	}
	for op := range opcodes {
		if HeaderBytes(op) == 0 {
			t.Errorf("%v has no headers", op)
		}
	}
}

// The whole capture that the fixture is from: SLUICE_RXE_CAPTURE names it, or it
// lies beside the repository.
func TestWholeCapture(t *testing.T) {
	name := os.Getenv("SLUICE_RXE_CAPTURE")
	if name == "" {
		name = filepath.FromSlash("../../shared/data/rxe/basic.pcap.gz")
		if _, err := os.Stat(name); err != nil {
			t.Skipf("the whole capture is not here (%v): set SLUICE_RXE_CAPTURE to its name", err)
		}
	}
	frames := framesOf(t, name)
	total := 0
	for _, n := range checkCapture(t, frames) {
		total += n
	}
	if len(frames) != 1108 || total != 847 {
		t.Errorf("%d frames, %d of them RoCEv2; want 1108 and 847", len(frames), total)
	}
}
