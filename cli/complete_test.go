package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/scenario"
	"github.com/sluice-rdma/sluice/verbs"
)

// completions returns the shell's offers for a command line, without descriptions, and
// the shell's directive.
func completions(t *testing.T, words ...string) (offered []string, directive string) {
	t.Helper()
	var out, diagnostics bytes.Buffer
	if status := run(append([]string{"__complete"}, words...), &out, &diagnostics); status != exitOK {
		t.Fatalf("sluice __complete %q exits with %d: %s", words, status, &diagnostics)
	}
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	last := len(lines) - 1
	for _, l := range lines[:last] {
		name, _, _ := strings.Cut(l, "\t")
		offered = append(offered, name)
	}
	return offered, lines[last]
}

func TestCompletion(t *testing.T) {
	oneGoroutine(t)
	dir := t.TempDir()
	t.Chdir(dir)
	for _, name := range []string{"web.yaml", "web.yml", "web.json", "webs/one.yaml", ".web.yaml", "mine.p4"} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const space, noSpace = ":4", ":6"
	cases := []struct {
		line string // a blank at its end begins a new word
		want string // words
		then string
	}{
		// Scenarios, built in and files, and directories on the way to files.
		{"run timely-table1-f", "timely-table1-fast10 timely-table1-fast100 timely-table1-fast50", space},
		{"run web", "web.yaml web.yml webs/ websearch websearch-million websearch256", space},
		{"run websearch web", "web.yaml web.yml webs/ websearch-million websearch256", space},
		{"run ./web", "./web.yaml ./web.yml ./webs/", space},
		{"run webs/", "webs/one.yaml", space},
		{"run ./webs", "./webs/", noSpace},
		{"run no/where/", "", space},
		{"show quickst", "quickstart", space},
		{"show quickstart ", "", space},
		// Engines: the ones that can pace on a device.
		{"perf write_bw --cc ti", "timely", space},
		{"perf write_bw --cc idea", "", space},
		{"doctor --cc=swi", "swift", space},
		{"replay f --cc timely,s", "timely,swift", space},
		{"replay f --cc timely,ti", "", space}, // it is there
		// Their keys.
		{"perf write_bw --cc timely --cc-set t_", "t_high= t_low=", noSpace},
		{"perf write_bw --cc-set t_", "", noSpace},
		{"perf write_bw --cc nobody --cc-set t_", "", noSpace},
		{"replay f --cc timely,powertcp --set gam", "gamma=", noSpace},
		// Devices.
		{"devices -d sim:lab/", "sim:lab/h0 sim:lab/h1", space},
		{"perf write_bw -d sim:lab/h0 --peer sim:", "sim:lab/h0 sim:lab/h1", space},
		// Keys of a scenario, a step at a time.
		{"run --set ni", "nic.", noSpace},
		{"run --set nic.mt", "nic.mtu=", noSpace},
		{"run --set fabric.pf", "fabric.pfc.", noSpace},
		{"run --set system", "systems[0].", noSpace},
		{"run --set systems[0].config.t_l", "systems[0].config.t_low=", noSpace},
		{"run --set systems[0].override.ni", "systems[0].override.nic.", noSpace},
		{"run --set systems[0].override.nic.mt", "systems[0].override.nic.mtu=", noSpace},
		{"run --set fabric.switches.core0.sw", "fabric.switches.core0.switch_latency=", noSpace},
		{"run --set nowhere.", "", noSpace},
		{"run --set nic.mtu.", "", noSpace},
		{"run --set nic.preset=cx", "nic.preset=cx3 nic.preset=cx4lx nic.preset=cx5 nic.preset=cx6 nic.preset=cx6dx nic.preset=cx6ib nic.preset=cx7", space},
		{"run --set fabric.pfc.enabled=", "fabric.pfc.enabled=true fabric.pfc.enabled=false", space},
		{"run --set systems[0].engine=tim", "systems[0].engine=timely", space},
		// With a scenario, its systems and what their engines take.
		{"run timely-table1 --set systems[T", "systems[TIMELY].", noSpace},
		{"run timely-table1 --set systems[TIMELY].config.t", "systems[TIMELY].config.t_high= systems[TIMELY].config.t_low=", noSpace},
		{"show timely-table1 --set systems[1].config.t_l", "systems[1].config.t_low=", noSpace},
		// Others.
		{"perf atomic_", "atomic_bw atomic_lat", space},
		{"perf atomic_bw ", "", space},
		// Words that flags take.
		{"perf write_bw --mtu 5", "512", space},
		{"perf write_bw --connection ", "RC UC UD", space},
		{"perf write_bw --rate-units ", "g M", space},
		{"perf atomic_bw -A C", "CMP_AND_SWAP", space},
		{"rping --mtu 2", "256 2048", space},
		{"rping --timestamps ", "device wire", space},
		{"reproduce timely-table1-p", "timely-table1-pfc", space},
		{"report web", "web.json webs/", space},
		{"p4 check m", "mine.p4", space},
		{"p4 check p4/csig_mpd.", "p4/csig_mpd.p4", space},
		{"p4 check --target t", "tofino1 tofino2", space},
	}
	for _, c := range cases {
		got, then := completions(t, strings.Split(c.line, " ")...)
		if strings.Join(got, " ") != c.want || then != c.then {
			t.Errorf("sluice %s: %q %s, want %q %s", c.line, got, then, c.want, c.then)
		}
	}

	devices, _ := verbs.Devices()
	if got, _ := completions(t, "doctor", "-d", ""); !slices.Equal(got, devices) {
		t.Errorf("sluice doctor -d: %q, want %q", got, devices)
	}
}

// Whatever the schema has can be typed: each key is offered where it stands.
func TestCompletionHasEveryKey(t *testing.T) {
	oneGoroutine(t)
	check := func(path string, keys []scenario.Key, words ...string) {
		if path != "" {
			path = strings.NewReplacer("[]", "[0]", "NAME", "some").Replace(path) + "."
		}
		got, _ := completions(t, append(append([]string{"run"}, words...), "--set", path)...)
		for _, k := range keys {
			if !slices.ContainsFunc(got, func(o string) bool { return strings.TrimRight(o, ".=[0]") == path+k.Name }) {
				t.Errorf("--set %s: there is no %s in %q", path, k.Name, got)
			}
		}
	}
	for _, s := range scenario.Schema() {
		check(s.Path, s.Keys)
	}
	for _, e := range cc.Schemes() {
		check("systems[].config", scenario.EngineSchema(e).Keys)
	}
}

// A key of a system that the scenario has is that of its engine alone.
func TestCompletionOfOneEngine(t *testing.T) {
	s, err := scenario.Load("timely-table1")
	if err != nil {
		t.Fatal(err)
	}
	sys := s.Systems[slices.IndexFunc(s.Systems, func(s *scenario.System) bool { return s.Name == "TIMELY" })]
	got, _ := completions(t, "run", "timely-table1", "--set", "systems[TIMELY].config.")
	if want := len(scenario.EngineSchema(sys.Scheme).Keys); len(got) != want {
		t.Errorf("%d keys, want the engine's %d: %q", len(got), want, got)
	}
}
