package paced_test

import (
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
	"github.com/sluice-rdma/sluice/verbs/paced/internal/fakenic"
)

// A write of ten segments, by what holds them. The provider's completions are as far
// apart as they are: when the last segment was posted, and when the last completed, is
// all that the closed forms need.
func TestWhatHoldsASegment(t *testing.T) {
	const n, segment = 10, 16 * units.KiB
	gap := units.Gbps.Serialize(segment)
	const far = units.Millisecond
	for name, c := range map[string]struct {
		control cc.Control
		bound   units.Bytes
		latency units.Time
		want    func(last, end units.Time) paced.Held
	}{
		"nothing, as it fits": {bound: n * segment, want: func(_, end units.Time) paced.Held { return paced.Held{Sent: end.Long()} }},
		"the bound": {bound: 2 * segment, want: func(last, end units.Time) paced.Held {
			return paced.Held{Bound: last.Long(), Sent: (end - last).Long()}
		}},
		"the rate": {control: cc.Control{Rate: units.Gbps, Window: cc.Unlimited}, bound: n * segment, want: func(last, end units.Time) paced.Held {
			if last != (n-1)*gap {
				t.Errorf("the last segment left at %v, %d gaps are %v", last, n-1, (n-1)*gap)
			}
			return paced.Held{Rate: last.Long(), Sent: (end - last).Long()}
		}},
		"the engine's window": {control: cc.Control{Rate: line, Window: 2 * segment}, bound: 4 * segment, want: func(last, end units.Time) paced.Held {
			return paced.Held{Window: last.Long(), Sent: (end - last).Long()}
		}},
		// What the engine would hold anyway is its own.
		"both windows": {control: cc.Control{Rate: line, Window: 2 * segment}, bound: 2 * segment, want: func(last, end units.Time) paced.Held {
			return paced.Held{Window: last.Long(), Sent: (end - last).Long()}
		}},
		"the rate and then the bound": {control: cc.Control{Rate: units.Gbps, Window: cc.Unlimited}, bound: segment, latency: far, want: func(last, end units.Time) paced.Held {
			return paced.Held{Rate: ((n - 1) * gap).Long(), Bound: (last - (n-1)*gap).Long(), Sent: (end - last).Long()}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := uncalibrated()
			if c.control.Rate > 0 {
				cfg = steered(&fixed{control: c.control})
			}
			cfg.MaxOutstanding = c.bound
			p := newBench(t, cfg, func(p *bench) {
				if c.latency > 0 {
					p.a.Latency = c.latency
				}
			})
			q, _ := p.connect(defaultCap())
			p.run(5 * us) // idle time is nobody's
			begun := p.w.Now()
			p.post(q, p.write(1, n*int(segment)))
			p.run(units.Never)
			last, end := p.posts[len(p.posts)-1].at-begun, p.w.Now()-begun
			var s paced.QPStats
			q.Stats(&s)
			if want := c.want(last, end); s.Held != want || s.Held.Active() != end.Long() {
				t.Errorf("held %+v, expected %+v; active for %v of %v", s.Held, want, s.Held.Active(), end)
			}
			if got := p.shim.Stats().Held; got != s.Held {
				t.Errorf("the shim's is %+v, its queue pair's %+v", got, s.Held)
			}
			if err := q.Close(); err != nil {
				t.Fatal(err)
			}
			if got := p.shim.Stats().Held; got != s.Held {
				t.Errorf("after the queue pair has gone the shim's is %+v", got)
			}
		})
	}
}

// A reading in the middle counts what holds until then, and changes nothing.
func TestWhatHoldsIsReadAtAnyTime(t *testing.T) {
	cfg := uncalibrated()
	cfg.MaxOutstanding = cfg.Segment
	p := newBench(t, cfg, nil)
	q, _ := p.connect(defaultCap())
	p.post(q, p.write(1, 64<<10))
	for now := units.Time(0); now < 50*us; now += 700 * units.Nanosecond {
		p.run(now)
		if h := p.shim.Stats().Held; h.Active() != p.w.Now().Long() {
			t.Fatalf("at %v: %+v", p.w.Now(), h)
		}
	}
}

// A host that comes late is not the engine.
func TestLatenessIsTheHosts(t *testing.T) {
	e := &fixed{control: cc.Control{Rate: units.Gbps, Window: cc.Unlimited}}
	p := newBench(t, steered(e), nil)
	q, _ := p.connect(defaultCap())
	p.post(q, p.write(1, 32<<10))
	due := units.Gbps.Serialize(16 * units.KiB)
	const late = 7 * us
	p.w.RunUntil(due + late)
	if err := p.shim.Progress(p.w.Now().Long()); err != nil {
		t.Fatal(err)
	}
	if h := p.shim.Stats().Held; h != (paced.Held{Rate: due.Long(), Late: late.Long()}) {
		t.Errorf("%+v", h)
	}
}

// A fence is neither the engine's nor the bound's.
func TestAFenceIsNobodys(t *testing.T) {
	p := newBench(t, uncalibrated(), nil)
	q, _ := p.connect(defaultCap())
	fenced := p.write(2, 100)
	fenced.Flags |= verbs.SendFence
	p.post(q, p.read(1, 1000), fenced)
	p.run(units.Never)
	at := p.posts[1].at
	if h := p.shim.Stats().Held; h != (paced.Held{Other: at.Long(), Sent: (p.w.Now() - at).Long()}) {
		t.Errorf("%+v, and the fenced request left at %v", h, at)
	}
}

// A rate that changes while the bound holds counts for as long as it was in force.
func TestTheBoundUnderAChangingRate(t *testing.T) {
	gap := units.Gbps.Serialize(16 * units.KiB)
	e := &fixed{control: cc.Control{Rate: units.Gbps, Window: cc.Unlimited}}
	e.onAck = func(*cc.Ack) { e.control.Rate = 100 * units.Mbps } // ten times the gap
	cfg := steered(e)
	cfg.MaxOutstanding = 32 * units.KiB
	p := newBench(t, cfg, func(p *bench) { p.a.Latency = 4 * gap })
	q, _ := p.connect(defaultCap())
	p.post(q, p.write(1, 48<<10)) // the third waits for the first to come back
	p.run(units.Never)
	back := line.Serialize(16*units.KiB) + 4*gap // the first
	third := gap + 10*gap
	want := paced.Held{
		Rate:  (gap + gap + (third - back)).Long(), // to the second; after it at the old rate; from the new rate on
		Bound: (back - 2*gap).Long(), Sent: (p.w.Now() - third).Long(),
	}
	if h := p.shim.Stats().Held; h != want || p.posts[2].at != third {
		t.Errorf("%+v, expected %+v; the third left at %v, expected %v", h, want, p.posts[2].at, third)
	}
	if s := p.shim.Stats(); s.Cuts != (paced.Cuts{paced.ByRTT: 1}) {
		t.Errorf("cuts %v, expected 1", s.Cuts)
	}
}

func TestCuts(t *testing.T) {
	controls := []cc.Control{
		{Rate: 2 * line, Window: cc.Unlimited},      // no cut below the line rate
		{Rate: line / 2, Window: cc.Unlimited},      // a cut
		{Rate: line / 2, Window: cc.Unlimited},      //
		{Rate: line, Window: units.MiB},             // a cut: a window, now that there is one
		{Rate: line, Window: 2 * units.MiB},         //
		{Rate: line / 4, Window: 512 * units.KiB},   // one cut of both
		{Rate: line / 2, Window: 4 * units.MiB},     //
		{Rate: line / 2, Window: 4*units.MiB - 256}, // a cut
	}
	e := &fixed{control: cc.Control{Rate: line, Window: cc.Unlimited}}
	e.onAck = func(*cc.Ack) {
		if len(e.acks) <= len(controls) {
			e.control = controls[len(e.acks)-1]
		}
	}
	p := newBench(t, steered(e), nil)
	q, _ := p.connect(defaultCap())
	for range len(controls) + 2 {
		p.post(q, p.write(1, 4096))
		p.run(units.Never)
		p.poll(p.cq)
	}
	var s paced.QPStats
	want := paced.Cuts{paced.ByRTT: 4}
	if q.Stats(&s); s.Cuts != want || p.shim.Stats().Cuts != want {
		t.Errorf("cuts %v, expected %v; the shim has %v", s.Cuts, want, p.shim.Stats().Cuts)
	}
}

// A cut at a congestion notification is among the cuts, and told apart.
func TestCutsAtNotifications(t *testing.T) {
	e := &fixed{control: cc.Control{Rate: line, Window: cc.Unlimited}}
	p := newBench(t, steered(e), nil)
	q, _ := p.connect(defaultCap())
	for i, want := range []struct {
		notified  bool
		cuts, cnp uint64
	}{{false, 0, 0}, {true, 1, 1}, {false, 2, 1}, {true, 3, 2}} {
		e.control.Rate = line / units.Rate(1+i)
		if want.notified {
			q.Unwrap().(*fakenic.QP).CNPCount++
		}
		p.post(q, p.write(1, 4096))
		p.run(units.Never)
		p.poll(p.cq)
		if s := p.shim.Stats(); s.Cuts.Total() != want.cuts || s.Cuts[paced.ByCNP] != want.cnp {
			t.Errorf("after %d: cuts %v, expected %+v", i, s.Cuts, want)
		}
	}
}
