package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/internal/infile"
	"github.com/sluice-rdma/sluice/internal/outfile"
	"github.com/sluice-rdma/sluice/scenario"
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
			var inputs []results.Input
			var errs []error
			for i, name := range results.InputNames(files) {
				d, err := results.LoadJSON(files[i])
				if err != nil && isScenario(files[i]) {
					err = fmt.Errorf("%s is a scenario and no result: sluice run %[1]s --json FILE writes one", files[i])
				}
				errs = append(errs, err)
				inputs = append(inputs, results.Input{Name: name, Document: d})
			}
			if err := errors.Join(errs...); err != nil {
				return usageError{err}
			}
			page := func(w io.Writer) error { return results.WriteComparison(w, args, inputs...) }
			if out == "-" {
				return page(c.OutOrStdout())
			}
			if err := outfile.Write(out, page); err != nil {
				return err
			}
			_, err := fmt.Fprintf(c.OutOrStdout(), "report: %s\n", out)
			return err
		},
	}
	cmd.Flags().StringVarP(&out, "output", "o", "report.html", "write the page to `FILE`, or - for standard output")
	return cmd
}

// isScenario reports whether a file is one that sluice run takes, or by its name was meant
// to be.
func isScenario(name string) bool {
	if _, err := os.Stat(name); err != nil {
		return false
	}
	if ext := filepath.Ext(name); ext == ".yaml" || ext == ".yml" {
		return true
	}
	text, err := infile.Read(name, infile.MaxYAML)
	if err != nil {
		return false
	}
	_, err = scenario.Parse(name, text)
	return err == nil
}
