// Package replay feeds the signals of a recording to rate engines, offline, and
// says what they would have allowed beside what was allowed. It is open loop: the
// signals are those that the recorded sender caused. docs/replay.md says what
// follows from that.
package replay

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/sluice-rdma/sluice/bench/signals"
	"github.com/sluice-rdma/sluice/bench/stats"
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
	Updates    uint64           `json:"updates"`
	Dropped    uint64           `json:"dropped"` // updates that are missing in the recording
	Truncated  bool             `json:"truncated"`
	QueuePairs int              `json:"queue_pairs"`
	SpanS      float64          `json:"span_s"` // from the first update to the last
	Bytes      int64            `json:"bytes"`
	RTTAvgUs   stats.Float      `json:"rtt_avg_us"`
	RTTP50Us   stats.Float      `json:"rtt_p50_us"`
	RTTP99Us   stats.Float      `json:"rtt_p99_us"`
	Streams    []signals.Stream `json:"streams"`
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
	d, err := signals.NewReader(r)
	if err != nil {
		return nil, err
	}
	type key struct {
		stream int
		qpn    uint32
	}
	flows := map[key]*flow{}
	var order []*flow
	out := &Result{}
	rtt := stats.NewRecorder()
	sums := make([]sum, len(engines)+1)
	for i := range sums {
		sums[i].least = math.Inf(1)
	}
	first, end := units.Never, units.Time(math.MinInt64)
	var rec signals.Record
	var broken error
	for {
		err := d.Next(&rec)
		if errors.Is(err, io.ErrUnexpectedEOF) {
			out.Truncated = true
			break
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			broken = fmt.Errorf("after %d updates: %w", out.Updates, err)
			break
		}
		k := key{rec.Stream, rec.QPN}
		f := flows[k]
		if f == nil {
			if f, err = newFlow(&d.Streams()[rec.Stream], engines); err != nil {
				return nil, err
			}
			flows[k] = f
			order = append(order, f)
		}
		out.Updates++
		out.Bytes += int64(rec.Ack.Bytes)
		first, end = min(first, rec.Ack.Now), max(end, rec.Ack.Now)
		rtt.Record(rec.Ack.NetRTT)
		recorded := min(rec.Control.Rate, f.line)
		for i := range sums {
			c := rec.Control
			if i > 0 {
				e := engines[i-1]
				has := cc.Signals{Path: rec.Ack.Path != nil, MaxDelay: rec.Ack.HasMaxDelay, ECN: true, EIN: true}
				if missing := e.Scheme.Lacks(has); missing != "" {
					return nil, fmt.Errorf("the engine %s requires %s, which the recording does not have: take another engine", e.Scheme.Name, missing)
				}
				ack := rec.Ack // an engine's own
				c = f.engines[i-1].OnAck(&ack)
			}
			rate := min(c.Rate, f.line)
			f.last[i] = rate
			s := &sums[i]
			s.rate += float64(rate)
			s.least = min(s.least, float64(rate))
			s.apart += math.Abs(float64(rate)-float64(recorded)) / float64(f.line)
			s.unlimited = s.unlimited || c.Window == cc.Unlimited
			s.window += float64(c.Window)
			if c == rec.Control {
				s.same++
			}
		}
	}
	out.Streams, out.QueuePairs = d.Streams(), len(order)
	for i := range out.Streams {
		out.Dropped += d.Dropped(i)
	}
	if out.Updates > 0 {
		out.SpanS = (end - first).Seconds()
	}
	out.RTTAvgUs, out.RTTP50Us, out.RTTP99Us = rtt.MeanUs(), rtt.PercentileUs(50), rtt.PercentileUs(99)
	for i := range sums {
		name := "recorded"
		if i > 0 {
			name = engines[i-1].Scheme.Name
		}
		var last float64
		for _, f := range order {
			last += float64(f.last[i])
		}
		out.Allowed = append(out.Allowed, sums[i].allowed(name, float64(out.Updates), last/float64(len(order))))
	}
	return out, broken
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

func newFlow(s *signals.Stream, engines []Engine) (*flow, error) {
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
