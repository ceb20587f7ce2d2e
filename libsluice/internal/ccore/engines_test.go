package ccore

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/sluice-rdma/sluice/cc"
	_ "github.com/sluice-rdma/sluice/cc/all" // so that none is forgotten
	"github.com/sluice-rdma/sluice/cc/dcqcn"
	"github.com/sluice-rdma/sluice/cc/dctcp"
	"github.com/sluice-rdma/sluice/cc/hpcc"
	"github.com/sluice-rdma/sluice/cc/poseidon"
	"github.com/sluice-rdma/sluice/cc/powertcp"
	"github.com/sluice-rdma/sluice/cc/pulser"
	"github.com/sluice-rdma/sluice/cc/swift"
	"github.com/sluice-rdma/sluice/cc/thetapowertcp"
	"github.com/sluice-rdma/sluice/cc/timely"
	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/units"
)

// engine is one that C has: how Go makes it, and configurations of it.
type engine struct {
	name    string // the tag of core.yaml
	configs []any  // pointers to structs
	make    func(config any, env cc.Env) (cc.Engine, error)
}

func made[C any](name string, make func(C, cc.Env) (cc.Engine, error), defaults func() C, changes ...func(*C)) engine {
	e := engine{name: name, make: func(config any, env cc.Env) (cc.Engine, error) { return make(*config.(*C), env) }}
	if len(changes) == 0 {
		changes = []func(*C){func(*C) {}}
	}
	for _, change := range changes {
		c := defaults()
		change(&c)
		e.configs = append(e.configs, &c)
	}
	return e
}

const us = units.Microsecond

// engines are all variants of core.yaml. Configurations that between them take every branch of
// an engine stand here; one that has no row is tried with its defaults and with each example.
var engines = withOthers([]engine{
	made("timely", timely.New, timely.DefaultConfig,
		func(*timely.Config) {},
		func(c *timely.Config) { c.Patched, c.Delta = true, 500*units.Mbps },
		func(c *timely.Config) { c.TLow, c.THigh, c.Delta, c.MinRTT = 30*us, 60*us, units.Gbps, 0 },
		func(c *timely.Config) {
			c.MaxRate, c.InitialRate, c.HAISteps, c.MaxDecrease = 8*units.Gbps, units.Gbps, 1, 1
		},
		func(c *timely.Config) { *c = timely.ArtefactConfig() }),
	made("swift", swift.New, swift.DefaultConfig,
		func(*swift.Config) {},
		func(c *swift.Config) { c.BaseTarget, c.FSRange, c.AI = 15*us, 0, 3 },
		func(c *swift.Config) { c.EndpointTarget = 3 * us },
		func(c *swift.Config) { c.MaxCwnd, c.InitialCwnd, c.RetxResetThreshold = 0.5, 0.1, 1 }),
	made("swift_plb", swift.New, swift.DefaultConfig,
		func(c *swift.Config) { c.PLB = true },
		func(c *swift.Config) { c.PLB, c.PLBShare, c.PLBIdleRounds, c.PLBRounds = true, 0.1, 1, 2 }),
	made("dcqcn", dcqcn.New, dcqcn.DefaultConfig,
		func(*dcqcn.Config) {},
		func(c *dcqcn.Config) { c.Window, c.G, c.ByteCounter = true, 1.0/16, 100*units.KB },
		func(c *dcqcn.Config) { c.FastRecovery, c.IncreaseTimer, c.AdditiveIncrease = 1, 10*us, units.Gbps },
		func(c *dcqcn.Config) { *c = dcqcn.ArtefactConfig() }),
	made("dctcp", dctcp.New, dctcp.DefaultConfig,
		func(*dctcp.Config) {},
		func(c *dctcp.Config) { c.G, c.InitialAlpha, c.InitialCwnd, c.MinCwnd = 0.5, 0, 100, 1 },
		func(c *dctcp.Config) { *c = dctcp.ArtefactConfig() }),
	made("pulser", pulser.New, pulser.DefaultConfig,
		func(*pulser.Config) {},
		func(c *pulser.Config) { c.SafeCwnd, c.InitialCwnd = 1, 50 }),
	made("powertcp", powertcp.New, powertcp.DefaultConfig,
		func(*powertcp.Config) {},
		func(c *powertcp.Config) { c.OncePerRTT, c.MinCurrent, c.MaxWindow = true, 0, 1e6 },
		func(c *powertcp.Config) { c.Remember, c.Flows, c.BaseRTT = 8, 4, 15*us },
		func(c *powertcp.Config) { *c = powertcp.ArtefactConfig() }),
	made("theta_powertcp", thetapowertcp.New, thetapowertcp.DefaultConfig,
		func(*thetapowertcp.Config) {},
		func(c *thetapowertcp.Config) { c.MinCurrent, c.Flows, c.MaxWindow = 0, 2, 1e6 }),
	made("hpcc", hpcc.New, hpcc.DefaultConfig,
		func(*hpcc.Config) {},
		func(c *hpcc.Config) { c.OncePerRTT, c.AdditiveIncrease = true, 80 },
		func(c *hpcc.Config) { c.MaxStage, c.Eta, c.MaxWindow = 0, 0.5, 1e6 }),
	made("poseidon", poseidon.New, poseidon.DefaultConfig,
		func(*poseidon.Config) {},
		func(c *poseidon.Config) { c.M, c.Brownfield = 0.4, true },
		func(c *poseidon.Config) { c.Signal, c.Target = poseidon.SignalRTT, poseidon.TargetPower },
		func(c *poseidon.Config) { c.Target, c.Update = poseidon.TargetFixed, poseidon.UpdateRatio },
		func(c *poseidon.Config) { c.Scaling, c.Update, c.AI = poseidon.ScalingCwnd, poseidon.UpdateAIMD, 3 }),
})

// changed are configurations of engines that have no row above, as changes of their defaults.
var changed = map[string][]string{
	"fast":  {"{base_rtt: 12us, gamma: 0.9, initial_rate: 1Gbps}", "{base_window: 300us, alpha: 1Gbps}"},
	"retcp": {"{jump_up: 8, jump_down: 3, initial_cwnd: 20}"},
}

// spec is core.yaml's list of engines.
type spec struct {
	Variants []struct{ Tag string }
	Out      map[string]string
}

func readSpec() (s spec, err error) {
	text, err := os.ReadFile("core.yaml")
	if err == nil {
		err = yaml.Unmarshal(text, &s)
	}
	return s, err
}

func tag(s *cc.Scheme) string { return strings.ReplaceAll(s.Name, "-", "_") }

func withOthers(known []engine) []engine {
	in, err := readSpec()
	if err != nil {
		panic(err) // a file beside this one
	}
	for _, s := range cc.Schemes() {
		has := func(e engine) bool { return e.name == tag(&s) }
		variant := func(v struct{ Tag string }) bool { return v.Tag == tag(&s) }
		if slices.ContainsFunc(known, has) || !slices.ContainsFunc(in.Variants, variant) {
			continue
		}
		e := engine{name: tag(&s), make: s.New, configs: []any{s.DefaultConfig()}}
		for i := range reflect.TypeOf(e.configs[0]).Elem().NumField() {
			c := s.DefaultConfig()
			f := reflect.TypeOf(c).Elem().Field(i)
			if err := yaml.Unmarshal([]byte(f.Tag.Get("yaml")+": "+f.Tag.Get("eg")), c); err != nil {
				panic(fmt.Sprintf("%s: the example of %s: %v", s.Name, f.Name, err))
			}
			e.configs = append(e.configs, c)
		}
		for _, change := range changed[s.Name] {
			c := s.DefaultConfig()
			if err := yaml.Unmarshal([]byte(change), c); err != nil {
				panic(fmt.Sprintf("%s: %s: %v", s.Name, change, err))
			}
			e.configs = append(e.configs, c)
		}
		known = append(known, e)
	}
	return known
}

// list is the C that starts each of them.
func list() string {
	var b strings.Builder
	for i, e := range engines {
		config := reflect.TypeOf(e.configs[0]).Elem()
		var read strings.Builder
		for i := range config.NumField() {
			if f := config.Field(i); f.Type.Kind() == reflect.String {
				fmt.Fprintf(&read, "word(&c.%s);", f.Tag.Get("yaml"))
			}
		}
		switch {
		case config.NumField() == 0:
			fmt.Fprintf(&b, "PLAIN(%d, %s)\n", i, e.name)
		case read.Len() > 0:
			fmt.Fprintf(&b, "WORDS(%d, %s, %s)\n", i, e.name, read.String())
		case e.name == "swift_plb":
			fmt.Fprintf(&b, "ENGINE(%d, swift_plb, swift)\n", i)
		default:
			fmt.Fprintf(&b, "ENGINE(%d, %s, %s)\n", i, e.name, e.name)
		}
	}
	fmt.Fprintf(&b, "#define WORD_LIST \"%s\"\n", strings.Join(words, `", "`))
	return b.String()
}

// words are all words that settings take; C gets their indices in this list.
var words = func() (all []string) {
	for _, s := range cc.Schemes() {
		settings, err := field.Describe(reflect.TypeOf(s.DefaultConfig()).Elem())
		if err != nil {
			panic(err) // a tag of the program's own
		}
		for _, s := range settings {
			all = append(all, s.Words...)
		}
	}
	return all
}()

// image is a configuration as C lays it out. Words are 8 bytes there.
func image(t testing.TB, config any) []byte {
	t.Helper()
	var b []byte
	word := func(v uint64) {
		b = append(b, make([]byte, -len(b)&7)...)
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	c := reflect.ValueOf(config).Elem()
	for i := range c.NumField() {
		switch f := c.Field(i); f.Kind() {
		case reflect.Bool:
			b = append(b, 0)
			if f.Bool() {
				b[len(b)-1] = 1
			}
		case reflect.Int, reflect.Int64:
			word(uint64(f.Int()))
		case reflect.Float64:
			word(math.Float64bits(f.Float()))
		case reflect.String:
			word(uint64(slices.Index(words, f.String())))
		default:
			t.Fatalf("a configuration has a %v", f.Type())
		}
	}
	return append(b, make([]byte, -len(b)&7)...)
}

// Every engine of the tree is in C, or the specification says why not.
func TestAllEnginesAreInCOrSaidToBeOut(t *testing.T) {
	spec, err := readSpec()
	if err != nil {
		t.Fatal(err)
	}
	var tested []string
	for _, e := range engines {
		tested = append(tested, e.name)
	}
	for _, v := range spec.Variants {
		if !slices.Contains(tested, v.Tag) {
			t.Errorf("C has %s, which is not held to Go", v.Tag)
		}
	}
	for _, s := range cc.Schemes() {
		in := slices.Contains(tested, tag(&s))
		if out := spec.Out[s.Name] != ""; in == out {
			t.Errorf("the engine %s: in C %v, said to be out %v", s.Name, in, out)
		}
	}
}
