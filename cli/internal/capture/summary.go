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
	split     splitter
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
	if errors.Is(err, roce.Cut) && rec.Length > len(rec.Data) {
		switch err = p.decodeCut(); {
		case err == nil && !p.several():
			r.RoCE++
			r.UncheckedICRC++
			s.take(&p)
			return
		case err == nil || errors.Is(err, roce.UnexpectedPayload) && p.whole(): // of which only the first's headers are there
			r.RoCE++
			r.UncheckedICRC++
			return
		}
	} else if err == nil {
		err = p.decode()
		switch {
		case err == nil && roce.CheckICRC(p.where.IP):
			r.RoCE++
			r.GoodICRCs++
			s.take(&p)
			return
		case s.split.cut(&p.where):
			r.SplitFrames++
			s.addSegments(&p)
			return
		case p.several():
			r.RoCE++
			r.UncheckedOffload++
			return
		}
	}
	s.wrong(&p, err)
}

// addSegments takes the packets that a frame stands for.
func (s *Summary) addSegments(whole *packet) {
	link := whole.frameBytes - int64(len(whole.where.IP)) // headers of the link
	s.split.each(whole.where.IP, func(ip []byte) {
		p := packet{frame: whole.frame, time: whole.time, timed: whole.timed, frameBytes: link + int64(len(ip))}
		err := p.where.ParseIP(ip)
		if err == nil {
			err = p.decode()
		}
		switch {
		case err == nil && roce.CheckICRC(ip):
			s.report.RoCE++
			s.report.GoodICRCs++
			s.take(&p)
		case err == nil && !s.split.known:
			s.report.RoCE++
			s.report.UncheckedOffload++
			s.take(&p)
		default:
			s.wrong(&p, err)
		}
	})
}

// take counts a packet that is not bad.
func (s *Summary) take(p *packet) {
	s.opcodes[p.Opcode]++
	s.flows.add(p)
}

// wrong counts a packet that is malformed, which err says, or whose ICRC is bad.
func (s *Summary) wrong(p *packet, err error) {
	r := &s.report
	if err != nil {
		var why roce.Malformed
		errors.As(err, &why)
		s.malformed[why]++
		r.fault(p.frame, strings.TrimPrefix(err.Error(), "roce: "))
		return
	}
	r.RoCE++
	r.BadICRCs++
	r.fault(p.frame, fmt.Sprintf("wrong ICRC on a %v for QP %#x from %v to %v", p.Opcode, p.DestQP, p.where.Src, p.where.Dst))
	s.flows.bad(p)
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

// decode reads a packet that was captured whole.
func (p *packet) decode() (err error) {
	p.payload, err = p.Decode(p.where.IB)
	p.payloadBytes = len(p.payload)
	return err
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

// Report returns the report so far.
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
