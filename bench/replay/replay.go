package replay

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/units"
)

// Engine is one to feed. Config is a pointer to its configuration, as
// Scheme.DefaultConfig returns.
type Engine struct {
	Scheme cc.Scheme
	Config any
}

// Allowed is what one engine, or the recorded one, allowed. Rates are weighted by
// updates.
type Allowed struct {
	Engine      string      `json:"engine"`
	RateAvgGbps stats.Float `json:"rate_avg_gbps"` // of a queue pair, at most the line rate
	RateMinGbps stats.Float `json:"rate_min_gbps"`
	RateEndGbps stats.Float `json:"rate_end_gbps"` // the mean over queue pairs after their last update
	// WindowAvgBytes is unmeasured unless the window was limited throughout.
	WindowAvgBytes stats.Float `json:"window_avg_bytes"`
	// Apart is the mean of |rate - recorded| over the line rate.
	Apart stats.Float `json:"apart"`
	// Same is the share of updates after which it allowed exactly what was.
	Same stats.Float `json:"same"`
}

// Result is what a replay gave.
type Result struct {
	Updates    uint64      `json:"updates"`
	Dropped    uint64      `json:"dropped"` // updates that are missing in the recording
	Truncated  bool        `json:"truncated"`
	QueuePairs int         `json:"queue_pairs"`
	SpanS      float64     `json:"span_s"` // from the first update to the last
	Bytes      int64       `json:"bytes"`
	RTTAvgUs   stats.Float `json:"rtt_avg_us"`
	RTTP50Us   stats.Float `json:"rtt_p50_us"`
	RTTP99Us   stats.Float `json:"rtt_p99_us"`
	Streams    []Stream    `json:"streams"`
	// Allowed begins with what was recorded.
	Allowed []Allowed `json:"allowed"`
}

// flow is a queue pair of a stream with an engine of each kind.
type flow struct {
	line    units.Rate
	engines []cc.Engine
	last    []units.Rate // of the recorded engine and each other
}

type sum struct {
	rate, apart, window, least float64
	same                       uint64
	unlimited                  bool
}

// Run reads a recording to its end. If it breaks off, what was read counts and
// Result.Truncated says so. If r fails otherwise, it returns the error with what was
// read before it.
func Run(r io.Reader, engines []Engine) (*Result, error) {
	d, err := NewReader(r)
	if err != nil {
		return nil, err
	}
	p := newReplay(engines)
	var rec Record
	var broken error
	truncated := false
	for {
		err := d.Next(&rec)
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			truncated = true
			break
		}
		if err != nil {
			broken = fmt.Errorf("after %d updates: %w", p.updates, err)
			break
		}
		if err := p.update(&d.Streams()[rec.Stream], &rec); err != nil {
			return nil, err
		}
	}
	out := p.result()
	out.Truncated, out.Streams = truncated, d.Streams()
	for i := range out.Streams {
		out.Dropped += d.Dropped(i)
	}
	return out, broken
}

// replay is what a recording has given so far.
type replay struct {
	engines    []Engine
	flows      map[flowKey]*flow
	order      []*flow
	sums       []sum // of the recorded engine and each other
	updates    uint64
	bytes      int64
	rtt        *stats.Recorder
	first, end units.Time
}

// mostStates is the number of engines that a replay keeps, recorded ones among them.
const mostStates = 1 << 17

type flowKey struct {
	stream int
	qpn    uint32
}

func newReplay(engines []Engine) *replay {
	p := &replay{engines: engines, flows: map[flowKey]*flow{}, sums: make([]sum, len(engines)+1), rtt: stats.NewRecorder(), first: units.Never, end: math.MinInt64}
	for i := range p.sums {
		p.sums[i].least = math.Inf(1)
	}
	return p
}

// update takes a record of a stream.
func (p *replay) update(s *Stream, rec *Record) error {
	key := flowKey{rec.Stream, rec.QPN}
	f := p.flows[key]
	if f == nil {
		if len(p.order)*len(p.sums) >= mostStates {
			return fmt.Errorf("it has more than %d queue pairs, which is the most for this many engines", len(p.order))
		}
		var err error
		if f, err = newFlow(s, p.engines); err != nil {
			return err
		}
		p.flows[key] = f
		p.order = append(p.order, f)
	}
	p.updates++
	p.bytes += int64(rec.Ack.Bytes)
	p.first, p.end = min(p.first, rec.Ack.Now), max(p.end, rec.Ack.Now)
	p.rtt.Record(rec.Ack.NetRTT)
	f.last[0] = p.sums[0].add(rec.Control, rec, f.line)
	for i := range p.engines {
		scheme := &p.engines[i].Scheme
		has := cc.Signals{Path: rec.Ack.Path != nil, MaxDelay: rec.Ack.HasMaxDelay, ECN: true, EIN: true}
		if missing := scheme.Lacks(has); missing != "" {
			return fmt.Errorf("the engine %s requires %s, which the recording does not have: take another engine", scheme.Name, missing)
		}
		ack := rec.Ack // an engine's own
		f.last[1+i] = p.sums[1+i].add(f.engines[i].OnAck(&ack), rec, f.line)
	}
	return nil
}

// result is all of it, but for what only the reader knows.
func (p *replay) result() *Result {
	out := &Result{Updates: p.updates, Bytes: p.bytes, QueuePairs: len(p.order)}
	if p.updates > 0 {
		out.SpanS = (p.end - p.first).Seconds()
	}
	out.RTTAvgUs, out.RTTP50Us, out.RTTP99Us = p.rtt.MeanUs(), p.rtt.PercentileUs(50), p.rtt.PercentileUs(99)
	for i := range p.sums {
		name := "recorded"
		if i > 0 {
			name = p.engines[i-1].Scheme.Name
		}
		var last float64
		for _, f := range p.order {
			last += float64(f.last[i])
		}
		out.Allowed = append(out.Allowed, p.sums[i].allowed(name, float64(p.updates), last/float64(len(p.order))))
	}
	return out
}

// add adds what an engine answered to a record, and returns its rate.
func (s *sum) add(c cc.Control, rec *Record, line units.Rate) units.Rate {
	rate := min(c.Rate, line)
	s.rate += float64(rate)
	s.least = min(s.least, float64(rate))
	s.apart += math.Abs(float64(rate)-float64(min(rec.Control.Rate, line))) / float64(line)
	s.unlimited = s.unlimited || c.Window == cc.Unlimited
	s.window += float64(c.Window)
	if c == rec.Control {
		s.same++
	}
	return rate
}

func (s *sum) allowed(name string, n, last float64) Allowed {
	u := stats.Unmeasured
	a := Allowed{Engine: name, RateAvgGbps: u, RateMinGbps: u, RateEndGbps: u, WindowAvgBytes: u, Apart: u, Same: u}
	if n == 0 {
		return a
	}
	a.RateAvgGbps, a.RateMinGbps, a.RateEndGbps = stats.Float(s.rate/n/1e9), stats.Float(s.least/1e9), stats.Float(last/1e9)
	a.Apart, a.Same = stats.Float(s.apart/n), stats.Float(float64(s.same)/n)
	if !s.unlimited {
		a.WindowAvgBytes = stats.Float(s.window / n)
	}
	return a
}

func newFlow(s *Stream, engines []Engine) (*flow, error) {
	f := &flow{line: s.Env().LineRate, last: make([]units.Rate, len(engines)+1)}
	for _, e := range engines {
		one, err := e.Scheme.New(e.Config, s.Env())
		if err != nil {
			return nil, fmt.Errorf("engine %s: %w", e.Scheme.Name, err)
		}
		f.engines = append(f.engines, one)
	}
	return f, nil
}
