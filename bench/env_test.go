package bench

import (
	"slices"
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/units"
)

// toldSizes are the sizes that engines of the scheme "told" were told.
var toldSizes []units.Bytes

func init() {
	none, err := cc.Lookup("none")
	if err != nil {
		panic(err)
	}
	cc.Register(cc.Scheme{Name: "told", Summary: "of a test"}, func() toldConfig { return toldConfig{} }, func(_ toldConfig, env cc.Env) (cc.Engine, error) {
		toldSizes = append(toldSizes, env.FlowSize)
		return none.New(none.DefaultConfig(), env)
	})
}

type toldConfig struct{}

// An engine is told the size of its flow, wherever it runs, and 0 of a flow without
// end.
func TestEnginesKnowTheFlowSize(t *testing.T) {
	for _, nic := range []string{"mode: host", "mode: offload", "model: reduced"} {
		s := parse(t, `
duration: 200us
topology: {kind: star, hosts: 3, host_rate: 25Gbps}
nic: {`+nic+`}
systems: [{engine: told}]
workloads: [{kind: flows, flows: [{src: h0, dst: h1, size: 30KB}, {src: h2, dst: h1, size: unlimited}]}]
`)
		sim, err := newSimulation(s.Systems[0], s.Graph(), 1, 0, false)
		if err != nil {
			t.Fatal(err)
		}
		toldSizes = nil
		sim.flows, sim.duration = s.Flows(1).Next, s.Duration
		if err := sim.run(); err != nil {
			t.Fatal(err)
		}
		slices.Sort(toldSizes)
		if got := slices.Compact(toldSizes); !slices.Equal(got, []units.Bytes{0, 30 * units.KB}) {
			t.Errorf("%s: %v", nic, got)
		}
	}
}
