package cli

import (
	"github.com/spf13/cobra"

	"github.com/sluice-rdma/sluice/scenario"
)

func newShow() *cobra.Command {
	var sets []string
	var full bool
	cmd := &cobra.Command{
		Use:   "show SCENARIO",
		Short: "Print a scenario",
		Long: `Print a built-in scenario or a file: its text as it stands; with --full or
--set, what will be run, with every default written out.`,
		Example: "  sluice show timely-table1 > my.yaml\n  sluice show websearch --set nic.mtu=4096",
		Args:    oneScenario,
		RunE: func(c *cobra.Command, args []string) error {
			s, err := scenario.Load(args[0], sets...)
			if err != nil {
				return usageError{err}
			}
			warn(c.ErrOrStderr(), s)
			text, err := scenario.Source(args[0])
			if full || len(sets) > 0 {
				text, err = s.YAML()
			}
			if err != nil {
				return err
			}
			_, err = c.OutOrStdout().Write(text)
			return err
		},
	}
	addSet(cmd, &sets)
	cmd.Flags().BoolVar(&full, "full", false, "write out every default")
	return cmd
}
