package perf

import (
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	_ "github.com/sluice-rdma/sluice/cc/all"
	"github.com/sluice-rdma/sluice/units"
)

// Whatever an engine is set to, it says what is wrong or an engine can be asked for.
func FuzzSettings(f *testing.F) {
	for _, s := range cc.Schemes() {
		f.Add(s.Name, "t_low=50us")
	}
	f.Add("timely", "=")
	f.Add("timely", "a: b=[1, {")
	f.Add("poseidon", "m=&a [*a]")
	f.Add("powertcp", "gamma=!!binary x")
	f.Add("timely", "t_low=&b \r*b\n")
	f.Add("timely", "beta=1e999")
	f.Fuzz(func(t *testing.T, name, setting string) {
		scheme, err := cc.Lookup(name)
		if err != nil {
			return
		}
		config := scheme.DefaultConfig()
		if set(config, setting) != nil {
			return
		}
		env := cc.Env{LineRate: 10 * units.Gbps, BaseRTT: 20 * units.Microsecond, MTU: 1024}
		if e, err := scheme.New(config, env); err == nil {
			if c := e.Control(); c.Rate < 0 || c.Rate > env.LineRate {
				t.Errorf("%s with %q begins at %v", name, setting, c.Rate)
			}
		}
	})
}
