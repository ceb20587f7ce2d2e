package perf

import (
	"math"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// samples collects times: extremes, mean and deviation exactly, percentiles to
// three digits.
type samples struct {
	rec      *stats.Recorder
	min      units.Time
	n        uint64
	mean, m2 float64 // Welford's, in picoseconds
}

func newSamples() *samples { return &samples{rec: stats.NewRecorder(), min: units.Never} }

func (s *samples) add(t units.Time) {
	s.rec.Record(t)
	s.min = min(s.min, t)
	s.n++
	d := float64(t) - s.mean
	s.mean += d / float64(s.n)
	s.m2 += float64(d * (float64(t) - s.mean))
}

func (s *samples) latency() *Latency {
	u := stats.Unmeasured
	l := &Latency{u, u, u, u, u, u, u}
	if s.n > 0 {
		l.MinUs = stats.Float(s.min.Microseconds())
		l.MaxUs = stats.Float(s.rec.Max().Microseconds())
		l.TypicalUs, l.P99Us, l.P999Us = s.rec.PercentileUs(50), s.rec.PercentileUs(99), s.rec.PercentileUs(99.9)
		l.AvgUs = stats.Float(s.mean / float64(units.Microsecond))
		l.StdevUs = stats.Float(math.Sqrt(s.m2/float64(s.n)) / float64(units.Microsecond))
	}
	return l
}

// pace is what the latency tests have in common: messages posted one at a time,
// and the time from post to post.
type pace struct {
	e        *end
	size     int
	all      uint64 // messages; no end with a duration
	stop     units.Time
	from, to units.Time // posts between them count
	ways     units.Time // of a sample: 2 for a ping-pong
	before   units.Time // the post before, Never for none
	samples  *samples
	posted   bool // the message, and not completed
	wr       [1]verbs.SendWR
	sge      [1]verbs.SGE
}

func (e *end) newPace(size int) *pace {
	e.begin(size)
	w := e.window(e.start)
	p := &pace{e: e, size: size, all: uint64(e.cfg.Iterations), stop: units.Never, from: w.from, to: w.to, ways: 2, before: units.Never, samples: newSamples()}
	if e.cfg.Test.oneSided() {
		p.ways = 1
	}
	e.renewal.pace = p
	if d := e.cfg.Duration; d > 0 {
		p.all, p.stop = 1<<63, e.start+units.FromDuration(d)
	}
	return p
}

// post posts message n, which counts from 1.
func (p *pace) post(n uint64) error {
	e := p.e
	now := e.now()
	if p.before != units.Never && p.before >= p.from && now <= p.to {
		p.samples.add((now - p.before) / p.ways)
	}
	p.before = now
	e.books.count(1, now)
	p.wr[0] = verbs.SendWR{WRID: n, Opcode: e.opcode(), Flags: verbs.SendSignaled, RemoteAddr: e.remote[0].VAddr, RKey: e.remote[0].RKey}
	if p.size <= e.inline {
		p.wr[0].Flags |= verbs.SendInline
		p.wr[0].Inline = e.buf[:p.size]
	} else {
		p.sge[0] = verbs.SGEOf(e.mr, 0, p.size)
		p.wr[0].SGL = p.sge[:]
	}
	if p.wr[0].Opcode == ib.WRAtomicFetchAndAdd {
		p.wr[0].CompareAdd = 1
	}
	if n%256 == 0 {
		e.progress(n, 1, p.size)
	}
	p.posted = true
	return e.postSend(0, p.wr[:])
}

// over reports whether the time of a test with a duration is up.
func (p *pace) over() bool { return p.stop != units.Never && p.e.now() >= p.stop }

// await polls until the message is complete, or the time is up.
func (p *pace) await() error {
	for p.posted {
		wcs, err := p.e.poll(p.e.sendCQ)
		if len(wcs) > 0 {
			p.posted = false
		}
		if err != nil || len(wcs) > 0 || p.over() {
			return err
		}
		if err := p.e.idle(); err != nil {
			return err
		}
	}
	return nil
}

func (p *pace) row() *Row {
	return p.e.closeBooks(&Row{Bytes: p.size, Iterations: p.iterations(), Latency: p.samples.latency()}, p.e.now())
}

// iterations is what perftest prints: the messages, not the samples between them.
func (p *pace) iterations() uint64 {
	if p.stop == units.Never {
		return p.all
	}
	return p.samples.n
}

// fetches runs read_lat and atomic_lat: the next request is posted when the one
// before has completed.
func (e *end) fetches(size int) (*Row, error) {
	p := e.newPace(size)
	for n := uint64(1); n <= p.all && !p.over(); n++ {
		if err := p.post(n); err != nil {
			return nil, err
		}
		if err := p.await(); err != nil {
			return nil, err
		}
	}
	return p.row(), nil
}

// writes runs write_lat: each end writes the number of its message into the last
// byte, and waits for that of the other end to arrive. As in perftest the server
// begins.
func (e *end) writes(size int) (*Row, error) {
	p := e.newPace(size)
	arrives := &e.buf[e.cfg.QPs*e.slot+size-1]
	leaves := &e.buf[size-1]
	for sent, got := uint64(0), uint64(0); (sent < p.all || got < p.all) && !p.over(); {
		if got < p.all && (sent > 0 || e.client) {
			got++
			if err := p.awaitByte(arrives, byte(got)); err != nil {
				return nil, err
			}
			if p.over() {
				break
			}
		}
		if sent < p.all {
			sent++
			*leaves = byte(sent)
			if err := p.post(sent); err != nil {
				return nil, err
			}
			if err := p.await(); err != nil {
				return nil, err
			}
		}
	}
	return p.row(), nil
}

// awaitByte waits until a byte of the buffer has a value. It polls the CQ
// meanwhile, though nothing completes: that is how time passes on a simulated
// device, and how a shim gets to work.
func (p *pace) awaitByte(at *byte, want byte) error {
	for remotely(at) != want {
		if _, err := p.e.poll(p.e.sendCQ); err != nil {
			return err
		}
		if p.over() {
			return nil
		}
		if err := p.e.idle(); err != nil {
			return err
		}
	}
	p.e.last = p.e.now()
	return nil
}

// remotely reads a byte that the other end may be writing. Nothing orders the two,
// as nothing does between a processor and a NIC: the race is the test. The race
// detector, which sees a provider's writes, does not see this read.
//
//go:norace
//go:noinline
func remotely(at *byte) byte { return *at }

// sends runs send_lat: each end answers a message with one of its own. The
// client begins.
func (e *end) sends(r *receiver) (*Row, error) {
	p := e.newPace(r.size)
	for sent, got := uint64(0), uint64(0); (sent < p.all || got < p.all) && !p.over(); {
		if got < p.all && (sent > 0 || !e.client) {
			for r.done == got && !p.over() {
				wcs, err := e.poll(e.recvCQ)
				if err != nil {
					return nil, err
				}
				if len(wcs) == 0 {
					if err := e.idle(); err != nil {
						return nil, err
					}
					continue
				}
				if err := r.take(wcs, e.last); err != nil {
					return nil, err
				}
			}
			got = r.done
			if p.over() {
				break
			}
		}
		if sent < p.all {
			sent++
			if err := p.post(sent); err != nil {
				return nil, err
			}
			if err := p.await(); err != nil {
				return nil, err
			}
		}
	}
	return p.row(), nil
}
