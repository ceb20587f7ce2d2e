package cli

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluice-rdma/sluice/bench"
	"github.com/sluice-rdma/sluice/scenario"
	"github.com/sluice-rdma/sluice/units"
)

// traceFlags say what sluice run traces inside NICs.
type traceFlags struct {
	file   string
	window string
	of     []string
}

// defaultTraceWindow keeps a trace that nobody bounded small.
const defaultTraceWindow = "0..100us"

func (f *traceFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.file, "trace", "", "write what becomes of requests inside NICs to a `FILE`.json, as trace events for Perfetto; to a FILE.vcd, what stages and queues do, for waveform viewers")
	flags.StringVar(&f.window, "trace-window", "", "trace requests under way in the simulated time `FROM..TO` (default "+defaultTraceWindow+")")
	flags.StringSliceVar(&f.of, "trace-of", nil, "trace requests of these `HOST`s only, or of a queue pair: h0,h1/0x10")
}

// special reports whether there is a file of a name that is no regular one, such as a pipe:
// what is written there needs no ending.
func special(name string) bool {
	info, err := os.Stat(name)
	return err == nil && !info.Mode().IsRegular()
}

// vcd reports whether a value change dump is wanted.
func (f *traceFlags) vcd() bool { return strings.HasSuffix(strings.ToLower(f.file), ".vcd") }

// filter checks the flags against the scenarios that will run.
func (f *traceFlags) filter(scenarios []*scenario.Scenario) (bench.TraceFilter, error) {
	var out bench.TraceFilter
	if f.file == "" {
		for _, x := range []struct {
			flag string
			set  bool
		}{{"trace-window", f.window != ""}, {"trace-of", len(f.of) > 0}} {
			if x.set {
				return out, fmt.Errorf("--%s says what a trace shows, and there is none: give --trace FILE too", x.flag)
			}
		}
		return out, nil
	}
	if ext := strings.ToLower(filepath.Ext(f.file)); ext != ".json" && ext != ".vcd" && !special(f.file) {
		return out, fmt.Errorf("--trace %s: the ending of the name is the format: take .json, trace events for Perfetto, or .vcd, a value change dump for waveform viewers", f.file)
	}
	if len(scenarios) > 1 {
		return out, fmt.Errorf("--trace is of one scenario, not of %d: run the one to trace by itself", len(scenarios))
	}
	window := f.window
	if window == "" {
		window = defaultTraceWindow
	}
	var err error
	if out.From, out.To, err = traceWindow(window); err != nil {
		return out, err
	}
	s := scenarios[0]
	if out.From >= s.Duration {
		return out, fmt.Errorf("--trace-window begins at %v, and the scenario ends at %v: choose an earlier time", out.From, s.Duration)
	}
	for _, sys := range s.Systems {
		if sys.Reduced() {
			return out, fmt.Errorf("--trace: %s has reduced NICs, which have no stages: add --set nic.model=staged, or leave it out", sys.Name)
		}
	}
	for _, text := range f.of {
		one, err := traceOf(text)
		if err != nil {
			return out, err
		}
		if _, err := s.Graph().Host(one.Host); err != nil {
			return out, fmt.Errorf("--trace-of: %w", err)
		}
		out.Of = append(out.Of, one)
	}
	return out, nil
}

func traceWindow(text string) (from, to units.Time, err error) {
	a, b, ok := strings.Cut(text, "..")
	if ok {
		var err2 error
		from, err = units.ParseTime(a)
		to, err2 = units.ParseTime(b)
		err = errors.Join(err, err2)
	}
	if !ok || err != nil || from < 0 || from >= to {
		return 0, 0, fmt.Errorf("--trace-window %q is no window of time: write FROM..TO, such as 100us..120us", text)
	}
	return from, to, nil
}

func traceOf(text string) (bench.TracedQueuePair, error) {
	host, qp, ok := strings.Cut(text, "/")
	of := bench.TracedQueuePair{Host: host}
	if ok {
		n, err := strconv.ParseUint(qp, 0, 24)
		if err != nil || n == 0 {
			return of, fmt.Errorf("--trace-of %q: %q is no queue pair: write a number, such as %s/0x10", text, qp, host)
		}
		of.QPN = uint32(n)
	}
	return of, nil
}
