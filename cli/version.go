package cli

import (
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/sluice-rdma/sluice/bench"
)

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  sluice version",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(c.OutOrStdout(), "sluice %s %s %s/%s\n", bench.ProgramVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

// noArgs refuses arguments.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%s takes no arguments, not %q", c.CommandPath(), args[0])}
	}
	return nil
}
