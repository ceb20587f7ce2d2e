package bench

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/scenario"
)

// pulserIncast is one of 24 flows of 20 KB that meets long ones at a port.
const pulserIncast = `name: pulser-incast
duration: 4ms
topology: {kind: leaf-spine, leaves: 2, spines: 2, hosts_per_leaf: 26, host_rate: 25Gbps, trunk_rate: 100Gbps}
fabric: {pfc: {enabled: false}, ecn: {kmin: 40KB, kmax: 40KB, pmax: 1}, ein: {gradient: 0.26666, window: 50, high_water: 50KB}}
systems: [{engine: pulser}]
measure: {sample: 50us, window: 50us, links: ["tor1->h26"]}
workloads:
  - {kind: flows, name: long, flows: [{src: h0, dst: h26, size: unlimited}, {src: h1, dst: h27, size: unlimited}]}
  - {kind: incast, receiver: h26, senders: [h2..h25], size: 20KB, start: 1ms}
`

// resultOf returns a scenario's result in JSON, without its origin.
func resultOf(t *testing.T, s *scenario.Scenario) string {
	t.Helper()
	r := run(t, s)
	r.YAML = ""
	d := &results.Document{Results: []*results.Result{r}}
	d.ClearWall()
	b, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A switch that runs a P4 program gives the results of one that writes the telemetry
// itself, in the same form by the same clock: whole scenarios of the papers, for every
// signal.
func TestProgramsGiveTheResultsOfTheSwitch(t *testing.T) {
	notUnderRace(t)
	for _, c := range []struct {
		scenario string
		set      []string
		programs map[string]string // by clock
	}{
		{"poseidon-multihop", []string{"fabric.telemetry.form=poseidon"}, map[string]string{"v1model": "p4/poseidon_mpd.p4", "tofino": "p4/poseidon_mpd_tna.p4", "tofino2": "p4/poseidon_mpd_tna.p4"}},
		{"poseidon-multihop-2-9", []string{"fabric.telemetry.form=csig-wide", "duration=4ms", "warmup=1ms"}, map[string]string{"v1model": "p4/csig_mpd.p4", "tofino": "p4/csig_mpd_tna.p4"}},
		{"powertcp-incast", []string{"fabric.telemetry.form=csig-wide"}, map[string]string{"v1model": "p4/int.p4", "tofino": "p4/int_tna.p4", "tofino2": "p4/int_tna.p4"}},
		{pulserIncast, []string{"fabric.telemetry.form=csig-wide"}, map[string]string{"v1model": "p4/ein.p4", "tofino": "p4/ein_tna.p4"}},
	} {
		for clock, program := range c.programs {
			name, _, text := strings.Cut(c.scenario, "\n")
			t.Run(name+"/"+program+"/"+clock, func(t *testing.T) {
				result := func(more ...string) string {
					set := slices.Concat(c.set, []string{"fabric.telemetry.clock=" + clock}, more)
					if text {
						return resultOf(t, parse(t, c.scenario, set...))
					}
					return resultOf(t, load(t, name, set...))
				}
				native := result()
				if got := result("fabric.program=" + program); got != native {
					t.Error("the program gives other results")
				}
				if result("fabric.telemetry.form=exact") == native {
					t.Error("exact telemetry gives the same results: the scenario doesn't depend on it")
				}
			})
		}
	}
}

func TestProgramsThatCantRun(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.p4")
	entries := filepath.Join(dir, "entries.stf")
	for name, text := range map[string]string{bad: "#include <core.p4>\ncontrol c( {", entries: "add nothing mac.dst:1 go()\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const form = "fabric.telemetry.form=poseidon"
	for _, c := range []struct {
		name string
		set  []string
		want []string
	}{
		{"missing", []string{form, "fabric.program=p4/mine.p4"}, []string{"fabric.program", "there is no file p4/mine.p4", "p4/poseidon_mpd.p4"}},
		{"faulty", []string{form, "fabric.program=" + bad}, []string{"fabric.program", "bad.p4:2:"}},
		{"entries of no table", []string{form, "fabric.program=p4/poseidon_mpd.p4", "fabric.program_entries=" + entries}, []string{"fabric.program_entries", "entries.stf", "nothing"}},
		{"entries that are missing", []string{form, "fabric.program=p4/poseidon_mpd.p4", "fabric.program_entries=" + entries + "x"}, []string{"fabric.program_entries", "entries.stfx"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Run(load(t, "poseidon-multihop", c.set...), Options{})
			if err == nil {
				t.Fatal("it ran")
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
		})
	}
}
