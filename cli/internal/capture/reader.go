package capture

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// ErrNotCapture is the cause of NewReader's errors: what was given is no capture.
var ErrNotCapture = errors.New("not a packet capture")

// ErrDamaged is the cause of Next's errors: the capture ends too early or goes
// wrong. What was read before is right.
var ErrDamaged = errors.New("the capture is damaged")

// Record is one captured frame.
type Record struct {
	Number int             // from 1 on
	Time   time.Time       // zero if the capture does not say
	Link   layers.LinkType // what Data begins with
	Data   []byte          // what was captured of the frame
	Length int             // of the frame as it was on the link, in bytes
}

// Reader reads the frames of a capture.
type Reader struct {
	// Format is "pcap" or "pcapng"; Gzipped says whether it is compressed.
	Format  string
	Gzipped bool

	packed *unpacker // nil of a capture that is not gzipped
	source gopacket.PacketDataSource
	link   layers.LinkType // of a pcap file
	number int
}

// The first four bytes of captures.
const (
	magicMicroseconds = 0xa1b2c3d4
	magicNanoseconds  = 0xa1b23c4d
	magicSection      = 0x0a0d0d0a // pcapng
)

// NewReader reads the head of a capture from r. Its errors wrap ErrNotCapture.
func NewReader(r io.Reader) (*Reader, error) {
	c := new(Reader)
	in := bufio.NewReader(r)
	head, err := in.Peek(2)
	if err == nil && head[0] == 0x1f && head[1] == 0x8b {
		c.Gzipped = true
		if c.packed, err = newUnpacker(in); err != nil {
			return nil, fmt.Errorf("%w: it begins as gzip does, but %w", ErrNotCapture, err)
		}
		in = bufio.NewReader(c.packed)
	}
	head, err = in.Peek(4)
	switch {
	case len(head) == 0 && errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%w: it is empty", ErrNotCapture)
	case len(head) < 4 && errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%w: it has only %d bytes", ErrNotCapture, len(head))
	case err != nil:
		return nil, fmt.Errorf("%w: reading its first bytes: %w", ErrNotCapture, err)
	}
	switch le, be := binary.LittleEndian.Uint32(head), binary.BigEndian.Uint32(head); {
	case le == magicMicroseconds || be == magicMicroseconds || le == magicNanoseconds || be == magicNanoseconds:
		c.Format = "pcap"
		pcap, err := pcapgo.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("%w: it begins as pcap does, but %w", ErrNotCapture, err)
		}
		pcap.SetSnaplen(maxFrameBytes) // writers are careless with the one in the file
		c.source, c.link = pcap, pcap.LinkType()
	case le == magicSection:
		c.Format = "pcapng"
		ng, err := pcapgo.NewNgReader(&blockLimiter{in: in}, pcapgo.NgReaderOptions{WantMixedLinkType: true, SkipUnknownVersion: true})
		if err != nil {
			return nil, fmt.Errorf("%w: it begins as pcapng does, but %w", ErrNotCapture, err)
		}
		c.source = ng
	default:
		return nil, fmt.Errorf("%w: it begins with %x, and is neither pcap nor pcapng, gzipped or not", ErrNotCapture, head)
	}
	return c, nil
}

// Next returns the next frame, io.EOF after the last one, or an error that wraps
// ErrDamaged. The record's data belong to the caller.
func (r *Reader) Next() (Record, error) {
	data, info, err := r.source.ReadPacketData()
	// pcapgo says EOF also where a frame's header is there and its data are not.
	if errors.Is(err, io.EOF) && info.CaptureLength == 0 {
		return Record{}, io.EOF
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return Record{}, fmt.Errorf("%w: it ends within frame %d or right before it", ErrDamaged, r.number+1)
	}
	if err != nil {
		return Record{}, fmt.Errorf("%w: frame %d: %w", ErrDamaged, r.number+1, err)
	}
	r.number++
	if r.packed != nil && int64(r.number) > r.packed.frames() {
		return Record{}, fmt.Errorf("%w: it has more frames than its file has bytes: unpack it with gunzip first, if it is right", ErrDamaged)
	}
	link := r.link
	if len(info.AncillaryData) > 0 {
		link, _ = info.AncillaryData[0].(layers.LinkType)
	}
	return Record{Number: r.number, Time: info.Timestamp, Link: link, Data: data, Length: info.Length}, nil
}
