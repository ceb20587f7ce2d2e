package docs

import (
	"encoding/json"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// outside is a program of another module, by file: the command with a rate engine and a
// NIC of its own, and a scenario that uses them.
var outside = map[string]string{
	"main.go": `package main

import (
	"github.com/sluice-rdma/sluice/cli"

	_ "example.com/outside/card"
	_ "example.com/outside/steady"
)

func main() { cli.Main() }
`,
	"steady/steady.go": `// Package steady is an engine that sends at one rate.
package steady

import (
	"errors"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/units"
)

func init() {
	cc.Register(cc.Scheme{Name: "steady", Summary: "one rate, whatever happens"}, defaults, newEngine)
}

type config struct {
	Rate units.Rate ` + "`yaml:\"rate\"`" + `
}

func defaults() config { return config{Rate: 5 * units.Gbps} }

type engine struct{ rate units.Rate }

func newEngine(c config, env cc.Env) (cc.Engine, error) {
	if c.Rate <= 0 {
		return nil, errors.New("steady: the rate must be above 0")
	}
	return engine{min(c.Rate, env.LineRate)}, env.Validate()
}

func (e engine) Control() cc.Control             { return cc.Control{Rate: e.rate, Window: cc.Unlimited} }
func (e engine) OnAck(*cc.Ack) cc.Control        { return e.Control() }
func (e engine) OnLoss(units.Time) cc.Control    { return e.Control() }
func (e engine) OnTimeout(units.Time) cc.Control { return e.Control() }
func (e engine) OnCNP(units.Time) cc.Control     { return e.Control() }
`,
	"card/card.go": `// Package card is a NIC with a slow PCIe link.
package card

import (
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/units"
)

func init() {
	c, err := nicmodel.Preset("cx7")
	if err != nil {
		panic(err)
	}
	c.PCIe.Rate = 8 * units.Gbps
	nicmodel.RegisterPreset("slowcard", c)
}
`,
	"two.yaml": `description: An engine and a NIC from outside.
duration: 3ms
warmup: 1ms
topology: {kind: star, hosts: 2, host_rate: 25Gbps}
nic: {preset: slowcard, mode: offload}
systems:
  - {name: steady, engine: steady, config: {rate: 3Gbps}}
  - {name: card, engine: none}
  - {name: wire, engine: none, override: {nic: {preset: cx7}}}
workloads:
  - {kind: incast, receiver: h1, senders: 1, size: unlimited}
`,
}

// TestFromOutside adds an engine and a NIC preset to the command from a module of its own.
// Building fetches nothing: the module needs what Sluice itself is built with.
func TestFromOutside(t *testing.T) {
	if testing.Short() {
		t.Skipf("-short: a program is linked, which takes over ten seconds")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skipf("a module is built by the go command: %v", err)
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	fetchModules(t, root)
	dir := t.TempDir()
	files := maps.Clone(outside)
	files["go.mod"] = "module example.com/outside\n\ngo 1.26\n\nrequire github.com/sluice-rdma/sluice v0.0.0\n\nreplace github.com/sluice-rdma/sluice => " + root + "\n"
	sums, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	files["go.sum"] = string(sums)
	for name, text := range files {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOSUMDB=off", "GOTOOLCHAIN=local", "GOWORK=off")
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, stderr.String())
		}
		return string(out)
	}
	run("go", "build", "-o", "mysluice", ".")
	mine := filepath.Join(dir, "mysluice")

	list := run(mine, "list")
	for _, name := range []string{"steady", "slowcard"} {
		if !slices.Contains(strings.Fields(list), name) {
			t.Errorf("list does not have %s:\n%s", name, list)
		}
	}
	var printed struct {
		Results []struct {
			Systems []struct {
				Name string  `json:"name"`
				Gbps float64 `json:"goodput_gbps"`
			} `json:"systems"`
		} `json:"results"`
	}
	text := run(mine, "run", "two.yaml", "--quiet", "--json", "-")
	if err := json.Unmarshal([]byte(text), &printed); err != nil || len(printed.Results) != 1 {
		t.Fatalf("%v in\n%s", err, text)
	}
	got := map[string]float64{}
	for _, s := range printed.Results[0].Systems {
		got[s.Name] = s.Gbps
	}
	if v := got["steady"]; math.Abs(v-3) > 0.3 {
		t.Errorf("the engine sends at 3 Gbps, and %v Gbps came out", v)
	}
	if v := got["card"]; v < 5 || v > 8 {
		t.Errorf("the NIC's PCIe has 8 Gbps, and %v Gbps came out", v)
	}
	if v := got["wire"]; v < 20 {
		t.Errorf("another NIC sends only %v of 25 Gbps", v)
	}
}
