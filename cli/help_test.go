package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// Every command has examples, and they are calls of it with flags that it has.
func TestHelpHasExamples(t *testing.T) {
	oneGoroutine(t)
	root := newRoot(nil)
	for _, c := range root.Commands() {
		if !c.Runnable() || c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		if c.Example == "" {
			t.Errorf("sluice %s --help has no example", c.Name())
		}
		own := false
		for line := range strings.Lines(c.Example) {
			call, _, _ := strings.Cut(strings.TrimSpace(line), "  #")
			if _, after, piped := strings.Cut(call, "| "); piped {
				call = after
			}
			args := strings.Fields(strings.NewReplacer("'", "").Replace(call))
			if len(args) < 2 || args[0] != "sluice" {
				t.Errorf("sluice %s --help: %q is no call of sluice", c.Name(), line)
				continue
			}
			if i := strings.Index(call, " > "); i >= 0 {
				args = strings.Fields(call[:i])
			}
			called, rest, err := newRoot(nil).Find(args[1:])
			if err != nil || !called.HasParent() {
				t.Errorf("sluice %s --help: %q: no such command (%v)", c.Name(), call, err)
				continue
			}
			own = own || called.Name() == c.Name() || called.Parent().Name() == c.Name()
			if err := parse(called, rest); err != nil {
				t.Errorf("sluice %s --help: %q: %v", c.Name(), call, err)
			}
		}
		if c.Example != "" && !own {
			t.Errorf("sluice %s --help shows no call of it", c.Name())
		}
	}
}

func parse(c *cobra.Command, args []string) error {
	if err := c.ParseFlags(args); err != nil {
		return err
	}
	if c.Args == nil {
		return nil
	}
	return c.Args(c, c.Flags().Args())
}

// The topic has every kind and engine.
func TestScenarioTopic(t *testing.T) {
	text := scenarioTopic()
	for _, want := range []string{
		"fabric.pfc\n", "topology, kind fat-tree", "workloads[], kind incast", "systems[].config, engine timely",
		"  receiver     text              h10  (required)", "t_low", "  mtu ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in it", want)
		}
	}
}
