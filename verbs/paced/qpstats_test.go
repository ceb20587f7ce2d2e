package paced_test

import (
	"slices"
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/cc/timely"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs/paced"
)

func TestQPStats(t *testing.T) {
	cfg := uncalibrated()
	cfg.Scheme = "timely"
	p := newBench(t, cfg, nil)
	q, _ := p.connect(defaultCap())
	fill(p.bufA, 1)
	const n = 100_000
	p.post(q, p.write(7, n))
	p.run(units.Never)

	if got := p.shim.QPs(); len(got) != 1 || got[0] != q {
		t.Fatalf("the shim has the queue pairs %v", got)
	}
	var s paced.QPStats
	for range 2 { // the second time over the first's
		q.Stats(&s)
		if s.QPN != q.Num() || s.State != ib.RTS || s.Engine != "timely" || s.Rate <= 0 || s.Window != 0 ||
			s.Messages != 1 || s.Failed != 0 || s.Segments != 7 || s.SegmentBytes != n || s.Outstanding != 0 {
			t.Errorf("%+v", s)
		}
		if s.RTT.Count() != 7 || s.RTT.Sum <= 0 || s.RTT.Quantile(1).Duration() < s.RTT.Sum/7 {
			t.Errorf("%d round trips, the longest below %v, %v together", s.RTT.Count(), s.RTT.Quantile(1), s.RTT.Sum)
		}
		if len(s.Variables) != 3 || !slices.ContainsFunc(s.Variables, func(v paced.Variable) bool { return v.Name == "gradient" }) {
			t.Errorf("variables %v", s.Variables)
		}
	}
}

// An engine of the program's own has a name, too.
func TestQPStatsOfAnEngineOfItsOwn(t *testing.T) {
	cfg := uncalibrated()
	cfg.Scheme = ""
	cfg.Engine = func(e cc.Env) (cc.Engine, error) { return timely.New(timely.DefaultConfig(), e) }
	q, _ := newBench(t, cfg, nil).connect(defaultCap())
	var s paced.QPStats
	if q.Stats(&s); s.Engine != "custom" || s.Ceiling == 0 {
		t.Errorf("%+v", s)
	}
}
