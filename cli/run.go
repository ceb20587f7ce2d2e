package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-rdma/sluice/bench"
	"github.com/sluice-rdma/sluice/scenario"
)

// runFlags is what sluice run is told.
type runFlags struct {
	sets      []string
	seed      uint64
	json, csv string
	report    string
	flows     string
	quiet     bool
	trace     traceFlags
}

func newRun(args []string) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run SCENARIO...",
		Short: "Run scenarios and print what they gave",
		Long: `Run scenarios, built-in ones by name or files, and print a table for each. What
was measured over time goes to --report, --csv and --json. "sluice help scenario"
lists the keys of a file.

At an interrupt the run ends, and what there is by then is written: the series of
--csv and the flows of --flows-out up to that time, and all of the scenarios that
were done.`,
		Example: `  sluice run timely-table1
  sluice run my.yaml --set systems[TIMELY].config.t_low=20us --set nic.mtu=4096
  sluice run timely-table1 websearch --json results.json --report report.html`,
		Args: someScenarios,
		RunE: func(c *cobra.Command, names []string) error {
			r := runner{runFlags: f, doc: bench.NewDocument(time.Now(), args), table: c.OutOrStdout(), stdout: c.OutOrStdout()}
			if c.Flags().Changed("seed") {
				r.options.Seed = &r.seed
			}
			if f.json == "-" {
				r.table = c.ErrOrStderr() // standard output is for the JSON alone
			}
			if f.quiet {
				r.table = io.Discard
			} else {
				r.progress = bench.NewProgress(os.Stderr)
			}
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			context.AfterFunc(ctx, stop) // a second one ends the program at once
			r.options.Interrupted = func() error {
				if ctx.Err() != nil {
					return errInterrupted
				}
				return nil
			}
			return r.run(names)
		},
	}
	flags := cmd.Flags()
	addSet(cmd, &f.sets)
	flags.Uint64Var(&f.seed, "seed", 0, "seed of all random choices, in place of the scenario's")
	flags.StringVar(&f.json, "json", "", "write results as JSON to `FILE`, or - for standard output")
	flags.StringVar(&f.csv, "csv", "", "write figures, and time series as the run goes, as CSV into `DIR`")
	flags.StringVar(&f.report, "report", "", "write an HTML report to `FILE`")
	flags.StringVar(&f.flows, "flows-out", "", "write a row for each flow, as it ends, to `FILE`: .csv, .jsonl or .parquet")
	f.trace.add(cmd)
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "print neither table nor progress")
	return cmd
}

// addSet adds the flag --set. Its values may hold commas.
func addSet(cmd *cobra.Command, sets *[]string) {
	cmd.Flags().StringArrayVar(sets, "set", nil, "change a `KEY=VALUE` of the scenario, such as nic.mtu=4096; may be repeated")
}

// errInterrupted ends a run at a signal.
var errInterrupted = errors.New("interrupted")

func someScenarios(c *cobra.Command, names []string) error {
	if len(names) == 0 {
		return usageError{fmt.Errorf("%s needs a scenario: a built-in one, which sluice list shows, or a file", c.CommandPath())}
	}
	return nil
}

func oneScenario(c *cobra.Command, names []string) error {
	if len(names) > 1 {
		return usageError{fmt.Errorf("%s takes one scenario, not %d", c.CommandPath(), len(names))}
	}
	return someScenarios(c, names)
}

// runner runs scenarios one after the other.
type runner struct {
	runFlags
	options  bench.Options
	doc      *bench.Document
	table    io.Writer
	stdout   io.Writer
	progress *bench.Progress
	series   *bench.SeriesLog // nil if none is wanted
}

func (r *runner) run(names []string) (err error) {
	// Every scenario is read and every file opened before the first run: a run
	// may take minutes.
	var scenarios []*scenario.Scenario
	for _, name := range names {
		s, err := scenario.Load(name, r.sets...)
		if err == nil {
			err = bench.CheckExpectations(s)
		}
		if err != nil {
			return usageError{err}
		}
		scenarios = append(scenarios, s)
	}
	if r.csv != "" {
		if err := bench.CheckCSV(scenarios...); err != nil {
			return usageError{err}
		}
	}
	filter, err := r.trace.filter(scenarios)
	if err != nil {
		return usageError{err}
	}
	outputs, err := r.open()
	if err != nil {
		return usageError{err}
	}
	defer func() { err = errors.Join(err, outputs.close()) }()

	if outputs.flows != nil {
		r.options.Flows = outputs.flows.Write
	}
	if r.series = outputs.series; r.series != nil {
		r.options.Series = r.series.Write
	}
	switch {
	case outputs.trace == nil:
	case r.trace.vcd():
		r.options.NICVCD = bench.NewNICVCD(outputs.trace, filter)
	default:
		r.options.NICTrace = bench.NewNICTrace(outputs.trace, filter)
	}
	r.options.NoSeries = r.json == "" && r.report == ""
	var failed error
	for i, s := range scenarios {
		failed = r.one(s, i, len(scenarios))
		if r.series != nil {
			failed = errors.Join(failed, r.series.Close())
		}
		if failed != nil {
			break // what there is so far is still written
		}
	}
	if err := errors.Join(failed, r.write(outputs)); err != nil {
		return err
	}
	for _, result := range r.doc.Results {
		if len(result.Misses) > 0 {
			return errMissed
		}
	}
	return nil
}

// one runs scenario i of n and prints its table.
func (r *runner) one(s *scenario.Scenario, i, n int) error {
	o := r.options
	o.Progress = func(done float64, what string) {
		r.progress.Show((float64(i)+done)/float64(n), s.Name+": "+what)
		if r.series != nil {
			_ = r.series.Flush() // an error is also the next row's
		}
	}
	result, err := bench.Run(s, o)
	r.progress.Clear()
	if at := (scenario.Errors)(nil); errors.As(err, &at) {
		return usageError{err}
	} else if err != nil {
		return err
	}
	result.Misses = bench.Misses(s, result)
	r.doc.Results = append(r.doc.Results, result)
	if i > 0 {
		if _, err := fmt.Fprintln(r.table); err != nil {
			return err
		}
	}
	return bench.Table(r.table, result)
}

// outputs are the files to write; nil where none is wanted.
type outputs struct {
	json, report *os.File
	trace        *os.File // under partName until it is whole
	flows        *bench.FlowLog
	series       *bench.SeriesLog
}

func (r *runner) open() (o outputs, err error) {
	create := func(name string) *os.File {
		if name == "" || name == "-" || err != nil {
			return nil
		}
		var f *os.File
		f, err = os.Create(name)
		return f
	}
	o.json, o.report, o.trace = create(r.json), create(r.report), create(partName(r.trace.file))
	if err == nil && r.csv != "" {
		o.series, err = bench.CreateSeriesLog(r.csv)
	}
	if err == nil && r.flows != "" {
		o.flows, err = bench.CreateFlowLog(r.flows)
	}
	if err != nil {
		return o, errors.Join(err, o.close())
	}
	return o, nil
}

// partName is what a file is called that is not whole yet.
func partName(name string) string {
	if name == "" {
		return ""
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return name // a device or a pipe is written as it comes
	}
	return name + ".part"
}

func (o *outputs) close() error {
	var errs []error
	for _, f := range []*os.File{o.json, o.report, o.trace} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	if o.flows != nil {
		errs = append(errs, o.flows.Close())
	}
	if o.series != nil {
		errs = append(errs, o.series.Close())
	}
	return errors.Join(errs...)
}

// writeTrace ends the trace, which then has its name.
func (r *runner) writeTrace(o outputs) error {
	var err error
	var what string
	if v := r.options.NICVCD; v != nil {
		err = v.Close()
		what = fmt.Sprintf("%d changes", v.Changes())
	} else {
		err = r.options.NICTrace.Close()
		what = fmt.Sprintf("%d spans", r.options.NICTrace.Events())
	}
	if part := o.trace.Name(); err == nil && part != r.trace.file {
		err = os.Rename(part, r.trace.file)
	}
	_, printed := fmt.Fprintf(r.table, "\ntrace: %s, %s\n", r.trace.file, what)
	return errors.Join(err, printed)
}

func (r *runner) write(o outputs) error {
	var errs []error
	switch {
	case r.json == "-":
		errs = append(errs, bench.WriteJSON(r.stdout, r.doc))
	case o.json != nil:
		errs = append(errs, bench.WriteJSON(o.json, r.doc))
	}
	if o.trace != nil {
		errs = append(errs, r.writeTrace(o))
	}
	if o.report != nil {
		errs = append(errs, bench.WriteHTML(o.report, r.doc))
		_, err := fmt.Fprintf(r.table, "\nreport: %s\n", r.report)
		errs = append(errs, err)
	}
	if r.csv != "" {
		errs = append(errs, bench.WriteCSV(r.csv, r.doc.Results...))
	}
	return errors.Join(errs...)
}
