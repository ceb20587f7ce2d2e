package paced_test

import (
	"testing"

	"github.com/sluice-rdma/sluice/calibration"
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
)

// poller drives the bench as a host that looks only every so often.
func (p *bench) poller(every, until units.Time) {
	p.t.Helper()
	for p.w.Now() < until {
		p.w.RunUntil(p.w.Now() + every)
		if err := p.shim.Progress(p.w.Now().Long()); err != nil {
			p.t.Fatal(err)
		}
	}
}

// A host that polls late sees the round trips that the NIC saw (TIMELY section
// 3.1 and figure 11), as far as the NIC's clock can be known.
func TestNICTimestampsBeatPolling(t *testing.T) {
	for name, c := range map[string]struct {
		tune    func(*bench)
		every   units.Time // CalibrateEvery
		fromNIC bool
	}{
		"mlx5's counter":          {every: 100 * units.Millisecond, fromNIC: true, tune: func(p *bench) { p.a.ClockHz, p.a.ClockPPM, p.a.ClockBits = 156.25e6, 37, 41 }},
		"it wraps":                {every: 10 * units.Millisecond, fromNIC: true, tune: func(p *bench) { p.a.ClockHz, p.a.ClockPPM, p.a.ClockBits, p.a.ClockStart = 1e9, -80, 32, 1<<32-5e6 }},
		"no counter":              {every: 100 * units.Millisecond},
		"it can't be read":        {every: 100 * units.Millisecond, tune: func(p *bench) { p.a.ClockHz, p.a.NoReadClock = 1e9, true }},
		"nobody wants it":         {every: 0, tune: func(p *bench) { p.a.ClockHz = 1e9 }},
		"it drifts beyond reason": {every: 100 * units.Millisecond, tune: func(p *bench) { p.a.ClockHz, p.a.ClockPPM = 1e9, 5000 }},
	} {
		t.Run(name, func(t *testing.T) {
			e := &fixed{control: cc.Control{Rate: 500 * units.Mbps, Window: cc.Unlimited}}
			cfg := steered(e)
			cfg.CalibrateEvery = c.every
			p := newBench(t, cfg, c.tune)
			q, _ := p.connect(defaultCap())
			for range 20 {
				p.post(q, p.write(1, 200_000))
				p.poller(37*us, p.w.Now()+4*units.Millisecond)
				p.poll(p.cq)
			}
			var worst units.Time
			late := 0
			for _, a := range e.acks {
				if off := a.NetRTT - latency; off < 0 {
					worst = max(worst, -off)
				} else {
					worst = max(worst, off)
				}
				if a.NetRTT > latency+5*us {
					late++
				}
				if a.Now < a.SentAt {
					t.Fatalf("acknowledged at %v, sent at %v", a.Now, a.SentAt)
				}
			}
			s := p.shim.Stats()
			if c.fromNIC {
				// A millisecond goes by before the drift is known: 80 ns at 80 ppm.
				if worst > 100*units.Nanosecond {
					t.Errorf("a round trip is off by %v", worst)
				}
				if s.PollTime != 0 || s.NICTime != uint64(len(e.acks)) {
					t.Errorf("%d times by the NIC and %d by polling", s.NICTime, s.PollTime)
				}
				if st := p.shim.Calibration(); st.Reason != calibration.Trusted || st.Bound > 100*units.Nanosecond {
					t.Errorf("calibration %+v", st)
				}
				now := p.w.Now()
				ticks, err := p.shim.ReadClock()
				host, bound, ok := p.shim.ToHost(ticks)
				if off := host.Time() - now; err != nil || !ok || off > bound || -off > bound {
					t.Errorf("the counter of %v is mapped to %v, give or take %v, %v, %v", now, host, bound, ok, err)
				}
				return
			}
			if s.NICTime > s.PollTime/10 {
				t.Errorf("%d times by the NIC and %d by polling", s.NICTime, s.PollTime)
			}
			if late == 0 {
				t.Error("polling every 37 us sees the right round trips: the test shows nothing")
			}
			if st := p.shim.Calibration(); st.Reason == calibration.Trusted {
				t.Errorf("calibration %+v", st)
			}
			if host, _, ok := p.shim.ToHost(1); ok {
				t.Errorf("a timestamp is mapped to %v", host)
			}
		})
	}
}

func TestTheApplicationGetsTimestamps(t *testing.T) {
	cfg := paced.DefaultConfig()
	p := newBench(t, cfg, func(p *bench) { p.a.ClockHz = 1e9 })
	q, _ := p.connect(defaultCap())
	p.post(q, p.write(1, 40_000))
	p.run(units.Never)
	done := line.Serialize(40_000) + latency
	if wcs := p.poll(p.cq); len(wcs) != 1 || wcs[0].Timestamp != uint64(done/units.Nanosecond) {
		t.Errorf("completions %+v, want a timestamp of %v", wcs, done)
	}
	if _, err := p.shim.CreateCQ(verbs.CQInitAttr{CQE: 1, Timestamps: true}); err != nil {
		t.Error(err)
	}
}

func TestReadingTheClockMayFail(t *testing.T) {
	cfg := paced.DefaultConfig()
	cfg.CalibrateEvery = 2 * units.Millisecond
	p := newBench(t, cfg, func(p *bench) { p.a.ClockHz = 1e9 })
	q, _ := p.connect(defaultCap())
	p.a.NoReadClock = true
	p.a.Latency = 100 * units.Millisecond
	p.post(q, p.write(1, 1))
	p.run(units.Never)
	if n := p.shim.Stats().ClockErrors; n < 10 || n > 60 {
		t.Errorf("%d attempts in 100 ms, at most every 2 ms", n)
	}
	if len(p.poll(p.cq)) != 1 {
		t.Error("the request did not complete")
	}
}

// Nothing outstanding, nothing to do: a simulation comes to rest and a sleeper
// sleeps.
func TestAnIdleShimHasNoDeadline(t *testing.T) {
	p := newBench(t, paced.DefaultConfig(), func(p *bench) { p.a.ClockHz = 1e9 })
	q, _ := p.connect(defaultCap())
	if d := p.shim.Deadline().Time(); d != units.Never {
		t.Errorf("the deadline before the first request is %v", d)
	}
	p.w.RunUntil(units.Second)
	p.post(q, p.write(1, 1<<20))
	if d := p.shim.Deadline().Time(); d > p.w.Now() {
		t.Errorf("with work and a reading of the clock overdue, the deadline is %v", d)
	}
	p.run(units.Never)
	if d := p.shim.Deadline().Time(); d != units.Never {
		t.Errorf("the deadline after the last is %v", d)
	}
}

// A call at a time that the caller gives is at that time, also where it reads the NIC's clock:
// what is due later does not leave.
func TestReadingTheClockKeepsTheCallersTime(t *testing.T) {
	e := &fixed{control: cc.Control{Rate: 50 * units.Mbps, Window: cc.Unlimited}}
	cfg := steered(e)
	cfg.CalibrateEvery = 100 * units.Millisecond
	p := newBench(t, cfg, func(p *bench) { p.a.ClockHz = 1e9 })
	q, _ := p.connect(defaultCap())
	p.post(q, p.write(1, 2*16<<10))
	due := (50 * units.Mbps).Serialize(16 * units.KiB)
	p.w.RunUntil(2 * due)
	for _, c := range []struct {
		at   units.Time
		sent int
	}{{due - us, 1}, {due, 2}} {
		if err := p.shim.Progress(c.at.Long()); err != nil {
			t.Fatal(err)
		}
		if len(p.posts) != c.sent {
			t.Errorf("at %v: %d segments have left, want %d", c.at, len(p.posts), c.sent)
		}
	}
}
