package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/cli/internal/doctor"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/wiretag"
)

// doctorDocument is sluice doctor's output as JSON.
type doctorDocument struct {
	Version     int                 `json:"version"`
	StartTime   string              `json:"start_time"`
	Arguments   []string            `json:"arguments"`
	Environment results.Environment `json:"environment"`
	*doctor.Report
}

var errAilment = errors.New("something does not work: see the findings marked fail")

func newDoctor(args []string) *cobra.Command {
	var name string
	var asJSON bool
	o := doctor.Options{Port: 1, GID: -1}
	cmd := &cobra.Command{
		Use:   "doctor -d DEVICE",
		Short: "Examine a device for pacing, and test it",
		Long: `Examine what a device can do for pacing, show the settings of host and network that
a host can see, and test writing, reading and pacing between two queue pairs of the
device. The report can be attached to a question. Nothing is changed.`,
		Example: "  sluice doctor -d sim:lab/h0\n  sluice doctor -d soft:eth0 --json\n  sluice doctor -d ibv:mlx5_0 -i 1 -x 3",
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if name == "" {
				return usageError{errors.New("no device: name one with -d; sluice devices lists them")}
			}
			if o.Duration < 10*time.Millisecond || o.Duration > time.Hour {
				return usageError{fmt.Errorf("--duration %v: give 10ms to 1h", o.Duration)}
			}
			progress := newProgress(os.Stderr)
			o.Progress = progress.Show
			start := time.Now()
			report, err := doctor.Examine(func() (verbs.Device, error) {
				dev, err := wiretag.Open(name)
				if err != nil {
					return nil, usageError{err}
				}
				return dev, nil
			}, o)
			progress.Clear()
			if err != nil {
				return err
			}
			if asJSON {
				doc := results.NewDocument(start, args)
				e := json.NewEncoder(c.OutOrStdout())
				e.SetEscapeHTML(false)
				e.SetIndent("", "  ")
				err = e.Encode(doctorDocument{1, doc.StartTime, doc.Arguments, doc.Environment, report})
			} else {
				err = report.WriteText(c.OutOrStdout())
			}
			if err == nil && report.Count(doctor.Fail) > 0 {
				err = errAilment
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVarP(&name, "ib-dev", "d", "", "`DEVICE` to examine")
	f.IntVarP(&o.Port, "ib-port", "i", o.Port, "`PORT`, from 1")
	f.IntVarP(&o.GID, "gid-index", "x", o.GID, "`INDEX` of the address to test with; -1 chooses")
	f.StringVar(&o.Engine, "cc", "timely", "rate `ENGINE` to test")
	f.DurationVar(&o.Duration, "duration", time.Second/2, "`TIME` of each timed part of the self-test")
	f.BoolVar(&o.NoTest, "no-test", false, "leave the self-test out")
	f.BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}
