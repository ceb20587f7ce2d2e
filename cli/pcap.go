package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/cli/internal/capture"
)

// pcapDocument is the output of sluice pcap --json.
type pcapDocument struct {
	Version     int                 `json:"version"`
	StartTime   string              `json:"start_time"`
	Arguments   []string            `json:"arguments"`
	Environment results.Environment `json:"environment"`
	File        string              `json:"file"`
	Error       string              `json:"error,omitempty"` // what stopped the reading before the end
	Interrupted bool                `json:"interrupted,omitempty"`
	Capture     *capture.Report     `json:"capture"`
}

func newPcap(args []string) *cobra.Command {
	var asJSON bool
	var onlyQP string
	cmd := &cobra.Command{
		Use:   "pcap FILE",
		Short: "Check and sum up the RoCEv2 packets of a capture",
		Long: `Read a capture (pcap or pcapng, gzipped or not; - is standard input), check the
ICRC of its RoCEv2 packets, and show each connection: messages, acknowledgements,
NAKs, packets sent again, congestion marks, and the time from requests to their
acknowledgements. A capture that breaks off is shown as far as it goes, and the exit
status is 1; after an interrupt, which ends tcpdump in a pipe, too, it is 130.`,
		Example: "  sluice pcap trace.pcap.gz\n  sluice pcap --json --filter-qp 0x11 trace.pcapng\n  tcpdump -i eth0 -w - udp port 4791 | sluice pcap -",
		Args: func(c *cobra.Command, names []string) error {
			if len(names) != 1 {
				return usageError{fmt.Errorf("%s takes one file, not %d", c.CommandPath(), len(names))}
			}
			return nil
		},
		RunE: func(c *cobra.Command, names []string) error {
			var qp uint64
			if c.Flags().Changed("filter-qp") {
				var err error
				if qp, err = strconv.ParseUint(onlyQP, 0, 24); err != nil {
					return usageError{fmt.Errorf("--filter-qp %q: a QP number is 0 to 16777215, or 0x0 to 0xffffff", onlyQP)}
				}
			}
			program := results.NewDocument(time.Now(), args)
			ctx, stop := interruptible(c.Context())
			defer stop()
			report, failed := readCapture(ctx, names[0], c.InOrStdin())
			if report == nil {
				return failed
			}
			if c.Flags().Changed("filter-qp") {
				report.OnlyQP(uint32(qp))
			}
			if !asJSON {
				return errors.Join(report.WriteTable(c.OutOrStdout()), failed)
			}
			d := pcapDocument{
				Version: 1, StartTime: program.StartTime, Arguments: program.Arguments,
				Environment: program.Environment, File: names[0], Capture: report,
			}
			if failed != nil {
				d.Error, d.Interrupted = failed.Error(), errors.As(failed, new(interruption))
			}
			e := json.NewEncoder(c.OutOrStdout())
			e.SetEscapeHTML(false)
			e.SetIndent("", "  ")
			return errors.Join(e.Encode(d), failed)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	cmd.Flags().StringVar(&onlyQP, "filter-qp", "", "show only connections with a queue pair of this `NUMBER` at either end")
	return cmd
}

// readCapture sums up a file, or in if its name is -. With an error, the report has
// what was read before it, or is nil.
func readCapture(ctx context.Context, name string, in io.Reader) (*capture.Report, error) {
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer func() { _ = file.Close() }() // it was only read
		in = file
	}
	report, err := capture.Summarize(interruptibleReader{ctx, in})
	if broken := (interruption{}); errors.As(err, &broken) {
		err = broken // and no fault of the capture
	}
	if err != nil {
		return report, fmt.Errorf("%s: %w", name, err)
	}
	return report, nil
}
