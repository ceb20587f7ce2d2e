package scenario_test

import (
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/scenario"
)

// A system takes an engine's parameters from a set, and its own change those.
func TestParameterSets(t *testing.T) {
	load := func(system string) (*scenario.Scenario, error) {
		return scenario.Parse("s.yaml", []byte("extends: powertcp-incast\nsystems: ["+system+"]\n"))
	}
	s, err := load("{engine: powertcp, set: artefact, config: {gamma: 0.8}}")
	if err != nil {
		t.Fatal(err)
	}
	if c := s.Systems[0].ConfigMap(); c["eta"] != 0.95 || c["gamma"] != 0.8 {
		t.Errorf("eta %v, gamma %v, want the artefact's 0.95 and the system's own 0.8", c["eta"], c["gamma"])
	}
	for system, want := range map[string]string{
		"{engine: powertcp, set: artifact}": `systems[0].set: engine powertcp has no set of parameters called "artifact"`,
		"{engine: swift, set: artefact}":    `systems[0].set: engine swift has no set of parameters called "artefact"`,
	} {
		if _, err := load(system); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", system, err, want)
		}
	}
}
