//go:build ibverbs

package ibverbs

import (
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
)

// The lower half of the hybrid is the static rate of the path where RC queue pairs take no
// rate, and their own limit where they do.
func TestHybrid(t *testing.T) {
	for _, c := range []struct {
		name     string
		settings map[string]string
		own      int64 // the program's
		want     int64
	}{
		{"no packet pacing", nil, 0, 14e9},
		{"the program's own", nil, 10e9, 10e9},
		{"packet pacing of raw packets", map[string]string{"RATE_LIMIT": "raw"}, 0, 14e9},
		{"packet pacing of RC", map[string]string{"RATE_LIMIT": "rc"}, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			set(t, c.settings)
			dev, err := verbs.Open("ibv:fake0")
			check(t, err)
			cfg := paced.DefaultConfig()
			cfg.NICRate = 11_300 * units.Mbps
			s, err := paced.Wrap(dev, cfg)
			check(t, err)
			pd, err := s.AllocPD()
			check(t, err)
			cq, err := s.CreateCQ(verbs.CQInitAttr{CQE: 16})
			check(t, err)
			qp, err := pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4}})
			check(t, err)
			index, gid, err := verbs.UsualGID(s, 1)
			check(t, err)
			p := verbs.DefaultRC()
			p.SGIDIndex, p.StaticRate = index, c.own
			me := verbs.Endpoint{GID: gid, QPN: qp.Num()}
			check(t, verbs.ConnectRC(qp, me, me, p))
			a, err := qp.Query()
			check(t, err)
			if a.AV.StaticRate != c.want {
				t.Errorf("a static rate of %d bit/s, want %d", a.AV.StaticRate, c.want)
			}
			if n := s.Stats().NICRateRefused; (n > 0) != (c.own > 0) {
				t.Errorf("the rate was refused %d times", n)
			}
			for _, f := range []func() error{qp.Close, cq.Close, pd.Close, s.Close} {
				check(t, f())
			}
		})
	}
}
