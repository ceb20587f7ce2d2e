package cli

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/sluice-rdma/sluice/cli/internal/control"
)

// controlVariable has the path of the control socket, in programs that sluice virtual runs.
const controlVariable = "SLUICE_CONTROL"

func newFail() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fail",
		Short: "Have a device of running programs fail",
		Long: `Have a device of a running "sluice virtual --control SOCKET" fail, to see what its
programs make of it: a port and the link at it, for a while or until it is made whole, a
queue pair, or the whole device. It fails from when the command returns. docs/failures.md
has what programs see of each failure.`,
		Example: `  sluice virtual --control fail.sock -- ./server &
  sluice fail --control fail.sock port mlx5_0 --down --for 2s
  sluice fail --control fail.sock qp mlx5_0 0x11`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return noCommand(c, args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var socket string
	cmd.PersistentFlags().StringVar(&socket, "control", "", "the control `SOCKET` of sluice virtual (default: "+controlVariable+", which its programs have)")
	ask := func(c *cobra.Command, r *control.Request) error {
		path := socket
		if path == "" {
			path = os.Getenv(controlVariable)
		}
		if path == "" {
			return usageError{fmt.Errorf("%s needs --control SOCKET, that of a sluice virtual --control SOCKET", c.CommandPath())}
		}
		return control.Ask(c.Context(), path, r)
	}
	cmd.AddCommand(newFailPort(ask), newFailQP(ask), newFailDevice(ask))
	return cmd
}

type askToFail func(c *cobra.Command, r *control.Request) error

// words refuses any other number of arguments than those of its names.
func words(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usageError{fmt.Errorf("%s: %s is missing: write %s", c.CommandPath(), names[len(args)], c.UseLine())}
		case len(args) > len(names):
			return usageError{fmt.Errorf("%s: %q is one argument too many: write %s", c.CommandPath(), args[len(names)], c.UseLine())}
		}
		return nil
	}
}

func newFailPort(ask askToFail) *cobra.Command {
	var f control.Failure
	var whole bool
	cmd := &cobra.Command{
		Use:   "port DEVICE",
		Short: "Have a device's port, or the link at it, fail",
		Long: `Have the port of a device, or the link at it, fail: in place of how it failed before.
Without --for it does so until --whole. Rate, delay and loss are those of what the
port sends; give them at the other end, too, for both directions.`,
		Example: `  sluice fail port mlx5_0 --down --for 100ms --every 1s --times 10
  sluice fail port mlx5_0 --silent --one-way
  sluice fail port mlx5_0 --rate 1Gbps --loss 1%
  sluice fail port mlx5_0 --whole`,
		Args: words("DEVICE"),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.Validate(); err != nil {
				return usageError{err}
			}
			if fails := f != (control.Failure{}); fails == whole {
				return usageError{errors.New("say how the port fails, by --down, --silent, --rate, --delay or --loss, or that it is --whole again")}
			}
			return ask(c, &control.Request{Device: args[0], Port: &f})
		},
	}
	cmd.Flags().SortFlags = false
	addFlags(cmd, &f)
	cmd.Flags().BoolVar(&whole, "whole", false, "nothing fails any more")
	return cmd
}

func newFailQP(ask askToFail) *cobra.Command {
	var status, vendor string
	var after uint64
	cmd := &cobra.Command{
		Use:   "qp DEVICE NUMBER",
		Short: "Have a queue pair go to the error state",
		Long: `Have the queue pair of a number, which is written as programs print it, 17 or 0x11, go
to the error state: its requests are flushed, and IBV_EVENT_QP_FATAL names it. With
--status its next request that succeeds completes with that status in place of
success, and takes it there without an event.`,
		Example: `  sluice fail qp mlx5_0 0x11
  sluice fail qp mlx5_0 0x11 --status REM_ACCESS_ERR --vendor-err 0x88 --after 10`,
		Args: words("DEVICE", "NUMBER"),
		RunE: func(c *cobra.Command, args []string) error {
			n, err := strconv.ParseUint(args[1], 0, 24)
			if err != nil {
				return usageError{fmt.Errorf("queue pair %q: give a number from 0 to 0xffffff, such as 17 or 0x11", args[1])}
			}
			r := &control.Request{Device: args[0], QP: uint32(n)}
			if status == "" {
				if vendor != "" || after != 0 {
					return usageError{errors.New("--vendor-err and --after go with --status")}
				}
				return ask(c, r)
			}
			r.Completion = &control.Completion{After: after}
			if err := r.Completion.Status.UnmarshalText([]byte(status)); err != nil {
				return usageError{fmt.Errorf("--status: %w", err)}
			}
			if vendor != "" {
				if err := r.Completion.VendorErr.UnmarshalText([]byte(vendor)); err != nil {
					return usageError{fmt.Errorf("--vendor-err: %w", err)}
				}
			}
			return ask(c, r)
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&status, "status", "", "`STATUS` of a completion, libibverbs' name without IBV_WC_")
	cmd.Flags().StringVar(&vendor, "vendor-err", "", "the vendor's `SYNDROME` beside it (default: what a ConnectX shows, where that is known)")
	cmd.Flags().Uint64Var(&after, "after", 0, "`NUMBER` of completions that succeed before")
	return cmd
}

func newFailDevice(ask askToFail) *cobra.Command {
	return &cobra.Command{
		Use:   "device DEVICE",
		Short: "Have a device fail for good",
		Long: `Have a device fail for good, as a ConnectX whose firmware has stopped: all queue pairs
are flushed, and IBV_EVENT_DEVICE_FATAL is raised.`,
		Example: "  sluice fail device mlx5_0",
		Args:    words("DEVICE"),
		RunE: func(c *cobra.Command, args []string) error {
			return ask(c, &control.Request{Device: args[0], Dies: true})
		},
	}
}
