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

	"github.com/sluice-rdma/sluice/bench/perf"
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/cc"
	_ "github.com/sluice-rdma/sluice/cc/all" // --cc takes any
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/internal/outfile"
	"github.com/sluice-rdma/sluice/internal/signals"
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
	ends    endFlags
	pacing  pacingFlags
	tcp     int
	size    string
	dur     string
	every   string
	margin  string
	conn    string
	mtu     int
	outs    int
	atomic  string
	gbits   bool
	timeout time.Duration
	json    bool
	quiet   bool
	cm      bool
	record  string
}

// endFlags say which devices are the ends.
type endFlags struct{ dev, peer, stamps string }

func (f *endFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.dev, "ib-dev", "d", "", "`DEVICE` to use, as sluice devices lists them (default sim:lab/h0)")
	cmd.Flags().StringVar(&f.peer, "peer", "", "the other end's `DEVICE`: both ends run in this process (default, of sim: devices only, the network's h1 or h0)")
	cmd.Flags().StringVar(&f.stamps, "timestamps", "device", "completion timestamps of a paced run: the `SOURCE` device, or wire for soft: and soft-RoCE, by eBPF on its network interface (docs/host-ebpf.md)")
}

// pacingFlags say what paces requests.
type pacingFlags struct {
	engine        string
	settings      []string
	rate, unit    string
	segment, base string
	bypass        bool
}

func (f *pacingFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.engine, "cc", "", "let a rate `ENGINE` pace the requests: "+strings.Join(hostEngines(), ", "))
	flags.StringArrayVar(&f.settings, "cc-set", nil, "a setting of the engine, `KEY=VALUE`; may be repeated")
	flags.StringVar(&f.rate, "rate-limit", "", "pace each queue pair at a fixed `RATE`: 10Gbps, or a number in the unit of --rate-units")
	flags.StringVar(&f.unit, "rate-units", "g", "unit of a bare --rate-limit: g for Gbit/s, M for MiB/s")
	flags.StringVar(&f.segment, "segment", "", "cut paced Writes and Reads into segments of `SIZE` (default 16KiB)")
	flags.BoolVar(&f.bypass, "bypass", false, "spare the engine round trips that show no queue, at line rate (timely)")
	flags.StringVar(&f.base, "base-rtt", "", "round trip `TIME` of the idle network, for the engine (default 20us)")
}

// hostEngines are those that can pace on a device.
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
	p := perf.Pacing{Engine: f.engine, Settings: f.settings, Bypass: f.bypass}
	var errs []error
	if f.rate != "" {
		if number, err := strconv.ParseFloat(f.rate, 64); err == nil {
			unit, ok := map[string]float64{"g": 1e9, "M": 8 << 20}[f.unit]
			if !ok {
				errs = append(errs, fmt.Errorf("--rate-units %s: take g or M", f.unit))
			}
			if number *= unit; !(number < 1<<63) { // NaN, too
				errs = append(errs, fmt.Errorf("--rate-limit %s: a rate is at most %v", f.rate, units.Rate(math.MaxInt64)))
			} else {
				p.Rate = units.Rate(max(number, 0))
			}
		} else if err := p.Rate.UnmarshalText([]byte(f.rate)); err != nil {
			errs = append(errs, fmt.Errorf("--rate-limit: %w", err))
		}
		if p.Rate <= 0 && len(errs) == 0 {
			errs = append(errs, fmt.Errorf("--rate-limit %s: it must be positive", f.rate))
		}
	}
	if f.segment != "" {
		if err := p.Segment.UnmarshalText([]byte(f.segment)); err != nil {
			errs = append(errs, fmt.Errorf("--segment: %w", err))
		}
	}
	if f.base != "" {
		if err := p.BaseRTT.UnmarshalText([]byte(f.base)); err != nil {
			errs = append(errs, fmt.Errorf("--base-rtt: %w", err))
		}
	}
	return p, errors.Join(errs...)
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
			if err := f.settle(&c, t, cmd); err != nil {
				return usageError{err}
			}
			host := ""
			if len(operands) > 1 {
				host = operands[1]
			}
			r := perfRun{perfFlags: f, cfg: c, host: host, args: args, out: cmd.OutOrStdout(), notes: cmd.ErrOrStderr()}
			return r.run(cmd.Context())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	f.ends.add(cmd)
	c.Port = 1
	flags.VarP(&portFlag{&c.Port, &f.every}, "ib-port", "i", "`PORT` of the device; with a unit, as in -i 1s, it is --interval")
	flags.IntVarP(&c.GID, "gid-index", "x", -1, "index in the port's table of addresses (default the one by which the other end is reached)")
	flags.BoolVar(&c.IPv6, "ipv6", false, "without -x, take an IPv6 address")
	flags.StringVarP(&f.size, "size", "s", "", "`BYTES` of a message (default 65536, of latency tests 2, of atomics 8)")
	flags.BoolVarP(&c.All, "all", "a", false, "run all sizes from 2 to 2^23")
	flags.IntVarP(&c.Iterations, "iters", "n", 0, "messages of each queue pair (default 1000, of write_bw 5000)")
	flags.StringVarP(&f.dur, "duration", "D", "", "run for a `TIME` in place of -n: 5s, 10ms, or a number of seconds")
	flags.StringVarP(&f.margin, "margin", "f", "", "`TIME` at beginning and end of -D that does not count (default a quarter)")
	flags.StringVar(&f.every, "interval", "", "print a row every `TIME`, as iperf3 -i does: 500ms, or a number of seconds")
	flags.IntVarP(&c.QPs, "qp", "q", 1, "queue pairs")
	flags.IntVarP(&c.TxDepth, "tx-depth", "t", 0, "requests outstanding on a queue pair (default 128, of latency tests 1)")
	flags.IntVarP(&c.RxDepth, "rx-depth", "r", 512, "receives posted, of tests with sends")
	flags.IntVarP(&f.mtu, "mtu", "m", 0, "path MTU, 256 to 4096 (default what the route to the other end carries)")
	flags.IntVarP(&c.CQMod, "cq-mod", "Q", 0, "requests for each completion (default 100, above 8 KiB 1)")
	flags.IntVarP(&c.PostList, "post-list", "l", 1, "requests posted by one call")
	flags.IntVarP(&c.Inline, "inline-size", "I", -1, "post messages of up to this number of bytes inline")
	flags.IntVarP(&f.outs, "outs", "o", 0, "reads and atomics outstanding (default what the device can)")
	flags.StringVarP(&f.atomic, "atomic-type", "A", "FETCH_AND_ADD", "FETCH_AND_ADD or CMP_AND_SWAP")
	flags.StringVarP(&f.conn, "connection", "c", "RC", "RC, UC or UD")
	flags.BoolVarP(&c.Bidirectional, "bidirectional", "b", false, "both ends send at once")
	flags.BoolVarP(&c.Events, "events", "e", false, "wait for completion events in place of polling")
	flags.BoolVarP(&c.NoPeak, "noPeak", "N", false, "leave out the peak")
	flags.Uint8VarP(&c.SL, "sl", "S", 0, "service level")
	flags.Uint8Var(&c.TClass, "tclass", 0, "traffic class: DSCP and ECN")
	flags.Uint8VarP(&c.QPTimeout, "qp-timeout", "u", 14, "acknowledgement timeout, 4.096us * 2^n")
	f.pacing.add(cmd)
	flags.BoolVarP(&f.cm, "rdma-cm", "R", false, "connect by rdma_cm, and exchange data over it in place of TCP")
	flags.IntVarP(&f.tcp, "port", "p", exchange.DefaultPort, "port of the server, of TCP or rdma_cm")
	flags.DurationVar(&f.timeout, "timeout", time.Hour, "time to wait for the other end to finish its test")
	flags.BoolVar(&f.gbits, "report-gbits", false, "tell a perftest at the other end Gbit/s in place of MiB/s; rows here have Gbit/s always")
	flags.BoolP("CPU-freq", "F", false, "no effect: perftest's flag, which turns off a warning that Sluice does not print")
	flags.StringVar(&f.record, "record", "", "write inputs and answers of paced queue pairs' engines to `FILE`, for sluice replay")
	flags.BoolVar(&f.json, "json", false, "print the result as JSON")
	flags.BoolVar(&f.quiet, "quiet", false, "print the rows alone")
	return cmd
}

// settle fills in what the test decides and what flags have as text.
func (f *perfFlags) settle(c *perf.Config, t perf.Test, cmd *cobra.Command) error {
	d := perf.DefaultConfig(t)
	c.Test, c.Size = t, d.Size
	changed := cmd.Flags().Changed
	if !changed("iters") {
		c.Iterations = d.Iterations
	}
	if !changed("tx-depth") {
		c.TxDepth = d.TxDepth
	}
	if f.size != "" {
		n, err := parseSize(f.size)
		if err != nil {
			return fmt.Errorf("--size: %w", err)
		}
		c.Size = n
	}
	for _, x := range []struct {
		flag, text string
		to         *time.Duration
	}{{"--duration", f.dur, &c.Duration}, {"--margin", f.margin, &c.Margin}, {"--interval", f.every, &c.Interval}} {
		if x.text == "" {
			continue
		}
		v, err := parseSpan(x.text)
		if err != nil {
			return fmt.Errorf("%s: %w", x.flag, err)
		}
		*x.to = v
	}
	switch strings.ToUpper(f.conn) {
	case "RC":
		c.Service = ib.RC
	case "UC":
		c.Service = ib.UC
	case "UD":
		c.Service = ib.UD
		if f.size == "" && !t.Latency {
			c.Size = 0
		}
	default:
		return fmt.Errorf("--connection %s: take RC, UC or UD", f.conn)
	}
	switch f.atomic {
	case "FETCH_AND_ADD":
	case "CMP_AND_SWAP":
		c.CompareSwap = true
	default:
		return fmt.Errorf("--atomic-type %s: take FETCH_AND_ADD or CMP_AND_SWAP", f.atomic)
	}
	if changed("outs") && f.outs < 1 {
		return fmt.Errorf("--outs %d: give 1 to 255", f.outs)
	}
	if changed("mtu") && f.mtu == 0 {
		return fmt.Errorf("--mtu 0: take 256, 512, 1024, 2048 or 4096")
	}
	if f.tcp < 1 || f.tcp > 65535 {
		return fmt.Errorf("--port %d: give 1 to 65535", f.tcp)
	}
	c.OutReads, c.MTU, c.Patience, c.MiBytes = f.outs, ib.MTU(f.mtu), f.timeout, !f.gbits
	return c.Validate()
}

// portFlag is -i: perftest's port, a bare number; or, since it has a unit or a
// fraction, which no port has, iperf3's interval.
type portFlag struct {
	port  *int
	every *string
}

// String implements pflag.Value.
func (p *portFlag) String() string {
	if p.port == nil {
		return ""
	}
	return strconv.Itoa(*p.port)
}

// Set implements pflag.Value.
func (p *portFlag) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err == nil {
		*p.port = n
		return nil
	}
	if _, err := units.ParseTime(s); err != nil {
		return fmt.Errorf("%q: give a port, such as 1, or an interval with its unit, such as 1s", s)
	}
	*p.every = s
	return nil
}

// Type implements pflag.Value.
func (p *portFlag) Type() string { return "port" }

// parseSize reads bytes: a number, as perftest has it, or with a unit.
func parseSize(s string) (int, error) {
	if n, err := strconv.Atoi(s); err == nil {
		return n, nil
	}
	n, err := units.ParseBytes(s)
	return int(n), err
}

// parseSpan reads a time: seconds, as perftest has it, or with a unit.
func parseSpan(s string) (time.Duration, error) {
	if n, err := strconv.Atoi(s); err == nil {
		if n < 1 || n > 1e6 {
			return 0, fmt.Errorf("%d seconds: give 1 to 1000000", n)
		}
		return time.Duration(n) * time.Second, nil
	}
	t, err := units.ParseTime(s)
	switch {
	case err != nil:
	case t <= 0 || t == units.Never:
		err = fmt.Errorf("%q: it must be positive", s)
	case t < units.Nanosecond:
		err = fmt.Errorf("%q is less than a nanosecond", s)
	}
	return t.Duration(), err
}

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
	if r.record != "" {
		if pacing.Engine == "" && pacing.Rate == 0 {
			return usageError{errors.New("--record needs something that paces: give --cc or --rate-limit")}
		}
		var stop func()
		ctx, stop = interruptible(ctx) // before there is a file
		defer stop()
		f, err := outfile.Create(r.record)
		if err != nil {
			return usageError{err}
		}
		rec := signals.NewRecorder(f)
		pacing.Record = rec
		defer func() { failed = errors.Join(failed, endRecording(rec, f, failed)) }()
	}
	ends, err := r.ends.open(r.host, pacing)
	if err != nil {
		return usageError{err}
	}
	if !r.quiet {
		r.progress = newProgress(os.Stderr)
		r.cfg.Progress = r.progress.Show
	}
	if !r.json {
		r.cfg.Started = func(res *perf.Result) {
			res.Pacing = pacing.String()
			if !r.quiet {
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
	case r.json:
		result.Pacing = pacing.String()
		err = r.writeJSON(start, result)
	case !r.quiet:
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
		if before != kind && !r.quiet {
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
func endRecording(rec *signals.Recorder, f *outfile.File, failed error) error {
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
		if r.cm {
			return nil, usageError{errors.New("-R needs its other end in another process: leave --peer out, or name a real device with -d")}
		}
		return perf.Pair(e.dev, e.peer, r.cfg)
	}
	if r.cm {
		return r.testCM(ctx, e)
	}
	var conn *exchange.Conn
	var err error
	if r.host != "" {
		conn, err = exchange.Dial(ctx, net.JoinHostPort(r.host, strconv.Itoa(r.tcp)), 0)
	} else {
		conn, err = accept(ctx, r.tcp, r.notes)
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
		addr, err := resolvePing(ctx, r.host, r.tcp, r.cfg.IPv6)
		if err != nil {
			return nil, err
		}
		return perf.DialCM(ctx, e.dev, addr, r.cfg)
	}
	any := netip.IPv4Unspecified()
	if r.cfg.IPv6 {
		any = netip.IPv6Unspecified()
	}
	l, err := rdmacm.Listen(e.dev, netip.AddrPortFrom(any, uint16(r.tcp)))
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(r.notes, "waiting for a client on port %d of %s\n", r.tcp, e.dev.Name())
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
	name, peer := f.dev, f.peer
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
	if f.stamps != "device" && f.stamps != "wire" {
		return nil, fmt.Errorf("--timestamps %s: take device or wire", f.stamps)
	}
	name, tags, tagged, err := wiretag.ParseName(name)
	if err != nil {
		return nil, err
	}
	dev, err := verbs.Open(name)
	if err != nil {
		return nil, err
	}
	if f.stamps == "wire" {
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
