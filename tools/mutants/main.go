package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
}

func command(ctx context.Context, args []string, out io.Writer) error {
	verb := ""
	if len(args) > 0 {
		verb = args[0]
	}
	switch verb {
	case "check":
		all, err := planted()
		if err != nil {
			return err
		}
		if err := errors.Join(fit(os.DirFS("."), all), fitAlike(os.DirFS("."), alike)); err != nil {
			return err
		}
		fmt.Fprintf(out, "mutants: %d faults, ok\n", len(all))
		return nil
	case "plant":
		return plant(ctx, args[1:], out)
	case "auto":
		return auto(ctx, args[1:], out)
	}
	return fmt.Errorf("expected check, plant or auto, got %q", verb)
}

// auto is the command of that name.
func auto(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("mutants auto [flags] PACKAGE...", flag.ContinueOnError)
	sample := flags.Int("sample", 100, "how many mutants, drawn from all; -1 for all of them")
	seed := flags.Uint64("seed", 1, "of the draw")
	at := flags.String("at", "", "change these places only: FILE:LINE or FILE:LINE:COLUMN, with commas between")
	limit := flags.Duration("limit", 0, "how long the tests of a package may take; 0 for ten times what they take now")
	long := flags.Bool("long", false, "run the tests without -short")
	asJSON := flags.Bool("json", false, "write JSON")
	quiet := flags.Bool("quiet", false, "write the survivors and the table only")
	also := flags.String("also", "", "packages whose tests judge, too, with commas between, such as ./verbs/verbstest")
	storm := flags.Bool("storm", false, "judge by storms instead of unit tests")
	seeds := flags.Int("seeds", 100, "of storms, over each provider")
	if err := flags.Parse(args); err != nil {
		return usage(err)
	}
	if flags.NArg() == 0 {
		return errors.New("auto: name the packages to change, such as ./ratelimiter")
	}
	w, err := newWorkspace(".")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	var j judge = &byTests{tests: tests{w: w, limit: *limit, long: *long}, also: fields(*also)}
	if *storm {
		j = &byStorms{storms{w: w, seeds: *seeds, limit: *limit}}
	}
	var results []*Result
	leftOut := map[string]string{}
	known, err := reasons(alike)
	if err != nil {
		return err
	}
	candidates, err := w.auto(ctx, flags.Args(), draw{*sample, *seed, *at, known}, j, func(r *Result) {
		results = append(results, r)
		if !*quiet || !r.Found {
			fmt.Fprintln(progress(out, *asJSON), r.line())
		}
	}, func(m *Mutant, why string) {
		leftOut[m.FullName()] = why
		fmt.Fprintf(progress(out, *asJSON), "left out  %s: %s: %s\n", m.FullName(), m.Breaks, why)
	})
	if err != nil {
		return err
	}
	if *asJSON {
		return writeJSON(out, map[string]any{"packages": flags.Args(), "candidates": candidates, "seed": *seed, "mutants": results, "left_out": leftOut})
	}
	fmt.Fprintf(out, "\n%s: %d of %d possible changes, drawn by seed %d; %d more make no difference\n", strings.Join(flags.Args(), " "), len(results), candidates, *seed, len(leftOut))
	if err := table(out, "package", tally(results, (*Result).Dir), *storm); err != nil {
		return err
	}
	fmt.Fprintln(out)
	return table(out, "operator", tally(results, func(r *Result) string { return r.Kind }), *storm)
}

// fields are the parts of a list with commas.
func fields(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' })
}

// Dir is the mutant's package.
func (r *Result) Dir() string { return r.Mutant.Dir() }

// plant is the command of that name.
func plant(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("mutants plant [flags]", flag.ContinueOnError)
	groups := flags.String("group", "", "the groups to plant, with commas between; all if empty")
	kinds := flags.String("kind", "", "the kinds to plant, with commas between; all if empty")
	names := flags.String("name", "", "the faults to plant, with commas between; all if empty")
	limit := flags.Duration("limit", 0, "how long the tests of a package, or the seeds of a provider, may take; 0 for ten times what they take now")
	long := flags.Bool("long", false, "run the tests without -short")
	storm := flags.Bool("storm", false, "judge by storms instead of unit tests")
	seeds := flags.Int("seeds", 300, "of storms, over each provider")
	asJSON := flags.Bool("json", false, "write JSON")
	if err := flags.Parse(args); err != nil {
		return usage(err)
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("plant: unexpected %q", flags.Arg(0))
	}
	all, err := planted()
	if err != nil {
		return err
	}
	chosen := slices.DeleteFunc(all, func(m *Mutant) bool {
		return !matches(*groups, m.Group) || !matches(*kinds, m.Kind) || !matches(*names, m.Name, m.FullName())
	})
	if len(chosen) == 0 {
		return errors.New("plant: no fault has that group, kind and name")
	}
	w, err := newWorkspace(".")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	judge, err := judgeOf(ctx, w, chosen, *limit, *long, *storm, *seeds)
	if err != nil {
		return err
	}
	var results []*Result
	for _, m := range chosen {
		v, err := judge(ctx, m)
		if err != nil {
			return fmt.Errorf("%s: %w", m.FullName(), err)
		}
		r := &Result{m, v}
		results = append(results, r)
		fmt.Fprintln(progress(out, *asJSON), r.line())
	}
	if *asJSON {
		return writeJSON(out, map[string]any{"mutants": results})
	}
	fmt.Fprintln(out)
	if err := table(out, "group", tally(results, func(r *Result) string { return r.Group }), *storm); err != nil {
		return err
	}
	fmt.Fprintln(out)
	return table(out, "kind", tally(results, func(r *Result) string { return r.Kind }), *storm)
}

// judgeOf returns the judge of the chosen mutants, and has made sure that it finds nothing
// in the tree as it is.
func judgeOf(ctx context.Context, w *workspace, chosen []*Mutant, limit time.Duration, long, storm bool, seeds int) (
	func(context.Context, *Mutant) (*Verdict, error), error,
) {
	var groups, packages []string
	for _, m := range chosen {
		groups = append(groups, m.Group)
		packages = append(packages, testsOf(m)...)
	}
	if storm {
		s := &storms{w: w, seeds: seeds, limit: limit}
		return func(ctx context.Context, m *Mutant) (*Verdict, error) { return s.judge(ctx, m, over[m.Group]) }, s.calibrate(ctx, groups)
	}
	t := &tests{w: w, limit: limit, long: long}
	slices.Sort(packages)
	return func(ctx context.Context, m *Mutant) (*Verdict, error) { return t.judge(ctx, m, testsOf(m)) },
		t.calibrate(ctx, slices.Compact(packages))
}

// progress returns the writer for the lines of single mutants.
func progress(out io.Writer, asJSON bool) io.Writer {
	if asJSON {
		return os.Stderr
	}
	return out
}

func usage(err error) error {
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(0)
	}
	return err
}

// matches reports whether a list with commas is empty or has one of the values.
func matches(list string, values ...string) bool {
	return list == "" || slices.ContainsFunc(strings.Split(list, ","), func(s string) bool { return slices.Contains(values, s) })
}

// besides are the packages whose tests run a group's code, beside the code's own.
var besides = map[string][]string{
	"transport": {"./verbs/softroce/internal/endpoint"},
	"shim":      {"./verbs/paced/internal/core", "./verbs/paced"},
	"shards":    {"./verbs/paced"},
}

// testsOf returns the packages whose tests judge a planted fault, its own first.
func testsOf(m *Mutant) []string {
	own := "./" + m.Dir()
	return slices.Concat([]string{own}, slices.DeleteFunc(slices.Clone(besides[m.Group]), func(p string) bool { return p == own }))
}
