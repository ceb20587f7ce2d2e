package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-rdma/sluice/bench"
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/bench/sweep"
	"github.com/sluice-rdma/sluice/internal/outfile"
	"github.com/sluice-rdma/sluice/internal/rundir"
	"github.com/sluice-rdma/sluice/scenario"
)

// runFlags holds the flags of sluice run.
type runFlags struct {
	sets      []string
	seed      uint64
	seeds     int
	json, csv string
	report    string
	flows     string
	pcap      string
	memory    string
	workers   int
	verbose   bool
	quiet     bool
	trace     traceFlags
}

func newRun(args []string) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run SCENARIO...",
		Short: "Run scenarios and print what they gave",
		Long: `Run scenarios, built-in ones by name or files, and print a table for each. --report,
--csv and --json have the figures over time. "sluice help scenario" lists the keys of a
file.

A run takes all cores: systems run beside each other as far as memory goes, and where
there are fewer of them than cores, each network whose links all have a delay is divided.
The results are the same to the byte with any --workers, except for elapsed times.

An interrupt (Ctrl-C, SIGTERM) ends the run. It then writes tables, --report, --json and
--csv of the systems that were done, and the series of --csv and the flows of --flows-out
up to that time, and names what is missing, also in the JSON. The exit status is 130 (143
for SIGTERM). A second interrupt ends the program at once.

The exit status is 1 if a program of a host (programs:) ended with another than 0.

A file gets its name when it is whole. Until then, and if the disk is full, an older file
of that name stays.`,
		Example: `  sluice run timely-table1
  sluice run my.yaml --set systems[TIMELY].config.t_low=20us --set nic.mtu=4096
  sluice run websearch --seeds 10 --report seeds.html
  sluice run timely-table1 websearch --json results.json --report report.html`,
		Args: someScenarios,
		RunE: func(c *cobra.Command, names []string) error {
			if f.workers < 1 {
				return usageError{fmt.Errorf("--workers %d: give at least 1", f.workers)}
			}
			if c.Flags().Changed("seeds") {
				return f.runSeeds(c, names)
			}
			r := runner{runFlags: f, doc: results.NewDocument(time.Now(), args), table: c.OutOrStdout(), stdout: c.OutOrStdout(), warnings: c.ErrOrStderr()}
			r.options.Workers = f.workers
			if c.Flags().Changed("seed") {
				r.options.Seed = &r.seed
			}
			if f.json == "-" {
				r.table = c.ErrOrStderr() // standard output is for the JSON alone
			}
			if f.quiet {
				r.table = io.Discard
			} else {
				r.progress = newProgress(os.Stderr)
			}
			return r.run(c.Context(), names)
		},
	}
	flags := cmd.Flags()
	addSet(cmd, &f.sets)
	flags.Uint64Var(&f.seed, "seed", 0, "seed of all random choices, in place of the scenario's")
	flags.IntVar(&f.seeds, "seeds", 0, "run with this number of seeds, from --seed or 1 on, and print means with 95 percent intervals")
	flags.StringVar(&f.json, "json", "", "write results as JSON to `FILE`, or - for standard output")
	flags.StringVar(&f.csv, "csv", "", "write figures, and time series as the run goes, as CSV into `DIR`")
	flags.StringVar(&f.report, "report", "", "write an HTML report to `FILE`")
	flags.StringVar(&f.flows, "flows-out", "", "write a row for each flow, as it ends, to `FILE`: .csv, .jsonl or .parquet")
	flags.StringVar(&f.pcap, "pcap", "", "write the packets of staged NICs, as they go on the wire, to `FILE` (pcapng)")
	f.trace.add(cmd)
	flags.StringVar(&f.memory, "memory", "", "refuse networks that would take more than `SIZE` of memory, such as 64GiB; none refuses nothing (default the available memory)")
	flags.IntVar(&f.workers, "workers", runtime.GOMAXPROCS(0), "cores for systems that run beside each other, and for divided networks")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "also print how fast the run was, and which networks were not divided among workers")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "print neither table nor progress")
	flags.Lookup("workers").DefValue = "the cores"
	return cmd
}

// runSeeds runs scenarios with several seeds, as a sweep in a folder of its own that is
// removed.
func (f *runFlags) runSeeds(c *cobra.Command, names []string) error {
	for _, flag := range []string{"csv", "flows-out", "pcap", "trace", "trace-window", "trace-of"} {
		if c.Flags().Changed(flag) {
			return usageError{fmt.Errorf("--%s with --seeds: it is of a single run: leave one of them out", flag)}
		}
	}
	if f.seeds < 1 {
		return usageError{fmt.Errorf("--seeds %d: give at least 1", f.seeds)}
	}
	first := uint64(1)
	if c.Flags().Changed("seed") {
		first = f.seed
	}
	spec, err := sweep.OfRuns(names, f.sets, first, f.seeds)
	if err != nil {
		return usageError{err}
	}
	dir, err := rundir.Make("sluice-seeds-")
	if err != nil {
		return err
	}
	defer func() { _ = dir.Remove() }() // it is a temporary one
	folder := sweep.Dir(filepath.Join(dir.Path, "sweep"))
	p, err := sweep.Make(folder, spec, nil)
	if err != nil {
		return usageError{err}
	}
	memory, err := memoryLimit(f.memory)
	if err != nil {
		return usageError{err}
	}
	o := sweep.Options{Tasks: sweep.Tasks{First: 0, Last: p.Cells - 1}, Jobs: min(f.workers, p.Cells), Memory: memory}
	if most := 2 * p.Sum.MemoryBytes; memory > 0 && most > 0 { // connections come on top of the estimate
		o.Jobs = max(1, min(o.Jobs, int(int64(memory)/most)))
	}
	o.Workers = f.workers / o.Jobs
	var line *progressLine
	if !f.quiet {
		line = newProgress(os.Stderr)
		o.Progress = func(_ *sweep.Cell, d sweep.Done) {
			line.Show(float64(d.Cells)/float64(p.Cells), fmt.Sprintf("%d of %d runs", d.Cells, p.Cells))
		}
	}
	ctx, stop := interruptible(c.Context())
	defer stop()
	done, err := sweep.Run(ctx, folder, o)
	line.Clear()
	if err != nil {
		return err
	}
	if done.Failed > 0 {
		return done.First
	}
	s, err := sweep.Summarize(folder, sweep.Figures())
	if err != nil {
		return err
	}
	if f.json != "" {
		if err := writeOutput(c.OutOrStdout(), f.json, func(w io.Writer) error { return writeJSON(w, s) }); err != nil {
			return err
		}
	}
	out := c.OutOrStdout()
	switch {
	case f.quiet:
		out = io.Discard
	case f.json == "-":
		out = c.ErrOrStderr()
	}
	return writeSummary(out, s, f.report, false)
}

// addSet adds the flag --set. Its values may hold commas.
func addSet(cmd *cobra.Command, sets *[]string) {
	cmd.Flags().StringArrayVar(sets, "set", nil, "change a `KEY=VALUE` of the scenario, such as nic.mtu=4096; may be repeated")
}

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

// manyLinks is from how many links on a network's tables are most of the heap: some
// hundred bytes a direction of a link.
const manyLinks = 1 << 18

// sparing collects garbage earlier, unless GOGC is set, where a network is large: its tables
// stay, so that a heap of twice their size would be mostly what building them left behind.
func sparing(scenarios []*scenario.Scenario) {
	links := 0
	for _, s := range scenarios {
		links = max(links, s.Graph().Links())
	}
	if _, set := os.LookupEnv("GOGC"); set {
		return
	}
	switch {
	case links >= 4*manyLinks:
		debug.SetGCPercent(20)
	case links >= manyLinks:
		debug.SetGCPercent(40)
	}
}

// runner runs scenarios one after the other, their systems beside each other.
type runner struct {
	runFlags
	options  bench.Options
	doc      *results.Document
	table    io.Writer
	stdout   io.Writer
	warnings io.Writer
	progress *progressLine
	series   *results.SeriesLog // nil if none is wanted
}

// run reads every scenario and opens every file before the first run: a run may take
// minutes.
func (r *runner) run(ctx context.Context, names []string) error {
	scenarios, err := r.load(names)
	if err != nil {
		return usageError{err}
	}
	sparing(scenarios)
	filter, err := r.trace.filter(scenarios)
	if err != nil {
		return usageError{err}
	}
	ctx, stop := interruptible(ctx)
	defer stop()
	r.options.Interrupted = func() error { return interrupted(ctx) }
	r.options.Programs = hostPrograms(ctx)
	outputs, err := r.open()
	if err != nil {
		return usageError{err}
	}
	defer outputs.abort() // what is not written by then

	r.writeTo(&outputs, filter)
	warn(r.warnings, scenarios...)
	failed := r.all(scenarios)
	r.doc.Interrupted = errors.As(failed, new(interruption))
	if errors.As(failed, new(usageError)) && len(r.doc.Results) == 0 {
		return failed // nothing was run
	}
	if err := errors.Join(failed, r.write(&outputs)); err != nil {
		return err
	}
	for _, result := range r.doc.Results {
		if len(result.Misses) > 0 {
			return errMissed
		}
	}
	return r.failedPrograms()
}

// warn prints what scenarios ask for that makes figures mislead, and how files beside them
// were read.
func warn(w io.Writer, scenarios ...*scenario.Scenario) {
	for _, s := range scenarios {
		for _, line := range s.Warnings() {
			_, _ = fmt.Fprintln(w, "warning: "+line) // the run does not depend on it
		}
		for _, line := range s.Notes() {
			_, _ = fmt.Fprintln(w, "note: "+line) // the run does not depend on it
		}
	}
}

// failedPrograms says which programs of hosts did not end well.
func (r *runner) failedPrograms() error {
	var errs []error
	for _, result := range r.doc.Results {
		for _, s := range result.Systems {
			for i := range s.Programs {
				if p := &s.Programs[i]; p.Status > 0 {
					errs = append(errs, fmt.Errorf("%s, system %s: programs[%d]: %s on %s ended with exit status %d", result.Scenario, s.Name, i, p.Run[0], p.Host, p.Status))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// load reads scenarios and checks what of them can be checked before they run.
func (r *runner) load(names []string) ([]*scenario.Scenario, error) {
	memory, err := memoryLimit(r.memory)
	if err != nil {
		return nil, err
	}
	r.options.Memory = memory
	var scenarios []*scenario.Scenario
	for _, name := range names {
		s, err := scenario.LoadWithin(memory, name, r.sets...)
		if err != nil {
			if _, other := results.LoadJSON(name); other == nil {
				err = fmt.Errorf("%s is the result of a run, not a scenario: sluice report %[1]s shows it", name)
			}
			return nil, err
		}
		if err := bench.CheckExpectations(s); err != nil {
			return nil, err
		}
		scenarios = append(scenarios, s)
	}
	if r.csv != "" {
		err = bench.CheckCSV(scenarios...)
	}
	return scenarios, err
}

// writeTo sets the options for what is written as runs go.
func (r *runner) writeTo(o *outputs, filter bench.TraceFilter) {
	if o.flows != nil {
		r.options.Flows = o.flows.Write
	}
	if r.series = o.series; r.series != nil {
		r.options.Series = r.series.Write
	}
	if o.pcap != nil {
		r.options.Packets = o.pcap
	}
	switch {
	case o.trace == nil:
	case r.trace.vcd():
		r.options.NICVCD = bench.NewNICVCD(o.trace, filter)
	default:
		r.options.NICTrace = bench.NewNICTrace(o.trace, filter)
	}
	r.options.NoSeries = r.json == "" && r.report == ""
}

// all runs scenarios up to the first that fails: what there is by then is still written.
func (r *runner) all(scenarios []*scenario.Scenario) error {
	for i, s := range scenarios {
		err := r.one(s, i, len(scenarios))
		if r.series != nil {
			err = errors.Join(err, r.series.Close())
		}
		if err != nil {
			for _, later := range scenarios[i+1:] {
				r.missing(later, 0)
			}
			return err
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
	before := cpuTime()
	result, err := bench.Run(s, o)
	took := cpuTime() - before
	r.progress.Clear()
	if at := (scenario.Errors)(nil); errors.As(err, &at) {
		err = usageError{err}
	}
	if result == nil || len(result.Systems) == 0 {
		r.missing(s, 0)
		return errors.Join(err, r.outputsBeside(err))
	}
	r.missing(s, len(result.Systems))
	result.Misses = bench.Misses(s, result)
	r.doc.Results = append(r.doc.Results, result)
	if i > 0 {
		if _, printed := fmt.Fprintln(r.table); printed != nil {
			return errors.Join(err, printed)
		}
	}
	err = errors.Join(err, results.Table(r.table, result), r.outputsBeside(err))
	if r.verbose {
		err = errors.Join(err, howItRan(r.table, result, took))
	}
	return err
}

// howItRan says how fast a run was, and which networks ran on one core, event by event,
// and why.
func howItRan(w io.Writer, r *results.Result, cpu time.Duration) error {
	if cpu > 0 {
		if _, err := fmt.Fprintf(w, "speed: %.3g million packet-hops a second of CPU time, %.3g s in all\n", float64(r.PacketHops)/cpu.Seconds()/1e6, cpu.Seconds()); err != nil {
			return err
		}
	}
	for _, s := range r.Systems {
		if s.Undivided != "" {
			if _, err := fmt.Fprintf(w, "undivided: %s: %s\n", s.Name, s.Undivided); err != nil {
				return err
			}
		}
	}
	return nil
}

// missing notes that the systems of a scenario from one on have no result.
func (r *runner) missing(s *scenario.Scenario, from int) {
	if from == len(s.Systems) {
		return
	}
	m := results.Missing{Scenario: s.Name}
	for _, sys := range s.Systems[from:] {
		m.Systems = append(m.Systems, sys.Name)
	}
	r.doc.Missing = append(r.doc.Missing, m)
}

// outputsBeside shows what programs of hosts printed before an error ended the run.
func (r *runner) outputsBeside(err error) error {
	p := (*bench.ProgramsError)(nil)
	if !errors.As(err, &p) {
		return nil
	}
	r.doc.Missing[len(r.doc.Missing)-1].Programs = p.Programs
	return results.WritePrograms(r.table, p.System, p.Programs)
}

// outputs are the files to write; nil where none is wanted.
type outputs struct {
	json, report, trace, pcap *outfile.File
	flows                     *results.FlowLog
	series                    *results.SeriesLog
}

func (r *runner) open() (o outputs, err error) {
	create := func(name string) *outfile.File {
		if name == "" || name == "-" || err != nil {
			return nil
		}
		var f *outfile.File
		f, err = outfile.Create(name)
		return f
	}
	o.json, o.report, o.trace = create(r.json), create(r.report), create(r.trace.file)
	o.pcap = create(r.pcap)
	if err == nil && r.csv != "" {
		o.series, err = results.CreateSeriesLog(r.csv)
	}
	if err == nil && r.flows != "" {
		o.flows, err = results.CreateFlowLog(r.flows)
	}
	if err != nil {
		o.abort()
	}
	return o, err
}

// abort drops the files that are not written.
func (o *outputs) abort() {
	for _, f := range []*outfile.File{o.json, o.report, o.trace, o.pcap} {
		if f != nil {
			f.Abort()
		}
	}
	if o.flows != nil {
		o.flows.Abort()
	}
}

// commit ends a file that write writes.
func commit(f *outfile.File, write func(io.Writer) error) error {
	if err := write(f); err != nil {
		f.Abort()
		return err
	}
	return f.Commit()
}

func (r *runner) write(o *outputs) error {
	var errs []error
	say := func(format string, args ...any) error {
		_, err := fmt.Fprintf(r.table, format, args...)
		return err
	}
	// note says what became of a file, unless it could not be written.
	note := func(err error, format string, args ...any) {
		if err == nil {
			err = say(format, args...)
		}
		errs = append(errs, err)
	}
	if len(r.doc.Missing) > 0 {
		var missing []string
		for _, m := range r.doc.Missing {
			missing = append(missing, m.String())
		}
		errs = append(errs, say("\nmissing: %s\n", strings.Join(missing, ", ")))
	}
	json := func(w io.Writer) error { return results.WriteJSON(w, r.doc) }
	switch {
	case r.json == "-":
		errs = append(errs, json(r.stdout))
	case o.json != nil:
		errs = append(errs, commit(o.json, json))
	}
	if o.trace != nil {
		what := ""
		err := commit(o.trace, func(io.Writer) (err error) { what, err = r.endTrace(); return err })
		note(err, "\ntrace: %s, %s\n", r.trace.file, what)
	}
	if o.pcap != nil {
		note(o.pcap.Commit(), "\npackets: %s\n", r.pcap)
	}
	some := len(r.doc.Results) > 0
	if o.report != nil && some {
		note(commit(o.report, func(w io.Writer) error { return results.WriteHTML(w, r.doc) }), "\nreport: %s\n", r.report)
	}
	if r.csv != "" && some {
		errs = append(errs, results.WriteCSV(r.csv, r.doc.Results...))
	}
	if o.flows != nil {
		errs = append(errs, o.flows.Close())
	}
	return errors.Join(errs...)
}

// endTrace writes the rest of the trace, and says how much it is.
func (r *runner) endTrace() (string, error) {
	if v := r.options.NICVCD; v != nil {
		err := v.Close()
		return fmt.Sprintf("%d changes", v.Changes()), err
	}
	return fmt.Sprintf("%d spans", r.options.NICTrace.Events()), r.options.NICTrace.Close()
}
