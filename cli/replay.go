package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-rdma/sluice/bench/perf"
	"github.com/sluice-rdma/sluice/bench/replay"
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/cc"
)

// replayDocument is the JSON of sluice replay.
type replayDocument struct {
	Version     int                 `json:"version"`
	StartTime   string              `json:"start_time"`
	Arguments   []string            `json:"arguments"`
	Environment results.Environment `json:"environment"`
	File        string              `json:"file"`
	Error       string              `json:"error,omitempty"` // what stopped the reading before the end
	Interrupted bool                `json:"interrupted,omitempty"`
	Replay      *replay.Result      `json:"replay"`
}

func newReplay(args []string) *cobra.Command {
	var engines, sets []string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "replay FILE",
		Short: "Feed recorded signals to rate engines, offline",
		Long: `Read a recording of sluice perf --record and feed its signals to rate engines.
A table has the rates that each would have allowed, beside the recorded ones. The
recorded sender caused the signals: another engine would have met others. A recording
that breaks off is replayed as far as it goes. After an interrupt the table has what was
read, and the exit status is 130.`,
		Example: "  sluice perf write_bw --cc timely --record signals.rec\n  sluice replay signals.rec --cc timely,swift\n  sluice replay signals.rec --cc timely --set t_low=20us --json",
		Args: func(c *cobra.Command, names []string) error {
			if len(names) != 1 {
				return usageError{fmt.Errorf("%s takes one file, not %d", c.CommandPath(), len(names))}
			}
			return nil
		},
		RunE: func(c *cobra.Command, names []string) (err error) {
			program := results.NewDocument(time.Now(), args)
			chosen, err := replayEngines(engines, sets)
			if err != nil {
				return usageError{err}
			}
			f, err := os.Open(names[0])
			if err != nil {
				return usageError{err}
			}
			defer func() { err = errors.Join(err, f.Close()) }()
			ctx, stop := interruptible(c.Context())
			defer stop()
			result, failed := replay.Run(interruptibleReader{ctx, f}, chosen)
			if failed != nil {
				failed = fmt.Errorf("%s: %w", names[0], failed)
			}
			if result == nil {
				return failed
			}
			if !asJSON {
				return errors.Join(failed, writeReplay(c.OutOrStdout(), result))
			}
			doc := replayDocument{1, program.StartTime, program.Arguments, program.Environment, names[0], "", errors.As(failed, new(interruption)), result}
			if failed != nil {
				doc.Error = failed.Error()
			}
			e := json.NewEncoder(c.OutOrStdout())
			e.SetEscapeHTML(false)
			e.SetIndent("", "  ")
			return errors.Join(failed, e.Encode(doc))
		},
	}
	cmd.Flags().StringSliceVar(&engines, "cc", nil, "the rate `ENGINE`s to feed, with commas between")
	cmd.Flags().StringArrayVar(&sets, "set", nil, "a setting `KEY=VALUE` of all of them; may be repeated")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

func replayEngines(names, sets []string) ([]replay.Engine, error) {
	if len(names) == 0 {
		return nil, errors.New("sluice replay needs an engine, such as --cc timely: sluice list names them")
	}
	var all []replay.Engine
	for _, name := range names {
		scheme, err := cc.Lookup(name)
		if err != nil {
			return nil, err
		}
		config, err := perf.EngineConfig(&scheme, sets)
		if err != nil {
			return nil, err
		}
		all = append(all, replay.Engine{Scheme: scheme, Config: config})
	}
	return all, nil
}

func writeReplay(out io.Writer, r *replay.Result) error {
	var b strings.Builder
	for i := range r.Streams {
		s := &r.Streams[i]
		fmt.Fprintf(&b, "%s, paced by %s, base RTT %v us\n", s.Device, strings.Join(append([]string{s.Engine}, s.Set...), " "), s.Base)
	}
	fmt.Fprintf(&b, "%d updates of %d queue pairs in %.6g s, RTT p50 %.1f us, p99 %.1f us", r.Updates, r.QueuePairs, r.SpanS, float64(r.RTTP50Us), float64(r.RTTP99Us))
	if r.Dropped > 0 {
		fmt.Fprintf(&b, "; %d more are missing: the disk was too slow", r.Dropped)
	}
	if r.Truncated {
		b.WriteString("; the recording breaks off here")
	}
	b.WriteString("\n\n")
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "engine\trate avg[Gbps]\trate min[Gbps]\trate end[Gbps]\twindow avg[KiB]\tapart[%]\tsame[%]\t")
	cell := func(v results.Float, scale float64, format string) string {
		if !v.Measured() {
			return "-"
		}
		return fmt.Sprintf(format, float64(v)*scale)
	}
	for _, a := range r.Allowed {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", a.Engine, cell(a.RateAvgGbps, 1, "%.3f"), cell(a.RateMinGbps, 1, "%.3f"), cell(a.RateEndGbps, 1, "%.3f"),
			cell(a.WindowAvgBytes, 1.0/1024, "%.1f"), cell(a.Apart, 100, "%.2f"), cell(a.Same, 100, "%.1f"))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(out, b.String())
	return err
}
