package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-rdma/sluice/bench/perf"
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/exchange"
	"github.com/sluice-rdma/sluice/verbs/rdmacm"
)

// rpingFlags holds the flags of sluice rping that perf.PingConfig does not have.
type rpingFlags struct {
	ends   endFlags
	pacing pacingFlags

	Client     bool   `flag:"client,c" help:"client"`
	Server     bool   `flag:"server,s" help:"server"`
	Address    string `flag:"address,a" zero:"all" help:"the client's server, or the <ADDRESS> that the server listens on"`
	Port       int    `flag:"port,p" default:"7174" range:"[1,65535]" help:"port"`
	Persistent bool   `flag:"persistent,P" help:"serve one client after the other"`
	Verbose    bool   `flag:"verbose,v" help:"print what the pings carry"`
	JSON       bool   `flag:"json" help:"print the client's summary as JSON"`
}

func newRping() *cobra.Command {
	var f rpingFlags
	var c perf.PingConfig
	cmd := &cobra.Command{
		Use:   "rping",
		Short: "Play ping-pong by RDMA Read and Write, as rping does",
		Long: `Play rping's game: the client offers memory, the server reads it by RDMA Read
and writes it back by RDMA Write. With -c it is the client of the server at -a,
with -s the server. On a simulated device, and with --peer, both ends run in this
process.`,
		Example: `  sluice rping -C 10 -v -V                         # on the model
  sluice rping -s -d soft:eth0
  sluice rping -c -a 10.0.0.2 -d soft:eth0 -C 10 -v`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), c, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().SortFlags = false
	addFlags(cmd, &f)
	addFlags(cmd, &f.ends)
	addFlags(cmd, &c)
	f.pacing.add(cmd)
	return cmd
}

func (f *rpingFlags) run(ctx context.Context, c perf.PingConfig, out, notes io.Writer) error {
	switch {
	case f.Client && f.Server:
		return usageError{errors.New("both -c and -s: choose one")}
	case f.Client && f.Address == "":
		return usageError{errors.New("a client needs the server's address: give -a HOST")}
	}
	pacing, err := f.pacing.pacing()
	if err != nil {
		return usageError{err}
	}
	host := ""
	if f.Client {
		host = f.Address
	}
	ends, err := f.ends.open(host, pacing)
	if err != nil {
		return usageError{err}
	}
	if f.Verbose {
		c.Data = out
	}
	var result *perf.PingResult
	switch {
	case ends.peer != nil:
		if f.Server || f.Client {
			err = usageError{errors.New("both ends are in this process: leave -c and -s out, or name a real device with -d")}
			break
		}
		if c.Count == 0 {
			c.Count = 10
		}
		result, err = perf.PingPair(ends.dev, ends.peer, c)
	case f.Client && rdmacm.Supported(ends.dev):
		var addr netip.AddrPort
		if addr, err = resolvePing(ctx, f.Address, f.Port, c.IPv6); err == nil {
			result, err = perf.PingDial(ctx, ends.dev, addr, c)
		}
	case f.Client:
		var conn *exchange.Conn
		address := net.JoinHostPort(f.Address, strconv.Itoa(f.Port))
		c.Again = func(within time.Duration) (*exchange.Conn, error) {
			soon, stop := context.WithTimeout(ctx, within)
			defer stop()
			return exchange.Dial(soon, address, 0)
		}
		if conn, err = exchange.Dial(ctx, address, 0); err == nil {
			result, err = perf.PingClient(ends.dev, conn, c)
		}
	case f.Server && rdmacm.Supported(ends.dev):
		err = f.serveCM(ctx, ends.dev, c, notes)
	case f.Server:
		err = f.serve(ctx, ends.dev, c, notes)
	default:
		err = usageError{errors.New("say which end this is: -c with -a HOST for the client, -s for the server, or --peer for both")}
	}
	if result != nil {
		err = errors.Join(err, f.summary(out, result))
	}
	return errors.Join(err, ends.close())
}

// serve plays the server with one client, or with one after the other.
func (f *rpingFlags) serve(ctx context.Context, dev verbs.Device, c perf.PingConfig, notes io.Writer) error {
	l, err := exchange.Listen(ctx, net.JoinHostPort(f.Address, strconv.Itoa(f.Port)))
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	fmt.Fprintf(notes, "waiting for a client on TCP port %d\n", f.Port)
	c.Again = func(within time.Duration) (*exchange.Conn, error) {
		soon, stop := context.WithTimeout(ctx, within)
		defer stop()
		return l.Accept(soon, 0)
	}
	for {
		conn, err := l.Accept(ctx, 0)
		if err != nil {
			return err
		}
		err = perf.PingServe(dev, conn, c)
		if !f.Persistent {
			return err
		}
		if err != nil {
			fmt.Fprintf(notes, "sluice: %v\n", err)
		}
	}
}

func (f *rpingFlags) summary(out io.Writer, r *perf.PingResult) error {
	if f.JSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	v := func(f results.Float) float64 {
		if !f.Measured() {
			return 0
		}
		return float64(f)
	}
	_, err := fmt.Fprintf(out, "%d pings of %d bytes: t_min %.2f us, t_avg %.2f us, t_max %.2f us\n", r.Pings, r.Bytes, v(r.MinUs), v(r.AvgUs), v(r.MaxUs))
	if o := r.Outage; o != nil {
		_, more := fmt.Fprintf(out, "longest time without a ping: %.2f us, from %.6f s on; connections made anew: %d\n", v(o.LongestUs), v(o.AtSeconds), r.Reconnects)
		err = errors.Join(err, more)
	}
	if p := r.Repairs; p != nil {
		_, more := fmt.Fprintln(out, p)
		err = errors.Join(err, more)
	}
	return err
}
