package scenario

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/units"
)

const used = `
topology: {kind: star, hosts: 2}
systems: [{use: TIMELY, name: low, config: {t_low: 20us}}, {use: PowerTCP}]
workloads: [{kind: permutation, size: 1MB}]
`

func TestUse(t *testing.T) {
	s, err := Parse("x.yaml", []byte(used), "systems[PowerTCP].config.gamma=0.5", "systems[low].config.beta=0.7")
	if err != nil {
		t.Fatal(err)
	}
	low, power := s.Systems[0], s.Systems[1]
	if low.Name != "low" || low.Engine != "timely" || low.ConfigMap()["t_low"] != (20*units.Microsecond).String() {
		t.Errorf("%s %s %v", low.Name, low.Engine, low.ConfigMap())
	}
	if power.Name != "PowerTCP" || power.Engine != "powertcp" {
		t.Errorf("%s %s", power.Name, power.Engine)
	}
	s, err = Parse("x.yaml", []byte(used), "systems=[{use: Swift}]")
	if err != nil || s.Systems[0].Engine != "swift" {
		t.Errorf("of an override: %v", err)
	}
	for text, want := range map[string]string{
		"{use: Timely}":                   "x.yaml:3: systems[0].use: there is no such system of the papers: take one of DCQCN, ",
		"{use: TIMELY, engine: swift}":    "x.yaml:3: systems[0].use: the system has its engine",
		"{use: [TIMELY]}":                 "no such system",
		"{use: TIMELY, config: {low: 1}}": "no such key",
	} {
		_, err := Parse("x.yaml", []byte(strings.Replace(used, "{use: TIMELY, name: low, config: {t_low: 20us}}", text, 1)))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Each of the papers' systems is whole by itself.
func TestPaperSystems(t *testing.T) {
	for _, name := range PaperSystems() {
		text := used
		if name == "reTCP" { // which lives on circuits
			text = circuitsText
		}
		s, err := Parse("x.yaml", []byte(text), "systems=[{use: '"+name+"'}]")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if s.Systems[0].Name != name {
			t.Errorf("%s is called %s", name, s.Systems[0].Name)
		}
	}
}

// Reproductions are scenarios like the built-in ones, and no name is there twice.
func TestReproductions(t *testing.T) {
	taken := map[string]bool{}
	for _, name := range slices.Concat(Builtins(), Speeds()) {
		taken[name] = true
	}
	for _, name := range Reproductions() {
		if taken[name] {
			t.Errorf("there is a built-in scenario %s, too", name)
		}
		s, err := Load(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if s.Name != name || s.Description == "" || s.Source == "" {
			t.Errorf("%s is called %q, described by %q, from %q", name, s.Name, s.Description, s.Source)
		}
	}
}
