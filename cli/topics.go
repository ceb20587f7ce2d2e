package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/scenario"
)

// newScenarioTopic returns the page of sluice help scenario: no command.
func newScenarioTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "scenario",
		Short: "The keys of a scenario file",
		Long:  scenarioTopic(),
	}
}

const scenarioIntro = `A scenario is a YAML file that says what to simulate:

  duration: 20ms
  topology: {kind: star, hosts: 9, host_rate: 25Gbps}
  systems:
    - {name: TIMELY, engine: timely, config: {t_low: 20us}}
    - {name: PowerTCP, engine: powertcp}
  workloads:
    - {kind: incast, receiver: h8, senders: 8, size: unlimited}
  measure: {links: [tor0->h8]}

Times, rates and sizes have units (20us, 25Gbps, 16KiB, 1MB). Hosts are h0, h1, ...;
links are named by their ends, tor0->h8. "extends: NAME" begins where another scenario
ends, and --set KEY=VALUE changes a key for one run. "sluice show NAME" prints a
built-in scenario, "sluice show --full FILE" one with every default. docs/scenarios.md
says what each key means.

All keys, with what they take, an example, and in parentheses the default:
`

func scenarioTopic() string {
	var b strings.Builder
	b.WriteString(scenarioIntro)
	sections := scenario.Schema()
	for _, e := range cc.Schemes() {
		s := scenario.EngineSchema(e)
		s.Path = "systems[].config"
		sections = append(sections, s)
	}
	for _, s := range sections {
		writeSection(&b, &s)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func writeSection(b *strings.Builder, s *scenario.Section) {
	if len(s.Keys) == 0 {
		return
	}
	title := s.Path
	if title == "" {
		title = "the top"
	}
	switch {
	case s.Path == "systems[].config":
		title += ", engine " + s.Kind
	case s.Kind != "":
		title += ", kind " + s.Kind
	}
	fmt.Fprintf(b, "\n%s\n", title)
	width := 0
	for _, k := range s.Keys {
		width = max(width, len(k.Name))
	}
	for _, k := range s.Keys {
		example := k.Example
		if example == "" {
			example = k.Apart
		}
		line := fmt.Sprintf("  %-*s  %-16s  %s", width, k.Name, k.Value, example)
		switch {
		case k.Required:
			line += "  (required)"
		case k.Default != "":
			line += "  (" + k.Default + ")"
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}
