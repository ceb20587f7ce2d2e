package all_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	_ "github.com/sluice-rdma/sluice/cc/all"
	"github.com/sluice-rdma/sluice/cc/timely"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

var env = cc.Env{LineRate: 100 * units.Gbps, BaseRTT: 10 * units.Microsecond, MTU: 4096}

func TestEverySchemeMakesAnEngineFromItsDefaults(t *testing.T) {
	type needs struct {
		kind          telemetry.Kind
		ecn, ein, cnp bool
	}
	want := map[string]needs{
		"none": {}, "timely": {}, "theta-powertcp": {}, "swift": {}, "fast": {}, "retcp": {}, "homa": {}, "ictcp": {},
		"powertcp": {kind: telemetry.PerHop}, "hpcc": {kind: telemetry.PerHop},
		"poseidon": {kind: telemetry.MaxDelay},
		"dcqcn":    {cnp: true},
		"dctcp":    {ecn: true}, "pulser": {ecn: true, ein: true},
	}
	for _, s := range cc.Schemes() {
		needed, ok := want[s.Name]
		if !ok {
			continue // another package's test may register its own
		}
		delete(want, s.Name)
		if (needs{s.Telemetry, s.ECN, s.EIN, s.CNP}) != needed || s.Summary == "" || s.Source == "" {
			t.Errorf("%s is described as %+v", s.Name, s)
		}
		e, err := s.New(s.DefaultConfig(), env)
		if err != nil {
			t.Errorf("%s: %v", s.Name, err)
			continue
		}
		if c := e.Control(); c.Rate != env.LineRate || c.Window < env.MTU || int(c.Class) > s.Classes {
			t.Errorf("%s starts with %+v", s.Name, c)
		}
		if _, granted := e.(cc.Granted); granted != (s.NewReceiver != nil) {
			t.Errorf("%s's engines wait for grants that nobody gives, or the other way round", s.Name)
		}
		if _, err := s.New(struct{}{}, env); err == nil || !strings.Contains(err.Error(), s.Name) {
			t.Errorf("%s took a configuration that is not its own: %v", s.Name, err)
		}
		if _, err := s.New(s.DefaultConfig(), cc.Env{}); err == nil {
			t.Errorf("%s took an empty environment", s.Name)
		}
	}
	for name := range want {
		t.Errorf("%s is not registered", name)
	}
}

// The page of each engine names each of its settings, and each has an example for
// docs/scenarios.md.
func TestDocumentationNamesEverySetting(t *testing.T) {
	for _, s := range cc.Schemes() {
		page, err := os.ReadFile("../../docs/engines/" + s.Name + ".md")
		if err != nil {
			t.Errorf("%s: %v", s.Name, err)
			continue
		}
		for _, name := range settings(t, s.DefaultConfig()) {
			if !strings.Contains(string(page), "`"+name+"`") {
				t.Errorf("docs/engines/%s.md does not say what %s is", s.Name, name)
			}
		}
		index, err := os.ReadFile("../../docs/engines/README.md")
		if err != nil || !strings.Contains(string(index), "("+s.Name+".md)") {
			t.Errorf("docs/engines/README.md does not list %s (%v)", s.Name, err)
		}
	}
}

func Example() {
	scheme, err := cc.Lookup("timely")
	if err != nil {
		panic(err)
	}
	config := scheme.DefaultConfig()
	config.(*timely.Config).TLow = 30 * units.Microsecond // or a decoder fills it
	engine, err := scheme.New(config, env)
	if err != nil {
		panic(err)
	}
	fmt.Println(scheme.Name, engine.Control().Rate)
	// Output: timely 100Gbps
}
