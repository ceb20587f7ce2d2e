package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluice-rdma/sluice/bench/perf"
	"github.com/sluice-rdma/sluice/bench/replay"
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/cc"
	_ "github.com/sluice-rdma/sluice/cc/all" // --cc takes any
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/internal/outfile"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/exchange"
	"github.com/sluice-rdma/sluice/verbs/rdmacm"
	"github.com/sluice-rdma/sluice/verbs/wirestamp"
	"github.com/sluice-rdma/sluice/verbs/wiretag"
)

// perfFlags is what sluice perf is told, as far as perf.Config does not have it.
type perfFlags struct {
	ends   endFlags
	pacing pacingFlags

	CM      bool   `flag:"rdma-cm,R" help:"connect by rdma_cm, and exchange data over it in place of TCP"`
	Port    int    `flag:"port,p" default:"18515" range:"[1,65535]" help:"port of the server, of TCP or rdma_cm"`
	Gbits   bool   `flag:"report-gbits" help:"tell a perftest at the other end Gbit/s in place of MiB/s; rows here have Gbit/s always"`
	Ignored bool   `flag:"CPU-freq,F" help:"no effect: perftest's flag, which turns off a warning that Sluice does not print"`
	Record  string `flag:"record" help:"write inputs and answers of paced queue pairs' engines to <FILE>, for sluice replay"`
	JSON    bool   `flag:"json" help:"print the result as JSON"`
	Quiet   bool   `flag:"quiet" help:"print the rows alone"`
}

// endFlags say which devices are the ends.
type endFlags struct {
	Dev    string `flag:"ib-dev,d" zero:"sim:lab/h0" help:"<DEVICE> to use, as sluice devices lists them"`
	Peer   string `flag:"peer" zero:"the network's h1 or h0, of sim: devices only" help:"the other end's <DEVICE>: both ends run in this process"`
	Stamps string `flag:"timestamps" default:"device" one:"device wire" help:"<SOURCE> of completion timestamps in a paced run, where wire is eBPF on the interface of soft: and soft-RoCE (docs/host-ebpf.md)"`
}

// pacingFlags say what paces requests.
type pacingFlags struct {
	perf.Pacing
	Fixed string `flag:"rate-limit" help:"pace each queue pair at a fixed <RATE>: 10Gbps, or a number in the unit of --rate-units"`
	Unit  string `flag:"rate-units" default:"g" one:"g M" help:"unit of a bare --rate-limit, Gbit/s or MiB/s"`
}

func (f *pacingFlags) add(cmd *cobra.Command) {
	addFlags(cmd, f)
	cmd.Flags().Lookup("cc").Usage += ": " + strings.Join(hostEngines(), ", ")
}

// hostEngines returns the engines that can pace on a device.
func hostEngines() []string {
	var names []string
	for _, s := range cc.Schemes() {
		if !s.Oracle && s.NewReceiver == nil { // the other end of a wire has no receiver of ours
			names = append(names, s.Name)
		}
	}
	return names
}

// pacing is what the flags say.
func (f *pacingFlags) pacing() (perf.Pacing, error) {
	p := f.Pacing
	if f.Fixed == "" {
		return p, nil
	}
	if number, err := strconv.ParseFloat(f.Fixed, 64); err == nil {
		if number *= map[string]float64{"g": 1e9, "M": 8 << 20}[f.Unit]; !(number < 1<<63) { // NaN, too
			return p, fmt.Errorf("--rate-limit %s: a rate is at most %v", f.Fixed, units.Rate(math.MaxInt64))
		}
		p.Rate = units.Rate(max(number, 0))
	} else if err := p.Rate.UnmarshalText([]byte(f.Fixed)); err != nil {
		return p, fmt.Errorf("--rate-limit: %w", err)
	}
	if p.Rate <= 0 {
		return p, fmt.Errorf("--rate-limit %s: it must be positive", f.Fixed)
	}
	return p, nil
}

func newPerf(args []string) *cobra.Command {
	var f perfFlags
	var c perf.Config
	var names []string
	for _, t := range perf.Tests() {
		names = append(names, t.String())
	}
	cmd := &cobra.Command{
		Use:   "perf TEST [HOST]",
		Short: "Measure bandwidth or latency, as perftest does",
		Long: `Measure bandwidth or latency with the tests, flags and rows of perftest.
TEST is one of ` + strings.Join(names, ", ") + `.

With a HOST it is the client of the server there, without one it is the server:
each may be perftest's own program (4.5 or newer), such as ib_write_bw. On a
simulated device, and with --peer, both ends run in this process.

Where something paces, rows on what the engine did follow perftest's. -i is
perftest's port where it is a bare number; with a unit, -i 1s, it is --interval, as
iperf3 has it.`,
		Example: `  sluice perf write_bw                              # on the model
  sluice perf read_lat -d 'sim:lab/h0?rate=25Gbps' -s 4096
  sluice perf write_bw --cc timely -q 4
  sluice perf write_bw --cc timely -D 10ms -i 1ms   # a row each millisecond
  sluice perf send_bw -d soft:eth0                  # a server for ib_send_bw
  sluice perf send_bw -d soft:eth0 10.0.0.2         # its client`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return usageError{fmt.Errorf("sluice perf needs a test, %s, and for a client the server's host", strings.Join(names, ", "))}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, operands []string) error {
			t, err := perf.ParseTest(operands[0])
			if err != nil {
				return usageError{err}
			}
			cfg, err := f.settle(&c, t, cmd)
			if err != nil {
				return usageError{err}
			}
			host := ""
			if len(operands) > 1 {
				host = operands[1]
			}
			r := perfRun{perfFlags: f, cfg: cfg, host: host, args: args, out: cmd.OutOrStdout(), notes: cmd.ErrOrStderr()}
			return r.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	addFlags(cmd, &f.ends)
	addFlags(cmd, &c)
	port := flags.Lookup("ib-port")
	port.Value = &portFlag{port.Value, func(every string) error { return flags.Set("interval", every) }}
	port.Usage += "; with a unit, as in -i 1s, it is --interval"
	f.pacing.add(cmd)
	addFlags(cmd, &f)
	return cmd
}

// settle returns the test's own defaults with what the flags changed.
func (f *perfFlags) settle(flags *perf.Config, t perf.Test, cmd *cobra.Command) (perf.Config, error) {
	c := perf.DefaultConfig(t)
	copyGiven(cmd, &c, flags)
	if c.Service == ib.UD && !t.Latency && !cmd.Flags().Changed("size") {
		c.Size = 0
	}
	c.MiBytes = !f.Gbits
	err := c.Validate()
	if fault := new(field.Error); errors.As(err, &fault) {
		err = fmt.Errorf("--%s %v: %s", fault.Key, fault.Value, fault.Want)
	}
	return c, err
}

// portFlag is -i: perftest's port, a bare number; or, since it has a unit or a
// fraction, which no port has, iperf3's interval.
type portFlag struct {
	pflag.Value
	every func(string) error
}

// Set implements pflag.Value.
func (p *portFlag) Set(s string) error {
	if _, err := strconv.Atoi(s); err == nil {
		return p.Value.Set(s)
	}
	if _, err := units.ParseTime(s); err != nil {
		return fmt.Errorf("%q: give a port, such as 1, or an interval with its unit, such as 1s", s)
	}
	return p.every(s)
}

// Type implements pflag.Value.
func (p *portFlag) Type() string { return "port" }

// perfRun is one run of sluice perf.
type perfRun struct {
	perfFlags
	cfg        perf.Config
	host       string
	args       []string
	out, notes io.Writer
	progress   *progressLine
}

func (r *perfRun) run(ctx context.Context) (failed error) {
	start := time.Now()
	pacing, err := r.pacing.pacing()
	r.cfg.Unwatched = pacing.Bypass
	if err != nil {
		return usageError{err}
	}
	if r.Record != "" {
		if pacing.Engine == "" && pacing.Rate == 0 {
			return usageError{errors.New("--record needs something that paces: give --cc or --rate-limit")}
		}
		var stop func()
		ctx, stop = interruptible(ctx) // before there is a file
		defer stop()
		f, err := outfile.Create(r.Record)
		if err != nil {
			return usageError{err}
		}
		rec := replay.NewRecorder(f)
		pacing.Record = rec
		defer func() { failed = errors.Join(failed, endRecording(rec, f, failed)) }()
	}
	ends, err := r.ends.open(r.host, pacing)
	if err != nil {
		return usageError{err}
	}
	if !r.Quiet {
		r.progress = newProgress(os.Stderr)
		r.cfg.Progress = r.progress.Show
	}
	if !r.JSON {
		r.cfg.Started = func(res *perf.Result) {
			res.Pacing = pacing.String()
			if !r.Quiet {
				_ = perf.Head(r.out, r.cfg.Test, res)
			}
		}
		r.print()
	}
	result, err := untilInterrupted(ctx, func() (*perf.Result, error) { return r.test(ctx, ends) })
	r.progress.Clear()
	if err != nil {
		return err
	}
	switch {
	case r.JSON:
		result.Pacing = pacing.String()
		err = r.writeJSON(start, result)
	case !r.Quiet:
		err = errors.Join(perf.Foot(r.out), perf.Summary(r.out, result))
	}
	return errors.Join(err, ends.close())
}

// print has rows and intervals printed as they come, each kind with a head where the
// other came before.
func (r *perfRun) print() {
	const (
		nothing = iota
		row
		interval
	)
	before := nothing
	head := func(kind int, write func() error) {
		if before != kind && !r.Quiet {
			_ = write()
		}
		before = kind
	}
	r.cfg.Row = func(x *perf.Row) {
		r.progress.Clear()
		head(row, func() error { return perf.LineHead(r.out, r.cfg.Test) })
		_ = perf.Line(r.out, x)
	}
	r.cfg.OnInterval = func(i *perf.Interval) {
		r.progress.Clear()
		head(interval, func() error { return perf.IntervalHead(r.out) })
		_ = perf.IntervalLine(r.out, i, r.cfg.Interval)
	}
}

// endRecording ends a recording, also of a test that failed. After an interrupt the
// test goes on until the program ends.
func endRecording(rec *replay.Recorder, f *outfile.File, failed error) error {
	end := rec.Close
	if errors.As(failed, new(interruption)) {
		end = rec.Break
	}
	return commit(f, func(io.Writer) error { return end() })
}

// untilInterrupted runs a test, and returns at an interruption without it.
func untilInterrupted(ctx context.Context, test func() (*perf.Result, error)) (*perf.Result, error) {
	var result *perf.Result
	var err error
	done := make(chan struct{})
	go func() {
		result, err = test()
		close(done)
	}()
	select {
	case <-done:
		return result, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// test runs the end or ends that this process has.
func (r *perfRun) test(ctx context.Context, e *ends) (*perf.Result, error) {
	if e.peer != nil {
		if r.CM {
			return nil, usageError{errors.New("-R needs its other end in another process: leave --peer out, or name a real device with -d")}
		}
		return perf.Pair(e.dev, e.peer, r.cfg)
	}
	if r.CM {
		return r.testCM(ctx, e)
	}
	var conn *exchange.Conn
	var err error
	if r.host != "" {
		conn, err = exchange.Dial(ctx, net.JoinHostPort(r.host, strconv.Itoa(r.Port)), 0)
	} else {
		conn, err = accept(ctx, r.Port, r.notes)
	}
	if err != nil {
		return nil, err
	}
	return perf.Run(e.dev, conn, r.cfg)
}

// testCM runs an end whose connections rdma_cm makes.
func (r *perfRun) testCM(ctx context.Context, e *ends) (*perf.Result, error) {
	if !rdmacm.Supported(e.dev) {
		return nil, usageError{fmt.Errorf("-R: the device %s can't carry rdma_cm's messages: leave -R out", e.dev.Name())}
	}
	if r.host != "" {
		addr, err := resolvePing(ctx, r.host, r.Port, r.cfg.IPv6)
		if err != nil {
			return nil, err
		}
		return perf.DialCM(ctx, e.dev, addr, r.cfg)
	}
	any := netip.IPv4Unspecified()
	if r.cfg.IPv6 {
		any = netip.IPv6Unspecified()
	}
	l, err := rdmacm.Listen(e.dev, netip.AddrPortFrom(any, uint16(r.Port)))
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(r.notes, "waiting for a client on port %d of %s\n", r.Port, e.dev.Name())
	result, err := perf.AcceptCM(ctx, l, e.dev, r.cfg)
	return result, errors.Join(err, l.Close())
}

// accept waits for one client, and passes over what speaks otherwise.
func accept(ctx context.Context, port int, notes io.Writer) (*exchange.Conn, error) {
	l, err := exchange.Listen(ctx, ":"+strconv.Itoa(port))
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(notes, "waiting for a client on TCP port %d\n", port)
	return l.AcceptGreeted(ctx, func(err error) { fmt.Fprintf(notes, "sluice: %v; waiting on\n", err) })
}

func (r *perfRun) writeJSON(start time.Time, result *perf.Result) error {
	doc := results.NewDocument(start, r.args)
	e := json.NewEncoder(r.out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(perf.Document{
		Version: perf.FormatVersion, StartTime: doc.StartTime, Arguments: doc.Arguments, Environment: doc.Environment,
		Results: []*perf.Result{result},
	})
}

// ends are the devices of a run; peer is nil if the other end is elsewhere.
type ends struct {
	dev, peer verbs.Device
	unpublish []func()
}

// open opens the devices that the flags name.
func (f *endFlags) open(host string, pacing perf.Pacing) (*ends, error) {
	name, peer := f.Dev, f.Peer
	if name == "" {
		name = "sim:lab/h0"
		// The network that nobody chose collects the telemetry that the engine requires.
		if scheme, err := cc.Lookup(pacing.Engine); err == nil && scheme.Telemetry != telemetry.None {
			name += "?telemetry=" + scheme.Telemetry.String()
		}
	}
	simulated := strings.HasPrefix(name, "sim:")
	switch {
	case host != "" && peer != "":
		return nil, fmt.Errorf("the host %s and --peer %s: the other end is there or here, not both", host, peer)
	case host != "" && simulated:
		return nil, fmt.Errorf("the simulated device %s can't reach the host %s: name a real one with -d, such as soft:eth0, or leave the host out", name, host)
	case peer == "" && simulated:
		peer = simPeer(name)
	}
	e := &ends{}
	var err error
	if e.dev, err = f.openPaced(name, pacing); err != nil {
		return nil, err
	}
	switch {
	case peer == name:
		e.peer = e.dev
	case peer != "":
		if e.peer, err = f.openPaced(peer, pacing); err != nil {
			return nil, errors.Join(err, e.dev.Close())
		}
		e.unpublish = append(e.unpublish, published.Add(e.peer))
	}
	e.unpublish = append(e.unpublish, published.Add(e.dev))
	return e, nil
}

func (f *endFlags) openPaced(name string, pacing perf.Pacing) (verbs.Device, error) {
	name, tags, tagged, err := wiretag.ParseName(name)
	if err != nil {
		return nil, err
	}
	dev, err := verbs.Open(name)
	if err != nil {
		return nil, err
	}
	if f.Stamps == "wire" {
		stamped, err := wirestamp.Wrap(dev, "")
		if err != nil {
			return nil, errors.Join(err, dev.Close())
		}
		dev = stamped
	}
	if tagged { // outside of what stamps: tags are off before, and on after it
		read, err := wiretag.Wrap(dev, "", tags)
		if err != nil {
			return nil, errors.Join(err, dev.Close())
		}
		dev = read
	}
	wrapped, err := pacing.Wrap(dev)
	if err != nil {
		return nil, errors.Join(err, dev.Close())
	}
	return wrapped, nil
}

// simPeer is another host of the network of a simulated one: h1, or h0 for h1.
func simPeer(name string) string {
	path, _, _ := strings.Cut(name, "?")
	network, host := path, ""
	if i := strings.LastIndexAny(path, "/:"); i >= 0 {
		network, host = path[:i+1], path[i+1:]
	}
	if host == "h1" {
		return network + "h0"
	}
	return network + "h1"
}

func (e *ends) close() error {
	for _, unpublish := range e.unpublish {
		unpublish()
	}
	var errs []error
	if e.peer != nil && e.peer != e.dev {
		errs = append(errs, e.peer.Close())
	}
	return errors.Join(append(errs, e.dev.Close())...)
}
