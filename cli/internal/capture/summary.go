package capture

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/units"
)

// Summarize reads a whole capture. After an error other than ErrNotCapture the report has
// what was read before it.
func Summarize(r io.Reader) (*Report, error) {
	in, err := NewReader(r)
	if err != nil {
		return nil, err
	}
	s := NewSummary(in.Format, in.Gzipped)
	for {
		rec, err := in.Next()
		if errors.Is(err, io.EOF) {
			return s.Report(), nil
		}
		if err != nil {
			return s.Report(), err
		}
		s.Add(&rec)
	}
}

// Summary takes the frames of a capture one by one.
type Summary struct {
	report    Report
	start     time.Time
	last      units.Time
	malformed [roce.NumMalformed]int64
	opcodes   [256]int64
	flows     flows
}

// NewSummary returns an empty summary.
func NewSummary(format string, gzipped bool) *Summary {
	return &Summary{report: Report{Format: format, Gzipped: gzipped}, flows: newFlows()}
}

// when returns the time of a record since the first that has one; ok is false if
// this has none.
func (s *Summary) when(rec *Record) (t units.Time, ok bool) {
	if rec.Time.IsZero() {
		return 0, false
	}
	if s.start.IsZero() {
		s.start = rec.Time
	}
	t = units.FromDuration(rec.Time.Sub(s.start))
	s.last = max(s.last, t)
	return t, true
}

// Add takes a frame. It keeps none of the frame's memory.
func (s *Summary) Add(rec *Record) {
	r := &s.report
	r.Frames++
	r.FrameBytes += int64(rec.Length)
	p := packet{frameBytes: int64(rec.Length), frame: rec.Number}
	p.time, p.timed = s.when(rec)
	if !supported(rec.Link) {
		r.UnsupportedLinks++
		return
	}
	err := parse(&p.where, rec)
	if errors.Is(err, roce.ErrNotRoCE) {
		r.OtherFrames++
		return
	}
	// A frame that the capture cut short can still be counted by its headers.
	cut := errors.Is(err, roce.Cut) && rec.Length > len(rec.Data)
	if cut {
		err = p.decodeCut()
	} else if err == nil {
		p.payload, err = p.Decode(p.where.IB)
		p.payloadBytes = len(p.payload)
	}
	if err != nil {
		var why roce.Malformed
		errors.As(err, &why)
		s.malformed[why]++
		r.fault(rec.Number, strings.TrimPrefix(err.Error(), "roce: "))
		return
	}
	r.RoCE++
	switch {
	case cut:
		r.UncheckedICRC++
	case roce.CheckICRC(p.where.IP):
		r.GoodICRCs++
	default:
		r.BadICRCs++
		r.fault(rec.Number, fmt.Sprintf("wrong ICRC on a %v for QP %#x from %v to %v", p.Opcode, p.DestQP, p.where.Src, p.where.Dst))
		s.flows.bad(&p)
		return
	}
	s.opcodes[p.Opcode]++
	s.flows.add(&p)
}

// packet is a RoCEv2 packet and when and where it was captured.
type packet struct {
	roce.Packet
	where        roce.Frame
	payload      []byte // nil if it was cut
	payloadBytes int
	frameBytes   int64
	frame        int
	time         units.Time
	timed        bool
}

// decodeCut reads the headers of a packet that was not captured whole, and how
// much payload it had.
func (p *packet) decodeCut() error {
	n, err := p.DecodeHeaders(p.where.IB)
	if errors.Is(err, roce.TooShort) {
		return roce.Cut // the headers themselves are not all there
	}
	if err != nil {
		return err
	}
	p.payloadBytes = p.where.Len - n - roce.ICRCBytes - int(p.Pad)
	switch {
	case p.payloadBytes < 0:
		return roce.TooShort
	case p.payloadBytes > 0 && !roce.HasPayload(p.Opcode):
		return roce.UnexpectedPayload
	}
	return nil
}

// Report returns what there is so far.
func (s *Summary) Report() *Report {
	r := s.report
	r.StartTime, r.DurationS = formatTime(s.start), s.last.Seconds()
	r.Malformed, r.Opcodes = map[string]int64{}, map[string]int64{}
	for why, n := range s.malformed {
		if n > 0 {
			r.Malformed[roce.Malformed(why).Key()] = n
		}
	}
	for op, n := range s.opcodes {
		if n > 0 {
			r.Opcodes[ib.Opcode(op).String()] = n
		}
	}
	if r.Faults == nil {
		r.Faults = []Fault{}
	}
	r.Connections = s.flows.connections()
	return &r
}
