package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/sluice-rdma/sluice/bench"
)

func newReport(args []string) *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "report RESULT.json...",
		Short: "Compare the results of earlier runs in one HTML page",
		Long: `Write one HTML page from the JSON of earlier runs, also of different scenarios
and of earlier versions. Scenarios of one name stand together, a row and a plot for
each system of each file, with their differences.`,
		Example: `  sluice run timely-table1 --json before.json
  sluice run timely-table1 --set systems[TIMELY].config.t_low=20us --json after.json
  sluice report before.json after.json -o compared.html`,
		Args: func(c *cobra.Command, files []string) error {
			if len(files) == 0 {
				return usageError{errors.New("sluice report needs results: files that sluice run --json wrote")}
			}
			return nil
		},
		RunE: func(c *cobra.Command, files []string) error {
			var inputs []bench.Input
			var errs []error
			for i, name := range bench.InputNames(files) {
				d, err := bench.LoadJSON(files[i])
				errs = append(errs, err)
				inputs = append(inputs, bench.Input{Name: name, Document: d})
			}
			if err := errors.Join(errs...); err != nil {
				return usageError{err}
			}
			// Whole or not at all: the file may hold a good page.
			var page bytes.Buffer
			if err := bench.WriteComparison(&page, args, inputs...); err != nil {
				return err
			}
			if out == "-" {
				_, err := page.WriteTo(c.OutOrStdout())
				return err
			}
			if err := os.WriteFile(out, page.Bytes(), 0o666); err != nil {
				return usageError{err}
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "report: %s\n", out)
			return err
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "report.html", "write the page to `FILE`, or - for standard output")
	return cmd
}
