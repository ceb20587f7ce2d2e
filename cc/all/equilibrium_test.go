package all_test

import (
	"math"
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/cc/enginetest"
	"github.com/sluice-rdma/sluice/cc/hpcc"
	"github.com/sluice-rdma/sluice/cc/powertcp"
	"github.com/sluice-rdma/sluice/cc/thetapowertcp"
	"github.com/sluice-rdma/sluice/units"
)

// balance is the equilibrium of an engine's flows on one link, in means over 2 ms.
type balance struct {
	windows     float64 // bytes that the windows add up to, within 10 percent; 0 for any
	queue       float64 // bytes
	queueWithin float64
	use         float64 // share of the link
	useWithin   float64
}

// TestEquilibriumOnALink has the equilibria that the papers prove of their fluid models,
// with packets, delays and telemetry: 62,500 bytes are the product of rate and round trip.
//
//   - PowerTCP: windows add up to b tau + sum beta, the queue is sum beta,
//     beta b tau / N for each flow. Theta-PowerTCP has the same under congestion (section
//     3.5), without telemetry. Packets are whole: the queue is a packet or two longer.
//   - HPCC: with windows that add up to u b T and no queue, U is u; line 13 leaves them so
//     where u = eta + n W_AI/(b T), which is eta + (1-eta) n/N.
func TestEquilibriumOnALink(t *testing.T) {
	const bdp = 62_500.0
	env := cc.Env{LineRate: 25 * units.Gbps, BaseRTT: 20 * units.Microsecond, MTU: 1000}
	power := func(flows int, n float64) balance {
		sumBeta := float64(flows) * bdp / n
		return balance{windows: bdp + sumBeta, queue: sumBeta, queueWithin: 0.3*sumBeta + 2000, use: 1, useWithin: 0.02}
	}
	type row struct {
		name  string
		blind bool
		flows int
		new   func() (cc.Engine, error)
		want  balance
	}
	var rows []row
	for _, c := range []struct {
		flows int
		n     float64
	}{{2, 20}, {3, 100}, {5, 50}, {10, 50}, {10, 100}} {
		p, theta := powertcp.DefaultConfig(), thetapowertcp.DefaultConfig()
		p.Flows, theta.Flows = c.n, c.n
		rows = append(rows,
			row{"powertcp", false, c.flows, func() (cc.Engine, error) { return powertcp.New(p, env) }, power(c.flows, c.n)},
			row{"theta-powertcp", true, c.flows, func() (cc.Engine, error) { return thetapowertcp.New(theta, env) }, power(c.flows, c.n)})
	}
	for _, c := range []struct {
		flows  int
		eta, n float64
	}{{1, 0.95, 100}, {2, 0.95, 10}, {10, 0.95, 100}, {10, 0.9, 20}, {4, 0.8, 10}} {
		h := hpcc.DefaultConfig()
		h.Eta, h.Flows = c.eta, c.n
		rows = append(rows, row{"hpcc", false, c.flows, func() (cc.Engine, error) { return hpcc.New(h, env) }, balance{
			queueWithin: 0.05 * bdp, use: c.eta + (1-c.eta)*float64(c.flows)/c.n, useWithin: 0.015,
		}})
	}
	for _, r := range rows {
		l := &enginetest.Link{Rate: env.LineRate, Env: env, Blind: r.blind}
		for i := range r.flows {
			e, err := r.new()
			if err != nil {
				t.Fatal(err)
			}
			l.Add(e, units.Time(i)*100*units.Nanosecond)
		}
		l.Run(4 * units.Millisecond)
		before := l.Sent()
		const samples = 500
		queue, windows := 0.0, 0.0
		for range samples {
			l.Run(l.Now() + 4*units.Microsecond)
			queue += float64(l.Queue()) / samples
			for _, f := range l.Flows {
				windows += float64(f.Engine.Control().Window) / samples
			}
		}
		use := units.RateOf(l.Sent()-before, 2*units.Millisecond).Gbps() / 25
		if w := r.want.windows; w > 0 && math.Abs(windows-w) > 0.1*w {
			t.Errorf("%s, %d flows: the windows add up to %.0f, want %.0f", r.name, r.flows, windows, w)
		}
		if math.Abs(queue-r.want.queue) > r.want.queueWithin {
			t.Errorf("%s, %d flows: the queue is %.0f long, want %.0f within %.0f", r.name, r.flows, queue, r.want.queue, r.want.queueWithin)
		}
		if math.Abs(use-r.want.use) > r.want.useWithin {
			t.Errorf("%s, %d flows: the link is used %.4f, want %.4f", r.name, r.flows, use, r.want.use)
		}
	}
}
