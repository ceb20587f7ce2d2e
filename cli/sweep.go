package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/bench/sweep"
	"github.com/sluice-rdma/sluice/internal/outfile"
	"github.com/sluice-rdma/sluice/internal/spelling"
)

func newSweep() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "sweep",
		Short: "Run scenarios over parameters and seeds, on one machine or many",
		Long: `A sweep is all combinations of scenarios, parameters, systems and seeds that a file
names (docs/sweep.md). Plan lists them as cells in a folder. Run runs the cells without a
result: on all cores of one machine, or as one task of an array of Slurm, Kubernetes,
Grid Engine, PBS or GNU parallel, on any number of machines that share the folder, which
is a directory or, as s3://BUCKET/PREFIX, in an object store. A run that is killed loses
the cell under way. Status lists what is missing, merge writes one table of all, and
verify runs some again and compares bytes.`,
		Example: `  sluice sweep plan sweep.yaml -o DIR
  sluice sweep run DIR
  sluice sweep merge DIR -o figures.parquet`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return noCommand(c, args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var endpoint string
	cmd.PersistentFlags().StringVar(&endpoint, "endpoint", "", "`URL` of the object store that has s3://BUCKET/PREFIX (default: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, Amazon's)")
	open := func(name string) (sweep.Folder, error) {
		f, err := sweep.Open(name, endpoint)
		if err != nil {
			return f, usageError{err}
		}
		return f.Waiting(sayWaiting(os.Stderr)), nil
	}
	cmd.AddCommand(newSweepPlan(open), newSweepRun(open), newSweepStatus(open), newSweepMerge(open), newSweepReport(open), newSweepVerify(open))
	return cmd
}

// sayWaiting says on a terminal what an object store is waited for; elsewhere it is nil.
func sayWaiting(f *os.File) func(what string) {
	if newProgress(f) == nil {
		return nil
	}
	return func(what string) { _, _ = fmt.Fprintf(f, "\rwaiting for %s\n", what) } // it is only a word
}

// openSweep opens the folder that a command names.
type openSweep func(name string) (sweep.Folder, error)

// oneFolder is the argument of all commands but plan.
func oneFolder(c *cobra.Command, args []string) error {
	if len(args) != 1 {
		return usageError{fmt.Errorf("%s takes one folder, which sluice sweep plan made, not %d", c.CommandPath(), len(args))}
	}
	return nil
}

// jobFlags say which engines' job files are written.
type jobFlags struct {
	engines map[string]*bool
	options sweep.JobOptions
}

func (f *jobFlags) add(flags *pflag.FlagSet) {
	f.engines = map[string]*bool{}
	for _, e := range sweep.Engines() {
		f.engines[e.Name] = flags.Bool(e.Name, false, "write DIR/"+e.File+", for "+e.Submit)
	}
	flags.StringVar(&f.options.Image, "image", "", "container `IMAGE` that has sluice, for --k8s")
	flags.StringVar(&f.options.Claim, "claim", "", "volume `CLAIM` that has DIR at its root, for --k8s")
	flags.StringVar(&f.options.Secret, "secret", "", "`SECRET` whose keys are the variables of an object store's credentials, for --k8s")
}

// write writes the job files of a plan, and returns the commands that take them.
func (f *jobFlags) write(folder sweep.Folder, p *sweep.Planned) (submit []string, err error) {
	for _, e := range sweep.Engines() {
		if !*f.engines[e.Name] {
			continue
		}
		path, err := sweep.WriteJob(folder, p, e, f.options)
		if err != nil {
			return nil, usageError{err}
		}
		submit = append(submit, e.Submit+" "+path)
	}
	return submit, nil
}

type sweepPlanFlags struct {
	open   openSweep
	out    string
	chunk  int
	jobs   jobFlags
	asJSON bool
}

func newSweepPlan(open openSweep) *cobra.Command {
	f := sweepPlanFlags{open: open}
	cmd := &cobra.Command{
		Use:   "plan FILE -o DIR",
		Short: "List a sweep's cells in a folder",
		Long: `Resolve each combination of a sweep's file and list the cells in DIR/cells.jsonl, with
an estimate of time and memory. A faulty scenario is refused, by its combination. DIR may
have a plan: results of cells that are in both stay.

--slurm, --k8s, --sge and --pbs write the file of an array job beside the plan, or into
the working directory where DIR is in an object store.`,
		Example: "  sluice sweep plan sweep.yaml -o DIR --slurm\n  sbatch DIR/slurm.sbatch",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usageError{fmt.Errorf("%s takes one sweep's file, not %d", c.CommandPath(), len(args))}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error { return f.run(c, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.out, "out", "o", "", "make the plan in `DIR`")
	flags.IntVar(&f.chunk, "chunk", 0, "cells a task of an array runs, in place of the file's `NUMBER`")
	f.jobs.add(flags)
	flags.BoolVar(&f.asJSON, "json", false, "print as JSON")
	return cmd
}

func (f *sweepPlanFlags) run(c *cobra.Command, file string) error {
	if f.out == "" {
		return usageError{errors.New("sluice sweep plan needs --out DIR, the folder for plan and results")}
	}
	s, err := sweep.ReadSpec(file)
	if err != nil {
		return usageError{err}
	}
	if c.Flags().Changed("chunk") {
		if s.Chunk = f.chunk; f.chunk < 1 {
			return usageError{fmt.Errorf("--chunk %d: give at least 1", f.chunk)}
		}
	}
	line := newProgress(os.Stderr)
	folder, err := f.open(f.out)
	if err != nil {
		return err
	}
	p, err := sweep.Make(folder, s, func(done float64) { line.Show(done, s.Name+": planning") })
	line.Clear()
	if err != nil {
		return usageError{err}
	}
	submit, err := f.jobs.write(folder, p)
	if err != nil {
		return err
	}
	if f.asJSON {
		return writeJSON(c.OutOrStdout(), p)
	}
	return p.Print(c.OutOrStdout(), f.out, submit)
}

// writeJSON prints v indented.
func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

type sweepRunFlags struct {
	open          openSweep
	index, memory string
	jobs          int
	quiet         bool
}

func newSweepRun(open openSweep) *cobra.Command {
	f := sweepRunFlags{open: open}
	cmd := &cobra.Command{
		Use:   "run DIR",
		Short: "Run the cells of a sweep that have no result",
		Long: `Run the cells that have no result. A task of an array is as many cells as the plan's
chunk; --index auto takes the task from SLURM_ARRAY_TASK_ID, JOB_COMPLETION_INDEX,
SGE_TASK_ID, PBS_ARRAY_INDEX or PARALLEL_SEQ, and runs all where none is set.

A cell that fails is noted, and the others go on; the exit status is then 1. A second run
runs it again. Results appear whole: at an interrupt, or a kill, only the cells under
way are lost, and several processes may run the same ones.`,
		Example: "  sluice sweep run DIR\n  sluice sweep run DIR --index 17-20\n  seq 24 | parallel -n0 sluice sweep run DIR",
		Args:    oneFolder,
		RunE:    func(c *cobra.Command, args []string) error { return f.run(c, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.index, "index", "auto", "run `TASKS` of the array: auto, K or A-B")
	flags.IntVar(&f.jobs, "jobs", 0, "cells at a time (default: one a core)")
	flags.StringVar(&f.memory, "memory", "", "refuse networks that would take more than `SIZE` of memory; none refuses nothing (default the available memory)")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "print neither counts nor progress")
	return cmd
}

func (f *sweepRunFlags) run(c *cobra.Command, dir string) error {
	folder, err := f.open(dir)
	if err != nil {
		return err
	}
	p, err := folder.Plan()
	if err != nil {
		return usageError{err}
	}
	var o sweep.Options
	if o.Tasks, err = sweep.ParseTasks(f.index, p); err != nil {
		return usageError{err}
	}
	if o.Memory, err = memoryLimit(f.memory); err != nil {
		return usageError{err}
	}
	switch o.Jobs = f.jobs; {
	case f.jobs < 0:
		return usageError{fmt.Errorf("--jobs %d: give 1 or more, or leave it out for one a core", f.jobs)}
	case f.jobs == 0:
		o.Jobs = runtime.GOMAXPROCS(0)
	}
	out := c.OutOrStdout()
	all := min((o.Tasks.Last+1)*p.Chunk, p.Cells) - o.Tasks.First*p.Chunk
	if f.quiet {
		out = io.Discard
	} else {
		line := newProgress(os.Stderr)
		defer line.Clear()
		o.Progress = func(_ *sweep.Cell, d sweep.Done) {
			line.Show(float64(d.Cells)/float64(all), fmt.Sprintf("%s: %d of %d cells", p.Name, d.Cells, all))
		}
	}
	ctx, stop := interruptible(c.Context())
	defer stop()
	done, err := sweep.Run(ctx, folder, o)
	if _, printed := fmt.Fprintf(out, "%s: %d of %d cells have a result: %d ran now, %d had one; %d failed\n", p.Name, done.Ran+done.Before, all, done.Ran, done.Before, done.Failed); err == nil {
		err = printed
	}
	if err == nil && done.Failed > 0 {
		err = fmt.Errorf("%d of %d cells failed: sluice sweep status %s shows why; the first: %w", done.Failed, all, dir, done.First)
	}
	return err
}

func newSweepStatus(open openSweep) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status DIR",
		Short: "Show how far a sweep is, what failed, and what to submit again",
		Args:  oneFolder,
		RunE: func(c *cobra.Command, args []string) error {
			folder, err := open(args[0])
			if err != nil {
				return err
			}
			s, err := folder.Status()
			if err != nil {
				return usageError{err}
			}
			if asJSON {
				return writeJSON(c.OutOrStdout(), s)
			}
			return s.Print(c.OutOrStdout())
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

type sweepMergeFlags struct {
	open    openSweep
	out     []string
	partial bool
}

func newSweepMerge(open openSweep) *cobra.Command {
	f := sweepMergeFlags{open: open}
	cmd := &cobra.Command{
		Use:   "merge DIR -o FILE",
		Short: "Write the figures of all cells as one table",
		Long: `Write one table of all cells' figures, in the plan's order: a row a cell and figure, with
the figure's unit, of the system as a whole and of each label, priority and measured
link. Figures that were not measured have no row. The bytes are the same in whatever
order, and on whatever machines, cells ran. The ending of FILE is the format: .csv or
.parquet; --out may be repeated.`,
		Example: "  sluice sweep merge DIR -o figures.parquet -o figures.csv",
		Args:    oneFolder,
		RunE:    func(c *cobra.Command, args []string) error { return f.run(c.OutOrStdout(), args[0]) },
	}
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.out, "out", "o", nil, "write to `FILE`: .csv or .parquet; may be repeated")
	flags.BoolVar(&f.partial, "partial", false, "leave out the cells that have no result")
	return cmd
}

func (f *sweepMergeFlags) run(stdout io.Writer, dir string) error {
	if len(f.out) == 0 {
		return usageError{errors.New("sluice sweep merge needs --out FILE: .csv or .parquet")}
	}
	folder, err := f.open(dir)
	if err != nil {
		return err
	}
	p, err := folder.Plan()
	if err != nil {
		return usageError{err}
	}
	var files []*outfile.File
	var tables []sweep.Table
	defer func() {
		for _, file := range files {
			file.Abort() // what is not committed by then
		}
	}()
	for _, name := range f.out {
		file, err := outfile.Create(name)
		if err != nil {
			return usageError{err}
		}
		files = append(files, file)
		t, err := sweep.NewTable(file, name, p)
		if err != nil {
			return usageError{err}
		}
		tables = append(tables, t)
	}
	line := newProgress(os.Stderr)
	rows := 0
	cells, err := sweep.Merge(folder, f.partial, func(r *sweep.Row) error {
		rows++
		for _, t := range tables {
			if err := t.Write(r); err != nil {
				return err
			}
		}
		return nil
	}, func(done float64) { line.Show(done, p.Name+": merging") })
	line.Clear()
	if err != nil {
		return err
	}
	for i, t := range tables {
		if err := errors.Join(t.Close(), files[i].Commit()); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(stdout, "%s: %d of %d cells, %d rows\n", p.Name, cells, p.Cells, rows)
	return err
}

type sweepReportFlags struct {
	open    openSweep
	figures []string
	out     string
	asJSON  bool
}

func newSweepReport(open openSweep) *cobra.Command {
	f := sweepReportFlags{open: open}
	cmd := &cobra.Command{
		Use:   "report DIR",
		Short: "Show figures over the seeds: means, intervals, differences",
		Long: `Print a table for each figure and scenario: a row for each combination of parameters, a
column for each system, with the mean over seeds and half of its 95 percent interval. A *
marks a mean that differs from the first system's, by the differences seed by seed. The
page of --out shades the fields by their values, and has the command that runs a cell.
Cells without a result are left out.`,
		Example: "  sluice sweep report DIR\n  sluice sweep report DIR --figure fct_p99_us --figure drops -o sweep.html",
		Args:    oneFolder,
		RunE:    func(c *cobra.Command, args []string) error { return f.run(c.OutOrStdout(), args[0]) },
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.figures, "figure", nil, "show the figure of this `NAME`, as the JSON calls it; may be repeated (default: ten usual ones)")
	flags.StringVarP(&f.out, "out", "o", "", "write an HTML page to `FILE`")
	flags.BoolVar(&f.asJSON, "json", false, "print as JSON")
	return cmd
}

func (f *sweepReportFlags) run(stdout io.Writer, dir string) error {
	known := results.FigureNames(&results.System{})
	for _, name := range f.figures {
		if !slices.Contains(known, name) {
			hint := "take one of " + strings.Join(known, ", ")
			if near := spelling.Nearest(name, known); near != "" {
				hint = fmt.Sprintf("is %q meant?", near)
			}
			return usageError{fmt.Errorf("--figure %s: there is no such figure: %s", name, hint)}
		}
	}
	if f.figures == nil {
		f.figures = sweep.Figures()
	}
	folder, err := f.open(dir)
	if err != nil {
		return err
	}
	s, err := sweep.Summarize(folder, f.figures)
	if err != nil {
		return err
	}
	return writeSummary(stdout, s, f.out, f.asJSON)
}

// writeSummary prints a summary, and writes its page where one is wanted.
func writeSummary(stdout io.Writer, s *sweep.Summary, file string, asJSON bool) error {
	if file != "" {
		if err := outfile.Write(file, s.Page); err != nil {
			return err
		}
	}
	if asJSON {
		return writeJSON(stdout, s)
	}
	return s.Print(stdout)
}

type sweepVerifyFlags struct {
	open   openSweep
	sample string
	seed   uint64
}

func newSweepVerify(open openSweep) *cobra.Command {
	f := sweepVerifyFlags{open: open}
	cmd := &cobra.Command{
		Use:   "verify DIR",
		Short: "Run some cells of a sweep again and compare bytes",
		Long: `Run a sample of the cells that have a result again and compare the bytes of the
results. They are a function of program, scenario and seed: a difference is a fault of
the machine that ran one of the two, or of Sluice. The exit status is then 1.`,
		Example: "  sluice sweep verify DIR --sample 1%",
		Args:    oneFolder,
		RunE:    func(c *cobra.Command, args []string) error { return f.run(c, args[0]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.sample, "sample", "1%", "run this `SHARE` of the cells: 1% or 0.01")
	flags.Uint64Var(&f.seed, "seed", uint64(time.Now().UnixNano()), "choose the cells by `SEED` (default: other ones each time)") //nolint:gosec // any bits will do
	flags.Lookup("seed").DefValue = "0"                                                                                           // prints no other default
	return cmd
}

func (f *sweepVerifyFlags) run(c *cobra.Command, dir string) error {
	share, err := sweep.ParseShare(f.sample)
	if err != nil {
		return usageError{fmt.Errorf("--sample %w", err)}
	}
	folder, err := f.open(dir)
	if err != nil {
		return err
	}
	p, err := folder.Plan()
	if err != nil {
		return usageError{err}
	}
	ctx, stop := interruptible(c.Context())
	defer stop()
	line := newProgress(os.Stderr)
	expected := share * float64(p.Cells)
	ran, differ, err := sweep.Verify(ctx, folder, share, f.seed, func(done int) {
		line.Show(min(1, float64(done)/expected), fmt.Sprintf("%s: %d cells", p.Name, done))
	})
	line.Clear()
	if err != nil {
		return err
	}
	for _, cell := range differ {
		if _, err := fmt.Fprintf(c.OutOrStdout(), "%v differs\n", cell); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintf(c.OutOrStdout(), "%s: %d cells ran again, by seed %d; %d differ\n", p.Name, ran, f.seed, len(differ)); err != nil {
		return err
	}
	if len(differ) > 0 {
		return fmt.Errorf("%d of %d cells differ", len(differ), ran)
	}
	return nil
}
