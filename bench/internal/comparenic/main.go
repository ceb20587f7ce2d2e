// Command comparenic runs built-in scenarios with staged and with reduced NICs and writes
// a section of docs/nic-figures.md: what is reported with each, side by side (make compare-nic).
package main

import (
	"flag"
	"fmt"
	"math"
	"os"
	"strings"

	"github.com/sluice-rdma/sluice/bench"
	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/internal/markdown"
	"github.com/sluice-rdma/sluice/internal/outfile"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/scenario"
)

// A figure is the mean of runs with seeds from 1 to seeds, or to fewSeeds for long runs.
const seeds, fewSeeds = 8, 3

// shorter are overrides for scenarios that take long.
var shorter = map[string][]string{
	"timely-table1": {"duration=60ms", "warmup=20ms"},
	"websearch":     {"duration=8ms", "warmup=1ms", "workloads[0].stop=6ms"},
}

// left are scenarios that are not compared though both models take them, with the reason.
var left = map[string]string{
	"nic-limiter":       "reduced NICs have no rate limiter",
	"websearch-million": "a million flows are what staged NICs are too slow for",
}

// section names the part of the page that this program writes.
const section = "written by make compare-nic"

func main() {
	out := flag.String("o", "", "page whose section to write; standard output without")
	flag.Parse()
	if err := write(*out); err != nil {
		fmt.Fprintln(os.Stderr, "compare-nic:", err)
		os.Exit(1)
	}
}

func write(out string) error {
	var b strings.Builder
	b.WriteString(`
What scenarios report with the staged model and with the [reduced one](nic.md#the-reduced-nic), whose latencies come
from the same preset; the engine is in the NIC with both. ` + "`make compare-nic`" + ` runs all of it and writes this section. The error is
reduced over staged, less 1.

### One flow

One Write over one switch that is idle, 100 Gbps (10 for ` + "`timely10g`, 50 for `cx4lx`" + `), MTU 1024: completion time in us, staged / reduced, error.

`)
	if err := single(&b, "write"); err != nil {
		return err
	}
	b.WriteString("\nOne READ likewise.\n\n")
	if err := single(&b, "read"); err != nil {
		return err
	}
	fmt.Fprintf(&b, `
### An incast of READs

One of five hosts reads 1 MB from each of the others over one switch, 100 Gbps, ECN from 100 to 400 KB: seeds 1 to %d, as below.

`, seeds)
	if err := several(&b, "incast of READs", readIncast); err != nil {
		return err
	}
	b.WriteString(`
### READs and Writes of the same hosts

Each of six hosts at one switch, 100 Gbps, keeps eight blocks under way with the five others; half are read. Sizes are those of Alibaba's block storage, 4.5 ms of them.

`)
	if err := several(&b, "storage at all hosts", storage); err != nil {
		return err
	}
	fmt.Fprintf(&b, `
### Random scenarios

%d stars of 3 to 8 hosts, with one to three workloads of all kinds that both models have, seeds 1 to %d: the median and the largest error of the scenarios' means, without
sign, and in how many it is beyond 5 percent and twice its standard error.

`, randomScenarios, fewSeeds)
	if err := random(&b); err != nil {
		return err
	}
	fmt.Fprintf(&b, `
### Built-in scenarios

Means of seeds 1 to %d, of the long ones 1 to %d: staged / reduced, error, and after ± the standard error of that, from how much seeds differ. Paths
are drawn otherwise, so where there are several, collisions fall elsewhere. Latencies in us.

`, seeds, fewSeeds)
	if err := builtins(&b); err != nil {
		return err
	}
	if out == "" {
		_, err := fmt.Print(b.String())
		return err
	}
	return outfile.WriteSection(out, section, b.String())
}

const oneFlow = `
topology: {kind: star, hosts: 2, host_rate: %s}
duration: 20ms
nic: {preset: %s, mtu: 1024, mode: offload, model: %s}
systems: [{name: none, engine: none}]
workloads: [{kind: flows, flows: [{src: h0, dst: h1, size: %s}], operation: %s}]
`

const readIncast = `
topology: {kind: star, hosts: 5, host_rate: 100Gbps}
duration: 5ms
seed: %d
nic: {mode: offload, model: %s}
fabric: {ecn: {kmin: 100KB, kmax: 400KB}}
systems: [{engine: none}, {engine: timely}, {engine: swift}, {engine: dcqcn}, {engine: dctcp}, {engine: hpcc}, {engine: powertcp}, {engine: poseidon}]
workloads: [{kind: incast, receiver: h4, senders: [h0..h3], size: 1MB, operation: read, jitter: 5us}]
`

const storage = `
topology: {kind: star, hosts: 6, host_rate: 100Gbps}
duration: 5ms
warmup: 500us
seed: %d
nic: {mode: offload, model: %s}
systems: [{engine: none}, {engine: timely}, {engine: swift}, {engine: powertcp}]
workloads: [{kind: storage, reads: 0.5, block: alistorage, outstanding: 8, stop: 4500us}]
`

// several compares the models on a scenario, with several seeds.
func several(b *strings.Builder, name, text string) error {
	var all [2][]*results.Result
	for i, model := range []string{scenario.ModelStaged, scenario.ModelReduced} {
		for seed := range seeds {
			s, err := scenario.Parse(name, fmt.Appendf(nil, text, seed+1, model))
			if err != nil {
				return err
			}
			r, err := bench.Run(s, bench.Options{})
			if err != nil {
				return err
			}
			all[i] = append(all[i], r)
		}
	}
	compare(table(b), name, all[0], all[1])
	return nil
}

func table(b *strings.Builder) *markdown.Table {
	head := []string{"scenario", "engine"}
	for _, c := range columns {
		head = append(head, c.title)
	}
	return markdown.NewTable(b, head...)
}

func single(b *strings.Builder, operation string) error {
	sizes := []string{"1B", "64B", "1000B", "4KB", "64KB", "1MB"}
	t := markdown.NewTable(b, append([]string{""}, sizes...)...)
	for _, preset := range nicmodel.Presets() {
		c, err := nicmodel.Preset(preset)
		if err != nil {
			return err
		}
		if c.Framing != 0 {
			continue // reduced NICs have Ethernet
		}
		rate := "100Gbps"
		switch preset {
		case "timely10g":
			rate = "10Gbps"
		case "cx4lx":
			rate = "50Gbps"
		}
		cells := []any{markdown.Code(preset)}
		for _, size := range sizes {
			var fct [2]float64
			for i, model := range []string{scenario.ModelStaged, scenario.ModelReduced} {
				s, err := scenario.Parse("one flow", fmt.Appendf(nil, oneFlow, rate, preset, model, size, operation))
				if err != nil {
					return err
				}
				r, err := bench.Run(s, bench.Options{})
				if err != nil {
					return err
				}
				fct[i] = float64(r.Systems[0].FCTAvgUs)
			}
			cells = append(cells, fmt.Sprintf("%s / %s, %+.1f %%", digits(fct[0]), digits(fct[1]), 100*(fct[1]/fct[0]-1)))
		}
		t.Row(cells...)
	}
	return nil
}

// columns are the figures that are compared.
var columns = []struct {
	title string
	of    func(s *results.System) stats.Float
}{
	{"payload (Gbps)", func(s *results.System) stats.Float { return s.ThroughputGbps }},
	{"RTT mean", func(s *results.System) stats.Float { return s.RTTAvgUs }},
	{"RTT p99", func(s *results.System) stats.Float { return s.RTTP99Us }},
	{"FCT mean", func(s *results.System) stats.Float { return s.FCTAvgUs }},
	{"FCT p99", func(s *results.System) stats.Float { return s.FCTP99Us }},
	{"slowdown p99 of the smallest flows", func(s *results.System) stats.Float {
		if len(s.Slowdown) == 0 {
			return stats.Unmeasured
		}
		return s.Slowdown[0].P99
	}},
}

func builtins(b *strings.Builder) error {
	t := table(b)
	var not []string
	for _, name := range scenario.Builtins() {
		if why, ok := left[name]; ok {
			not = append(not, fmt.Sprintf("`%s` (%s)", name, why))
			continue
		}
		if _, err := load(name, scenario.ModelReduced, 1); err != nil {
			not = append(not, "`"+name+"`")
			continue
		}
		staged, err := runs(name, scenario.ModelStaged)
		if err != nil {
			return err
		}
		reduced, err := runs(name, scenario.ModelReduced)
		if err != nil {
			return err
		}
		compare(t, name, staged, reduced)
	}
	fmt.Fprintf(b, "\nNot here, as reduced NICs refuse them: %s.\n", strings.Join(not, ", "))
	return nil
}

// runs are the results of a built-in scenario with NICs of a model, by seed.
func runs(name, model string) ([]*results.Result, error) {
	most := seeds
	if shorter[name] != nil {
		most = fewSeeds
	}
	var all []*results.Result
	for seed := range most {
		s, err := load(name, model, seed+1)
		if err != nil {
			return nil, err
		}
		r, err := bench.Run(s, bench.Options{})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, r)
	}
	return all, nil
}

// compare writes the rows of a scenario, one a system.
func compare(t *markdown.Table, name string, staged, reduced []*results.Result) {
	for k, sys := range staged[0].Systems {
		if k > 0 {
			name = ""
		}
		cells := []any{name, sys.Name}
		for _, c := range columns {
			x, u := mean(staged, k, c.of)
			y, v := mean(reduced, k, c.of)
			if math.IsNaN(x) || math.IsNaN(y) {
				cells = append(cells, "")
				continue
			}
			cells = append(cells, fmt.Sprintf("%s / %s, %+.1f ± %.1f %%", digits(x), digits(y), 100*(y/x-1), 100*math.Hypot(u, v)))
		}
		t.Row(cells...)
	}
}

// load returns a built-in scenario with NICs of a model, which have the engine.
func load(name, model string, seed int) (*scenario.Scenario, error) {
	return scenario.Load(name, append([]string{"nic.mode=offload", "nic.model=" + model, fmt.Sprintf("seed=%d", seed)}, shorter[name]...)...)
}

// mean returns the mean of a figure of system k over runs, and its standard error as a
// fraction of it.
func mean(runs []*results.Result, k int, of func(*results.System) stats.Float) (mean, standard float64) {
	n := float64(len(runs))
	for _, r := range runs {
		v := of(r.Systems[k])
		if !v.Measured() {
			return math.NaN(), 0
		}
		mean += float64(v) / n
	}
	for _, r := range runs {
		d := float64(of(r.Systems[k]))/mean - 1
		standard += d * d / (n * (n - 1))
	}
	return mean, math.Sqrt(standard)
}

// digits writes a figure with four digits.
func digits(v float64) string {
	switch {
	case v >= 1000:
		return fmt.Sprintf("%.0f", v)
	case v >= 100:
		return fmt.Sprintf("%.1f", v)
	case v >= 10:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}
