package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/sluice-rdma/sluice/bench"
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/internal/markdown"
	"github.com/sluice-rdma/sluice/scenario"
)

// randomScenarios is the number of scenarios drawn; each runs with fewSeeds.
const randomScenarios = 120

// off is an error that is counted: beyond 5 percent and twice its standard error.
func off(err, standard float64) bool { return math.Abs(err) > 0.05+2*standard }

// drawn is a scenario's source of choices.
type drawn struct{ *rand.Rand }

func (d *drawn) of(choices ...string) string { return choices[d.IntN(len(choices))] }

// scenario draws a star with one to three workloads under an engine.
func (d *drawn) scenario(engine string) string {
	hosts := 3 + d.IntN(6)
	var b strings.Builder
	fmt.Fprintf(&b, "duration: 2ms\nmeasure: {sample: 20us}\n")
	rate, preset := d.of("25Gbps", "100Gbps", "200Gbps"), d.of("cx5", "cx6dx", "cx7")
	if rate == "200Gbps" {
		preset = "cx7" // PCIe limits the others, and has no rate in reduced NICs
	}
	fmt.Fprintf(&b, "topology: {kind: star, hosts: %d, host_rate: %s, host_delay: %s}\n", hosts, rate, d.of("500ns", "1us"))
	ecn := ""
	if engine == "dctcp" || engine == "dcqcn" {
		ecn = ", ecn: {kmin: 100KB, kmax: 400KB, pmax: 0.2}"
	}
	fmt.Fprintf(&b, "fabric: {pfc: {enabled: true}%s}\n", ecn)
	fmt.Fprintf(&b, "nic: {mode: offload, preset: %s, mtu: %s, ack_every: %s}\n", preset, d.of("1024", "4096"), d.of("1", "4", "16"))
	fmt.Fprintf(&b, "systems: [{engine: %s}]\nworkloads:\n", engine)
	for i := range 1 + d.IntN(3) {
		fmt.Fprintf(&b, "  - {name: w%d, kind: %s}\n", i, d.workload(hosts))
	}
	return b.String()
}

func (d *drawn) workload(hosts int) string {
	operation := d.of("write", "write", "read")
	switch d.IntN(7) {
	case 0:
		var flows []string
		for range 1 + d.IntN(4) {
			src := d.IntN(hosts)
			dst := (src + 1 + d.IntN(hosts-1)) % hosts
			flows = append(flows, fmt.Sprintf("{src: h%d, dst: h%d, size: %s}", src, dst, d.of("unlimited", "1MB", "100KB")))
		}
		return fmt.Sprintf("flows, operation: %s, flows: [%s]", operation, strings.Join(flows, ", "))
	case 1:
		return fmt.Sprintf("incast, operation: %s, receiver: h0, senders: [h1..h%d], size: %s, connections: %s, jitter: 20us", operation, 1+d.IntN(hosts-1), d.of("unlimited", "300KB", "1MB"), d.of("1", "2", "3"))
	case 2:
		return fmt.Sprintf("permutation, operation: %s, size: %s, jitter: 20us", operation, d.of("unlimited", "500KB"))
	case 3:
		return fmt.Sprintf("storage, reads: %s, block: %s, outstanding: %s, stop: 1800us", d.of("0", "0.3", "0.7", "1"), d.of("alistorage", "4KB", "64KB", "8KB..256KB"), d.of("1", "4", "16"))
	case 4:
		return fmt.Sprintf("rpc, request: %s, response: %s, outstanding: %s, service: %s, stop: 1800us", d.of("64B", "1KB", "16KB"), d.of("64B", "4KB", "64KB"), d.of("1", "4", "8"), d.of("0", "5us"))
	case 5:
		return fmt.Sprintf("on-off, senders: [h0], receivers: [h%d], on: 100us, off: 100us", 1+d.IntN(hosts-1))
	}
	return fmt.Sprintf("poisson, operation: %s, sizes: %s, load: %s, stop: 1500us", operation, d.of("websearch", "alistorage", "hadoop"), d.of("0.3", "0.6"))
}

// random compares the models on scenarios that are drawn, by engine.
func random(b *strings.Builder) error {
	engines := []string{"none", "timely", "swift", "dctcp", "dcqcn", "hpcc", "powertcp", "poseidon"}
	compared := columns[:4]
	head := []string{"engine", "scenarios"}
	for _, c := range compared {
		head = append(head, strings.TrimSuffix(c.title, " (Gbps)")+": median, largest error", "beyond")
	}
	t := markdown.NewTable(b, head...)
	for e, engine := range engines {
		scenarios, beyond := 0, make([]int, len(compared))
		errs := make([][]float64, len(compared))
		for i := e; i < randomScenarios; i += len(engines) {
			d := drawn{rand.New(rand.NewPCG(uint64(i), 0))}
			text := d.scenario(engine)
			staged, reduced, err := bothModels(fmt.Sprintf("random %d", i), text)
			if err != nil {
				return fmt.Errorf("%w, of\n%s", err, text)
			}
			scenarios++
			for k, c := range compared {
				x, u := mean(staged, 0, c.of)
				y, v := mean(reduced, 0, c.of)
				if math.IsNaN(x) || math.IsNaN(y) {
					continue
				}
				err := y/x - 1
				errs[k] = append(errs[k], math.Abs(err))
				if off(err, math.Hypot(u, v)) {
					beyond[k]++
				}
			}
		}
		cells := []any{engine, scenarios}
		for k := range compared {
			slices.Sort(errs[k])
			if n := len(errs[k]); n > 0 {
				cells = append(cells, fmt.Sprintf("%.1f, %.1f %%", 100*errs[k][n/2], 100*errs[k][n-1]), fmt.Sprintf("%d of %d", beyond[k], n))
			} else {
				cells = append(cells, "", "")
			}
		}
		t.Row(cells...)
	}
	return nil
}

// bothModels are the results of a scenario with either model, by seed.
func bothModels(name, text string) (staged, reduced []*results.Result, err error) {
	for seed := range fewSeeds {
		for _, x := range []struct {
			model string
			to    *[]*results.Result
		}{{scenario.ModelStaged, &staged}, {scenario.ModelReduced, &reduced}} {
			s, err := scenario.Parse(name, []byte(text), "nic.model="+x.model, fmt.Sprintf("seed=%d", seed+1))
			if err != nil {
				return nil, nil, err
			}
			r, err := bench.Run(s, bench.Options{})
			if err != nil {
				return nil, nil, err
			}
			*x.to = append(*x.to, r)
		}
	}
	return staged, reduced, nil
}
