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

	"github.com/spf13/cobra"

	"github.com/sluice-rdma/sluice/bench/perf"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/internal/stats"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/exchange"
	"github.com/sluice-rdma/sluice/verbs/rdmacm"
)

// rpingFlags holds the flags of sluice rping that perf.PingConfig does not have.
type rpingFlags struct {
	ends           endFlags
	pacing         pacingFlags
	client, server bool
	address        string
	port, mtu      int
	persistent     bool
	verbose, json  bool
}

func newRping() *cobra.Command {
	var f rpingFlags
	c := perf.DefaultPingConfig()
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
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVarP(&f.client, "client", "c", false, "client")
	flags.BoolVarP(&f.server, "server", "s", false, "server")
	flags.StringVarP(&f.address, "address", "a", "", "the client's server, or the `ADDRESS` that the server listens on (default all)")
	flags.IntVarP(&f.port, "port", "p", perf.PingPort, "port")
	f.ends.add(cmd)
	flags.IntVarP(&c.Port, "ib-port", "i", 1, "port of the device")
	flags.IntVarP(&c.GID, "gid-index", "x", -1, "index in the port's table of addresses (default the one by which the other end is reached)")
	flags.BoolVar(&c.IPv6, "ipv6", false, "without -x, take an IPv6 address")
	flags.IntVarP(&f.mtu, "mtu", "m", 0, "path MTU: 256 to 4096 (default what the route to the other end carries)")
	flags.IntVarP(&c.Count, "count", "C", 0, "pings; 0 is without end, and 10 on the model")
	flags.IntVarP(&c.Size, "size", "S", c.Size, fmt.Sprintf("bytes of a ping, %d to %d", perf.MinPingSize, perf.MaxPingSize))
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "print what the pings carry")
	flags.BoolVarP(&c.Validate, "validate", "V", false, "compare what comes back")
	flags.BoolVarP(&f.persistent, "persistent", "P", false, "serve one client after the other")
	f.pacing.add(cmd)
	flags.BoolVar(&f.json, "json", false, "print the client's summary as JSON")
	return cmd
}

func (f *rpingFlags) run(ctx context.Context, c perf.PingConfig, out, notes io.Writer) error {
	switch {
	case f.client && f.server:
		return usageError{errors.New("both -c and -s: choose one")}
	case f.client && f.address == "":
		return usageError{errors.New("a client needs the server's address: give -a HOST")}
	case f.port < 1 || f.port > 65535:
		return usageError{fmt.Errorf("--port %d: give 1 to 65535", f.port)}
	}
	c.MTU = ib.MTU(f.mtu)
	if f.mtu != 0 && !c.MTU.Valid() {
		return usageError{fmt.Errorf("--mtu %d: take 256, 512, 1024, 2048 or 4096", f.mtu)}
	}
	pacing, err := f.pacing.pacing()
	if err != nil {
		return usageError{err}
	}
	host := ""
	if f.client {
		host = f.address
	}
	ends, err := f.ends.open(host, pacing)
	if err != nil {
		return usageError{err}
	}
	if f.verbose {
		c.Data = out
	}
	var result *perf.PingResult
	switch {
	case ends.peer != nil:
		if f.server || f.client {
			err = usageError{errors.New("both ends are in this process: leave -c and -s out, or name a real device with -d")}
			break
		}
		if c.Count == 0 {
			c.Count = 10
		}
		result, err = perf.PingPair(ends.dev, ends.peer, c)
	case f.client && rdmacm.Supported(ends.dev):
		var addr netip.AddrPort
		if addr, err = resolvePing(ctx, f.address, f.port, c.IPv6); err == nil {
			result, err = perf.PingDial(ctx, ends.dev, addr, c)
		}
	case f.client:
		var conn *exchange.Conn
		if conn, err = exchange.Dial(ctx, net.JoinHostPort(f.address, strconv.Itoa(f.port)), 0); err == nil {
			result, err = perf.PingClient(ends.dev, conn, c)
		}
	case f.server && rdmacm.Supported(ends.dev):
		err = f.serveCM(ctx, ends.dev, c, notes)
	case f.server:
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
	l, err := exchange.Listen(ctx, net.JoinHostPort(f.address, strconv.Itoa(f.port)))
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }()
	fmt.Fprintf(notes, "waiting for a client on TCP port %d\n", f.port)
	for {
		conn, err := l.Accept(ctx, 0)
		if err != nil {
			return err
		}
		err = perf.PingServe(dev, conn, c)
		if !f.persistent {
			return err
		}
		if err != nil {
			fmt.Fprintf(notes, "sluice: %v\n", err)
		}
	}
}

func (f *rpingFlags) summary(out io.Writer, r *perf.PingResult) error {
	if f.json {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	v := func(f stats.Float) float64 {
		if !f.Measured() {
			return 0
		}
		return float64(f)
	}
	_, err := fmt.Fprintf(out, "%d pings of %d bytes: t_min %.2f us, t_avg %.2f us, t_max %.2f us\n", r.Pings, r.Bytes, v(r.MinUs), v(r.AvgUs), v(r.MaxUs))
	return err
}
