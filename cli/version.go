package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-rdma/sluice/internal/version"
)

func newVersion() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit and what is built in",
		Long: `Print which Sluice this is: version, commit, Go and platform, and whether devices of
libibverbs are built in. Reports and JSON have the same. make build writes the commit into
the program; go build does not with -buildvcs=false, or where there is no git.`,
		Example: "  sluice version\n  sluice version --json",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			id := version.Get()
			if asJSON {
				e := json.NewEncoder(c.OutOrStdout())
				e.SetEscapeHTML(false)
				e.SetIndent("", "  ")
				return e.Encode(id)
			}
			_, err := io.WriteString(c.OutOrStdout(), versionText(id))
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

// versionText returns the output of sluice version: the identity on the first line.
func versionText(id version.Identity) string {
	var b strings.Builder
	fmt.Fprintf(&b, "sluice %v\n", id)
	if id.Program != "" {
		fmt.Fprintf(&b, "  program: %s\n", id.Program)
	}
	if id.CommitTime != "" {
		fmt.Fprintf(&b, "  committed: %s\n", id.CommitTime)
	}
	has := "built in"
	if !id.IBVerbs {
		has = "left out"
	}
	fmt.Fprintf(&b, "  go: %s %s/%s\n  libibverbs: %s\n", id.Go, id.OS, id.Arch, has)
	return b.String()
}

// noArgs refuses arguments.
func noArgs(c *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%s takes no arguments, not %q", c.CommandPath(), args[0])}
	}
	return nil
}
