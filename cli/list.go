package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-rdma/sluice/scenario"
)

func newList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List scenarios, engines, NIC presets and size distributions",
		Example: "  sluice list\n  sluice list --json",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			all, err := scenario.List()
			if err != nil {
				return err
			}
			if asJSON {
				e := json.NewEncoder(c.OutOrStdout())
				e.SetEscapeHTML(false)
				e.SetIndent("", "  ")
				return e.Encode(all)
			}
			return writeList(c.OutOrStdout(), all)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

func writeList(w io.Writer, all *scenario.Catalogue) error {
	var b strings.Builder
	for i, part := range []struct {
		title   string
		entries []scenario.Entry
	}{
		{"Scenarios: sluice run NAME", all.Scenarios},
		{"Systems of papers: systems[].use", all.Systems},
		{"Engines: systems[].engine", all.Engines},
		{"NICs: nic.preset", all.NICs},
		{"Flow sizes: workloads[].sizes", all.Sizes},
	} {
		if i > 0 {
			b.WriteString("\n")
		}
		b.WriteString(part.title + "\n")
		width := 0
		for _, e := range part.entries {
			width = max(width, len(e.Name))
		}
		for _, e := range part.entries {
			fmt.Fprintf(&b, "  %-*s  %s\n", width, e.Name, e.Summary)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
