package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/signal"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/verbs/wiretag"
)

func newReflect() *cobra.Command {
	var asJSON bool
	var duration time.Duration
	cmd := &cobra.Command{
		Use:   "reflect 'INTERFACE?telemetry=FORM'",
		Short: "Answer telemetry probes that come to a network interface",
		Long: fmt.Sprintf(`Answer the probes by which senders learn what switches report about the path to
this host, until interrupted. The kernel answers, by an eBPF program that is on the
interface meanwhile; programs with RDMA connections on this host need not know.
Senders with a NIC that does RoCE in hardware send probes:

  sluice perf write_bw -d 'ibv:mlx5_0?telemetry=csig-wide' --cc poseidon HOST

FORM is that of the network's tags: %s; tagtype=
gives them another EtherType, base= and step= the values of %s another scale.`,
			telemetry.FormNames(telemetry.Form.IsDelay), telemetry.FormNames(telemetry.Form.IsScaled)),
		Example: "  sluice reflect 'eth0?telemetry=csig-wide'\n  sluice reflect 'eth0?telemetry=poseidon&tagtype=0x88b5' --duration 1h --json",
		Args: func(c *cobra.Command, args []string) error {
			if err := cobra.ExactArgs(1)(c, args); err != nil {
				return usageError{err}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			netdev, cfg, wanted, err := wiretag.ParseInterface(args[0])
			if err == nil && !wanted {
				err = errors.New("name the form of the network's tags: " + args[0] + "?telemetry=" + telemetry.FormNames(telemetry.Form.IsDelay))
			}
			if err != nil {
				return usageError{err}
			}
			r, err := wiretag.NewResponder(netdev, cfg)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(c.Context(), endings()...)
			defer stop()
			out := c.OutOrStdout()
			if !asJSON {
				fmt.Fprintf(out, "answering probes at %s (%s)\n", netdev, r.Attached())
			}
			var end <-chan time.Time
			if duration > 0 {
				end = time.After(duration)
			}
			select {
			case <-ctx.Done():
			case <-end:
			}
			s := r.Stats()
			if err := r.Close(); err != nil {
				return err
			}
			if asJSON {
				e := json.NewEncoder(out)
				e.SetIndent("", "  ")
				return e.Encode(struct {
					Probes uint64 `json:"probes_answered"`
					Taken  uint64 `json:"frames_with_tags"`
					Failed uint64 `json:"failed"`
				}{s.ProbesServed, s.Taken, s.Failed})
			}
			_, err = fmt.Fprintf(out, "%d probes answered, tags taken off %d frames, %d failed\n", s.ProbesServed, s.Taken, s.Failed)
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the counts at the end as JSON")
	cmd.Flags().DurationVar(&duration, "duration", 0, "end after this `TIME`; 0 goes on until interrupted")
	return cmd
}
