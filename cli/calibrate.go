package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/calibration"
	"github.com/sluice-rdma/sluice/cli/internal/clocks"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/wirestamp"
)

// calibrateVersion is the version of the JSON that sluice calibrate writes.
const calibrateVersion = 1

type (
	calibrateDocument struct {
		Version     int                 `json:"version"`
		StartTime   string              `json:"start_time"`
		Arguments   []string            `json:"arguments"`
		Environment results.Environment `json:"environment"`
		Results     []*calibrateResult  `json:"results"`
	}
	calibrateResult struct {
		Device  string           `json:"device"`
		Source  calibrateSource  `json:"source"`
		Passed  []passedSource   `json:"passed"`
		Points  []calibratePoint `json:"points"`
		Trusted bool             `json:"trusted"` // at the end
		State   string           `json:"state"`
		// What the calibration came to at the end. The bounds are null if it is
		// not trusted.
		DriftPPM      float64  `json:"drift_ppm"`
		DriftBoundPPM float64  `json:"drift_bound_ppm"`
		BoundNS       *float64 `json:"bound_ns"`
		MinBoundNS    *float64 `json:"bound_min_ns"`
		MaxBoundNS    *float64 `json:"bound_max_ns"`
		Restarts      int      `json:"restarts"`
		ReadError     string   `json:"read_error,omitempty"`  // the last one
		Interrupted   bool     `json:"interrupted,omitempty"` // before --duration was over
		PTP           *ptpLine `json:"ptp,omitempty"`
	}
	calibrateSource struct {
		Kind   string  `json:"kind"`
		Name   string  `json:"name"`
		Method string  `json:"method"`
		Why    string  `json:"why"`
		Hz     float64 `json:"nominal_hz"`
		Bits   int     `json:"bits"`
	}
	passedSource struct {
		Kind string `json:"kind"`
		Why  string `json:"why"`
	}
	calibratePoint struct {
		TimeS         float64  `json:"time_s"`
		OffsetNS      float64  `json:"offset_ns"`
		DriftPPM      float64  `json:"drift_ppm"`
		DriftBoundPPM float64  `json:"drift_bound_ppm"`
		BoundNS       *float64 `json:"bound_ns"`
		BracketNS     float64  `json:"bracket_ns"`
		Taken         int      `json:"readings"`
		Failed        int      `json:"readings_failed"`
		State         string   `json:"state"`
		Generation    uint32   `json:"generation"`
	}
	// ptpLine compares the PTP clock of a device with its counter.
	ptpLine struct {
		Name          string   `json:"name"`
		Method        string   `json:"method"`
		Verdict       string   `json:"verdict"`
		RatePPM       float64  `json:"rate_difference_ppm"`
		RateBoundPPM  *float64 `json:"rate_difference_bound_ppm"`
		OffsetNS      *float64 `json:"offset_ns"`
		OffsetBoundNS *float64 `json:"offset_bound_ns"`
		text          string
	}
)

// calibrateFlags holds the flags of sluice calibrate.
type calibrateFlags struct {
	dev, netdev, source         string
	duration, interval, maximum string
	json, quiet                 bool
}

func newCalibrate(args []string) *cobra.Command {
	var f calibrateFlags
	cmd := &cobra.Command{
		Use:   "calibrate",
		Short: "Calibrate a device's clock against the host's, and show how well it is known",
		Long: `Calibrate the clock that stamps a device's completions against the host's, as the
shim does, and show over time what the clock gained on the host's (offset), how
much slower it runs than its nominal rate (drift), and how far off a mapped
timestamp can be (bound). It takes the best clock that the device has and says
why: the device's counter (nic), the PTP hardware clock of the network
interface (ptp), stamps that an eBPF program takes of packets (wire), the host's
clock at the time of polling (host). docs/calibration.md explains the columns.
An interrupt ends it early: it prints what it has, with exit status 130.`,
		Example: `  sluice calibrate
  sluice calibrate -d soft:eth0 --duration 10s --interval 1s
  sluice calibrate -d ibv:mlx5_0 --source ptp --max-bound 1us`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c, args) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&f.dev, "ib-dev", "d", "sim:lab/h0", "`DEVICE`, as sluice devices lists them")
	flags.StringVar(&f.netdev, "netdev", "", "network `INTERFACE` whose PTP clock and packets count (default that of the device's port 1)")
	flags.StringVar(&f.source, "source", "any", "take one `KIND` of clock: nic, ptp, wire, host or any")
	flags.StringVar(&f.duration, "duration", "10s", "calibrate for a `TIME` of the device's clock")
	flags.StringVar(&f.interval, "interval", "100ms", "show a row each `TIME`")
	flags.StringVar(&f.maximum, "max-bound", "", "exit with 3 unless the bound is trusted at the end and at most `TIME`")
	flags.BoolVar(&f.json, "json", false, "print the result as JSON")
	flags.BoolVar(&f.quiet, "quiet", false, "leave the rows out")
	return cmd
}

func (f *calibrateFlags) run(c *cobra.Command, args []string) error {
	start := time.Now()
	kind, err := clocks.ParseKind(f.source)
	if err != nil {
		return usageError{fmt.Errorf("--source: %w", err)}
	}
	var duration, interval, most units.Time
	for _, x := range []struct {
		flag, text, unit string
		to               *units.Time
	}{{"--duration", f.duration, "s", &duration}, {"--interval", f.interval, "ms", &interval}, {"--max-bound", f.maximum, "us", &most}} {
		if x.text == "" && x.to == &most {
			continue
		}
		if *x.to, err = units.ParseTime(x.text); err != nil {
			return usageError{fmt.Errorf("%s: %w", x.flag, units.SuggestUnit(err, x.unit))}
		}
		if *x.to <= 0 || *x.to > 24*3600*units.Second {
			return usageError{fmt.Errorf("%s %s: give a time above 0 and at most a day", x.flag, x.text)}
		}
	}
	if interval < units.Millisecond {
		return usageError{fmt.Errorf("--interval %s: give at least 1ms", f.interval)}
	}
	dev, err := verbs.Open(f.dev)
	if err != nil {
		return usageError{err}
	}
	ctx, stop := interruptible(c.Context())
	defer stop()
	out := c.OutOrStdout()
	var result *calibrateResult
	err = verbs.Run(dev, func() error {
		choice, err := clocks.Choose(dev, clocks.Options{Netdev: f.netdev, Only: kind, Wire: wire})
		if err != nil {
			return usageError{err}
		}
		dev = choice.Device
		result = newCalibrateResult(choice)
		var each func(*calibratePoint)
		if !f.json {
			if err := result.head(out, f.quiet); err != nil {
				return err
			}
			if !f.quiet {
				each = func(p *calibratePoint) { p.write(out) }
			}
		}
		return errors.Join(result.watch(ctx, choice, duration, interval, each), choice.Close())
	})
	if err := errors.Join(err, dev.Close()); err != nil {
		return err
	}
	broken := interrupted(ctx)
	result.Interrupted = broken != nil
	if f.json {
		doc := results.NewDocument(start, args)
		e := json.NewEncoder(out)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		err = e.Encode(calibrateDocument{calibrateVersion, doc.StartTime, doc.Arguments, doc.Environment, []*calibrateResult{result}})
	} else {
		err = result.foot(out)
	}
	if broken != nil {
		return errors.Join(err, broken)
	}
	if err == nil && most > 0 && (!result.Trusted || *result.BoundNS > most.Nanoseconds()) {
		return fmt.Errorf("--max-bound %s: %w", f.maximum, errMissed)
	}
	return err
}

// wire is wirestamp.Wrap, as clocks.Choose wants it.
func wire(dev verbs.Device, netdev string) (verbs.Device, error) {
	d, err := wirestamp.Wrap(dev, netdev)
	if err != nil {
		return nil, err // and not a *Device that is nil
	}
	return d, nil
}

func newCalibrateResult(c *clocks.Choice) *calibrateResult {
	s := c.Source
	r := &calibrateResult{
		Device: c.Device.Name(), Source: calibrateSource{s.Kind.String(), s.Name, s.Method, s.Why, s.Hz, s.Bits},
		Passed: []passedSource{}, Points: []calibratePoint{},
	}
	for _, p := range c.Passed {
		r.Passed = append(r.Passed, passedSource{p.Kind.String(), p.Why})
	}
	return r
}

// watch calibrates, fills in what comes of it and calls each, which may be nil.
func (r *calibrateResult) watch(ctx context.Context, c *clocks.Choice, duration, interval units.Time, each func(*calibratePoint)) error {
	sum, err := clocks.Watch(ctx, c, duration, interval, func(p clocks.Point) {
		row := calibratePoint{
			TimeS: p.At.Seconds(), OffsetNS: p.Offset.Nanoseconds(), DriftPPM: p.DriftPPM, DriftBoundPPM: p.DriftBoundPPM,
			BoundNS: nanoseconds(p.Bound, p.Bound != units.Never), BracketNS: p.Bracket.Nanoseconds(), Taken: p.Taken, Failed: p.Failed,
			State: p.Reason.String(), Generation: p.Generation,
		}
		r.Points = append(r.Points, row)
		if each != nil {
			each(&row)
		}
	})
	if err != nil {
		return err
	}
	last := sum.Last
	r.Trusted, r.State = sum.Points > 0 && last.Reason == calibration.Trusted, last.Reason.String()
	r.DriftPPM, r.DriftBoundPPM, r.Restarts = last.DriftPPM, last.DriftBoundPPM, sum.Restarts
	r.BoundNS = nanoseconds(last.Bound, r.Trusted)
	r.MinBoundNS, r.MaxBoundNS = nanoseconds(sum.MinBound, sum.MaxBound > 0), nanoseconds(sum.MaxBound, sum.MaxBound > 0)
	if sum.Err != nil {
		r.ReadError = sum.Err.Error()
	}
	if c.PTP != nil && sum.Compared != nil {
		x := sum.Compared
		r.PTP = &ptpLine{
			Name: c.PTP.Name, Method: c.PTP.Method, Verdict: x.Verdict.String(), RatePPM: x.RatePPM,
			OffsetNS: nanoseconds(x.Offset, x.HasOffset), OffsetBoundNS: nanoseconds(x.OffsetBound, x.HasOffset), text: x.String(),
		}
		if x.Span > 0 {
			r.PTP.RateBoundPPM = &x.RateBoundPPM
		}
	}
	return nil
}

func nanoseconds(t units.Time, valid bool) *float64 {
	if !valid {
		return nil
	}
	ns := t.Nanoseconds()
	return &ns
}

const calibrateRow = "%9s %13s %11s %10s %11s %12s %9s  %s\n"

func (r *calibrateResult) head(w io.Writer, quiet bool) error {
	var b strings.Builder
	s := r.Source
	fmt.Fprintf(&b, "device  %s\nsource  %s: %s by %s, %g MHz, %d bits\n        %s\n", r.Device, s.Kind, s.Name, s.Method, s.Hz/1e6, s.Bits, s.Why)
	for _, p := range r.Passed {
		fmt.Fprintf(&b, "not     %s: %s\n", p.Kind, p.Why)
	}
	if !quiet {
		b.WriteString("\n")
		fmt.Fprintf(&b, calibrateRow, "time[s]", "offset[ns]", "drift[ppm]", "+-[ppm]", "bound[ns]", "bracket[ns]", "readings", "state")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (p *calibratePoint) write(w io.Writer) {
	bound := "-"
	if p.BoundNS != nil {
		bound = fmt.Sprintf("%.1f", *p.BoundNS)
	}
	state := p.State
	if p.Failed > 0 {
		state += fmt.Sprintf(", %d readings failed", p.Failed)
	}
	// What can't be shown here can't be shown at the end, where it is noticed.
	_, _ = fmt.Fprintf(w, calibrateRow, fmt.Sprintf("%.3f", p.TimeS), fmt.Sprintf("%.1f", p.OffsetNS), fmt.Sprintf("%.4f", p.DriftPPM),
		fmt.Sprintf("%.4f", p.DriftBoundPPM), bound, fmt.Sprintf("%.1f", p.BracketNS), fmt.Sprint(p.Taken), state)
}

func (r *calibrateResult) foot(w io.Writer) error {
	var b strings.Builder
	b.WriteString("\n")
	if r.Trusted {
		fmt.Fprintf(&b, "bound   %.1f ns at the end, %.1f to %.1f ns before\n", *r.BoundNS, *r.MinBoundNS, *r.MaxBoundNS)
		fmt.Fprintf(&b, "drift   %.4f ppm, give or take %.4f\n", r.DriftPPM, r.DriftBoundPPM)
	} else {
		fmt.Fprintf(&b, "bound   not trusted: %s\n", r.State)
	}
	if r.Restarts > 0 {
		fmt.Fprintf(&b, "began   anew %d times: a clock was stepped or reset\n", r.Restarts)
	}
	if r.ReadError != "" {
		fmt.Fprintf(&b, "failed  %s\n", r.ReadError)
	}
	if r.PTP != nil {
		fmt.Fprintf(&b, "ptp     %s by %s: %s\n", r.PTP.Name, r.PTP.Method, r.PTP.text)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
