package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-rdma/sluice/bench/reproduce"
	"github.com/sluice-rdma/sluice/bench/sweep"
	"github.com/sluice-rdma/sluice/internal/outfile"
)

// reproduceFlags holds the flags of sluice reproduce.
type reproduceFlags struct {
	all, list, plan, strict, quiet bool
	json, html, markdown           string
	from, verify, sample           string
	seed                           uint64
	options                        reproduce.Options
	job                            jobFlags
}

// missedRows are rows that were missed, where that is an error.
type missedRows []string

func (m missedRows) Error() string { return "rows were missed: " + strings.Join(m, ", ") }

// Is makes it an errMissed.
func (m missedRows) Is(target error) bool { return target == errMissed }

func newReproduce(args []string) *cobra.Command {
	var f reproduceFlags
	cmd := &cobra.Command{
		Use:   "reproduce [ID...]",
		Short: "Run the papers' experiments and hold the results against the papers",
		Long: `Run the experiments of the engines' papers, and print the papers' figures beside
Sluice's. An ID is a row of --list, a paper's name, or a
pattern such as 'poseidon-multihop*'.

Finished runs are kept in --out and used again: after an interrupt, the same command
goes on from there. --out is a sweep's folder (docs/sweep.md): --plan lists the runs
there, with --slurm, --k8s, --sge or --pbs as an array's job file, too. Any number of
machines run them by sluice sweep run DIR; the same command without --plan then runs the
missing ones, and compares all with the papers. After an interrupt the finished rows are
printed and written, the missing ones are named, and the exit status is 130. A row that
misses the paper's figure is no error unless --strict is given.

--verify makes a sample of a report's runs again and compares them with the report. The
exit status is 1 if a run differs.`,
		Example: `  sluice reproduce --list
  sluice reproduce timely-table1-timely
  sluice reproduce --quick --html quick.html
  sluice reproduce --all --json out.json --html out.html
  sluice reproduce --all --out DIR --plan --slurm
  sluice reproduce --verify docs/reproductions.json --sample 5%`,
		RunE: func(c *cobra.Command, ids []string) error {
			f.options.Arguments = args
			return f.run(c, ids)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.all, "all", false, "all rows, at full length")
	flags.BoolVar(&f.options.Quick, "quick", false, "rows in small: all that are there in small, or those named")
	flags.BoolVar(&f.list, "list", false, "list the rows, and run nothing")
	flags.StringVar(&f.json, "json", "", "write the report as JSON to `FILE`, or - for standard output")
	flags.StringVar(&f.html, "html", "", "write the report with plots as an HTML page to `FILE`")
	flags.StringVar(&f.markdown, "markdown", "", "write the report as Markdown to `FILE`")
	flags.StringVar(&f.from, "from", "", "run nothing: take the report that --json wrote to `FILE`")
	flags.StringVar(&f.verify, "verify", "", "make runs of the report that --json wrote to `FILE` again, and compare")
	flags.StringVar(&f.sample, "sample", "1%", "with --verify, make this `SHARE` of the runs: 1% or 0.01")
	flags.Uint64Var(&f.seed, "seed", uint64(time.Now().UnixNano()), "with --verify, choose the runs by `SEED` (default: other ones each time)") //nolint:gosec // any bits will do
	flags.Lookup("seed").DefValue = "0"                                                                                                         // prints no other default
	flags.StringVar(&f.options.Dir, "out", "", "keep finished runs in `DIR` (default: in the user's cache directory)")
	flags.StringVar(&f.options.Endpoint, "endpoint", "", "`URL` of the object store, where --out is s3://BUCKET/PREFIX (default: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, Amazon's)")
	flags.BoolVar(&f.plan, "plan", false, "list the runs in --out for sluice sweep run, and run nothing")
	f.job.add(flags)
	flags.IntVar(&f.options.Jobs, "jobs", 0, "runs at a time (default: one a core)")
	flags.BoolVar(&f.strict, "strict", false, "exit with status 3 if a row is missed")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "print neither table nor progress")
	return cmd
}

func (f *reproduceFlags) run(c *cobra.Command, ids []string) error {
	rows := reproduce.Rows()
	if f.list {
		return reproduce.List(c.OutOrStdout(), rows)
	}
	if err := f.check(c, ids); err != nil {
		return err
	}
	if f.verify != "" {
		return f.verifyReport(c)
	}
	table := c.OutOrStdout()
	if f.json == "-" {
		table = c.ErrOrStderr() // standard output is for the JSON alone
	}
	if f.quiet {
		table = io.Discard
	}
	if err := f.writable(); err != nil { // before the runs, which may take hours
		return err
	}
	if f.plan {
		return f.planRuns(table, rows, ids)
	}
	report, failed := f.report(c.Context(), rows, ids)
	if report == nil {
		return failed
	}
	if err := report.Table(table); err != nil {
		return err
	}
	for _, out := range []struct {
		name  string
		write func(io.Writer) error
	}{{f.json, report.Write}, {f.html, report.Page}, {f.markdown, report.Markdown}} {
		if err := writeOutput(c.OutOrStdout(), out.name, out.write); err != nil {
			return err
		}
	}
	if failed != nil {
		return failed
	}
	if missed := report.Missed(); f.strict && len(missed) > 0 {
		return missedRows(missed)
	}
	return nil
}

// check says which flags and rows do not go together.
func (f *reproduceFlags) check(c *cobra.Command, ids []string) error {
	written := f.json != "" || f.html != "" || f.markdown != ""
	chosen := len(ids) > 0 || f.all || f.options.Quick
	given := c.Flags()
	if f.verify != "" {
		if chosen || f.from != "" || written {
			return usageError{errors.New("--verify takes the report alone: leave out rows, --all, --quick, --from and files to write")}
		}
		return nil
	}
	switch {
	case given.Changed("sample") || given.Changed("seed"):
		return usageError{errors.New("--sample and --seed choose runs of the report that --verify names: give it, or leave them out")}
	case f.from != "" && (chosen || f.html != ""):
		return usageError{errors.New("--from takes a finished report: give no rows with it, and no --html, whose plots it does not have")}
	case f.from == "" && !chosen:
		return usageError{errors.New("sluice reproduce needs rows: name some that --list shows, or give --all or --quick")}
	case f.all && (len(ids) > 0 || f.options.Quick):
		return usageError{errors.New("--all is all rows at full length: leave out the rows and --quick, or --all")}
	case f.plan && (f.from != "" || f.options.Dir == "" || written || f.strict):
		return usageError{errors.New("--plan lists runs in the folder that --out names, and evaluates none: give --out, and no --from, --json, --html, --markdown or --strict")}
	case !f.plan && slices.ContainsFunc(sweep.Engines(), func(e sweep.Engine) bool { return *f.job.engines[e.Name] }):
		return usageError{errors.New("job files are of a plan: give --plan, too")}
	case f.options.Jobs < 0:
		return usageError{fmt.Errorf("--jobs %d: give 1 or more, or leave it out for one a core", f.options.Jobs)}
	}
	return nil
}

// writable says which file to write has no directory, or is one.
func (f *reproduceFlags) writable() error {
	for _, name := range []string{f.json, f.html, f.markdown} {
		if dir := filepath.Dir(name); name != "" && name != "-" {
			if info, err := os.Stat(dir); err != nil || !info.IsDir() {
				return usageError{fmt.Errorf("%s: there is no directory %s", name, dir)}
			}
			if info, err := os.Stat(name); err == nil && info.IsDir() {
				return usageError{fmt.Errorf("%s is a directory: name a file", name)}
			}
		}
	}
	return nil
}

// planRuns lists the runs of rows in a sweep's folder.
func (f *reproduceFlags) planRuns(out io.Writer, rows []*reproduce.Row, ids []string) error {
	rows, err := reproduce.Select(rows, ids)
	if err != nil {
		return usageError{err}
	}
	folder, planned, err := reproduce.PlanRuns(rows, f.options)
	if err != nil {
		return usageError{err}
	}
	submit, err := f.job.write(folder, planned)
	if err != nil {
		return err
	}
	return planned.Print(out, f.options.Dir, submit)
}

// verifyReport makes some runs of a report again.
func (f *reproduceFlags) verifyReport(c *cobra.Command) error {
	share, err := sweep.ParseShare(f.sample)
	if err != nil {
		return usageError{fmt.Errorf("--sample %w", err)}
	}
	report, err := readReport(f.verify)
	if err != nil {
		return err
	}
	ctx, stop := interruptible(c.Context())
	defer stop()
	line := newProgress(os.Stderr)
	show := line.Show
	if f.quiet {
		show = nil
	}
	ran, differ, err := reproduce.Verify(ctx, report, share, f.seed, show)
	line.Clear()
	if err != nil {
		return fmt.Errorf("%s: %w", f.verify, err)
	}
	for _, run := range differ {
		if _, err := fmt.Fprintf(c.OutOrStdout(), "%s differs\n", run); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintf(c.OutOrStdout(), "%s: %d of %d runs made again, by seed %d; %d differ\n", f.verify, ran, report.Runs, f.seed, len(differ)); err != nil {
		return err
	}
	if len(differ) > 0 {
		return fmt.Errorf("%d of %d runs differ from the report, which was made by %s", len(differ), ran, report.Program)
	}
	return nil
}

// readReport reads a report that --json wrote.
func readReport(name string) (*reproduce.Report, error) {
	in, err := os.Open(name)
	if err != nil {
		return nil, usageError{err}
	}
	report, err := reproduce.ReadReport(in)
	if err = errors.Join(err, in.Close()); err != nil {
		return nil, usageError{fmt.Errorf("%s: %w", name, err)}
	}
	return report, nil
}

// report runs rows, or reads what an earlier call wrote. With an error it has the rows
// that were done, or is nil if there are none.
func (f *reproduceFlags) report(ctx context.Context, rows []*reproduce.Row, ids []string) (*reproduce.Report, error) {
	if f.from != "" {
		return readReport(f.from)
	}
	rows, err := reproduce.Select(rows, ids)
	if err != nil {
		return nil, usageError{err}
	}
	if f.options.Dir == "" {
		if f.options.Dir, err = reproduce.DefaultDir(); err != nil {
			return nil, usageError{fmt.Errorf("%w: say with --out where finished runs are to be kept", err)}
		}
	}
	progress := newProgress(os.Stderr)
	if !f.quiet {
		f.options.Progress = progress.Show
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	report, err := reproduce.Do(ctx, rows, f.options)
	progress.Clear()
	if dir := (reproduce.DirError{}); errors.As(err, &dir) {
		return nil, usageError{err}
	}
	return report, err
}

// writeOutput writes a file; - is standard output, and no name nothing.
func writeOutput(stdout io.Writer, name string, write func(io.Writer) error) error {
	switch name {
	case "":
		return nil
	case "-":
		return write(stdout)
	}
	return outfile.Write(name, write)
}
