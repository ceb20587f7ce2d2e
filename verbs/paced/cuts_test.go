package paced_test

import (
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	_ "github.com/sluice-rdma/sluice/cc/all"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
	"github.com/sluice-rdma/sluice/verbs/paced/internal/fakenic"
)

// Every answer that lowers rate or window is a cut, counted by its cause.
func TestCutsByCause(t *testing.T) {
	// An engine of the program's own: acknowledgements 2 and 4 lower its rate, 3
	// raises it, and 5 shuts its window a little.
	e := &fixed{control: cc.Control{Rate: 4 * units.Gbps, Window: cc.Unlimited}}
	n := 0
	e.onAck = func(*cc.Ack) {
		n++
		switch n {
		case 2, 4:
			e.control.Rate /= 2
		case 3:
			e.control.Rate *= 2
		case 5:
			e.control.Window = 64 * units.KiB
		}
	}
	p := newBench(t, steered(e), nil)
	q, _ := p.connect(defaultCap())
	var watched []cc.Control
	q.Watch(func(a *cc.Ack, c cc.Control) {
		if a.RTT <= 0 || a.Bytes <= 0 {
			t.Errorf("told of %+v", a)
		}
		watched = append(watched, c)
	})
	p.post(q, p.write(1, 8*16*1024))
	p.run(units.Never)
	var s paced.QPStats
	q.Stats(&s)
	if want := (paced.Cuts{paced.ByRTT: 3}); s.Cuts != want {
		t.Errorf("cuts %v, want %v", s.Cuts, want)
	}
	if s.Floor != 0 || s.Ceiling != 0 {
		t.Errorf("an engine without bounds has %v and %v", s.Floor, s.Ceiling)
	}
	if len(watched) != 8 || watched[0].Rate != 4*units.Gbps || watched[1].Rate != 2*units.Gbps || watched[7].Window != 64*units.KiB {
		t.Errorf("watched %v", watched)
	}
	q.Watch(nil)
	p.post(q, p.write(2, 100))
	p.run(units.Never)
	if len(watched) != 8 {
		t.Error("watched on after Watch(nil)")
	}
}

// What a scheme lives on is what its cuts are by.
func TestCausesOfSchemes(t *testing.T) {
	for _, c := range []struct {
		scheme string
		report verbs.Telemetry
		cnps   uint64
		want   paced.Cause
	}{
		{scheme: "dctcp", report: verbs.Telemetry{ECN: true}, want: paced.ByECN},
		{scheme: "dcqcn", cnps: 1, want: paced.ByCNP},
		{scheme: "poseidon", report: verbs.Telemetry{HasMaxDelay: true, MaxHopDelay: 10 * units.Millisecond}, want: paced.ByTelemetry},
		{scheme: "pulser", report: verbs.Telemetry{EIN: true}, want: paced.ByEIN},
	} {
		t.Run(c.scheme, func(t *testing.T) {
			cfg := uncalibrated()
			cfg.Scheme = c.scheme
			p := newBench(t, cfg, func(p *bench) {
				p.a.Kinds = verbs.ReportsECN | verbs.ReportsEIN | verbs.ReportsMaxDelay | verbs.ReportsPath
				segments := 0
				p.a.Telemetry = func(_ *verbs.WC, r *verbs.Telemetry) bool {
					segments++ // windows begin small
					*r = c.report
					return segments > 10
				}
			})
			q, _ := p.connect(defaultCap())
			q.Unwrap().(*fakenic.QP).CNPCount += c.cnps
			p.post(q, p.write(1, 32*16*1024))
			p.run(units.Never)
			var s paced.QPStats
			q.Stats(&s)
			if s.Cuts[c.want] == 0 {
				t.Errorf("no cut by %v: %v", c.want, s.Cuts)
			}
			for by, n := range s.Cuts {
				if by := paced.Cause(by); n > 0 && by != c.want {
					t.Errorf("%d cuts by %v", n, by)
				}
			}
			if c.scheme == "dcqcn" && (s.Floor <= 0 || s.Ceiling != line) {
				t.Errorf("bounds %v and %v", s.Floor, s.Ceiling)
			}
		})
	}
}
