package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/cli/internal/softswitch"
	"github.com/sluice-rdma/sluice/internal/infile"
	"github.com/sluice-rdma/sluice/p4"
)

// switchFlags holds the flags of sluice switch.
type switchFlags struct {
	ports     []string
	program   string
	entries   string
	p4        p4.Options
	interval  time.Duration
	duration  time.Duration
	json      bool
	args      []string
	start     time.Time
	terminal  bool
	lines     int // of the table that was shown last
	described softswitch.Stats
}

func newSwitch(args []string) *cobra.Command {
	f := switchFlags{args: args}
	cmd := &cobra.Command{
		Use:   "switch --port INTERFACE --port INTERFACE:rate=RATE,...",
		Short: "Be a switch between network interfaces, by a P4 program",
		Long: `Forward frames between network interfaces until interrupted. A P4 program decides
where each goes and what is written into it; without one, addresses are learnt as by
a bridge. A port's egress has a rate and a buffer: rate=200Mbps, buffer=1MB,
packets=1000, ecn=100KB. Ports are numbered from 0, in the order in which they are
given. It needs root, or CAP_NET_RAW. docs/switch.md.`,
		Example: `  sluice switch --port veth0 --port veth1:rate=200Mbps,buffer=1MB
  sluice switch --program p4/csig_mpd.p4 -D WIDE_STEP_LOG2=10 --port veth0 --port veth1:rate=200Mbps
  sluice switch --program p4/int.p4 --entries ports.stf --port veth0 --port veth1 --port veth2:rate=1Gbps --json`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return f.run(c.Context(), c.OutOrStdout()) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringArrayVar(&f.ports, "port", nil, "an `INTERFACE[:rate=...,buffer=...,packets=...,ecn=...]`; twice or more")
	flags.StringVar(&f.program, "program", "", "the P4 program, a `FILE`, or one of Sluice's own, such as p4/int.p4")
	flags.StringVar(&f.entries, "entries", "", "a `FILE` of table entries for it: the lines add, setdefault, mc_mgrp_create, ... of .stf files")
	flags.StringArrayVarP(&f.p4.Define, "define", "D", nil, "define the macro `NAME[=VALUE]` for the program; may be repeated")
	flags.StringArrayVarP(&f.p4.Include, "include", "I", nil, "look for files that the program includes in `DIR`, too; may be repeated")
	flags.DurationVar(&f.interval, "stats-interval", time.Second, "`TIME` between two showings of the counters, on a terminal or with --json; 0 for none")
	flags.DurationVar(&f.duration, "duration", 0, "end after this `TIME` (default when interrupted)")
	flags.BoolVar(&f.json, "json", false, "print counters as JSON, a document on each line")
	return cmd
}

// config checks what was asked for, as far as that goes without opening anything.
func (f *switchFlags) config() (softswitch.Config, error) {
	var c softswitch.Config
	if len(f.ports) < 2 {
		return c, fmt.Errorf("%d ports: give two or more with --port INTERFACE", len(f.ports))
	}
	for _, text := range f.ports {
		p, err := softswitch.ParsePort(text)
		if err != nil {
			return c, fmt.Errorf("--port: %w", err)
		}
		c.Ports = append(c.Ports, p)
	}
	switch {
	case f.interval < 0 || f.interval > 0 && f.interval < 10*time.Millisecond:
		return c, fmt.Errorf("--stats-interval %v: give 10ms or more, or 0 for none", f.interval)
	case f.duration < 0:
		return c, fmt.Errorf("--duration %v: give a time above 0", f.duration)
	case f.program == "" && (f.entries != "" || len(f.p4.Define) > 0 || len(f.p4.Include) > 0):
		return c, errors.New("--entries, -D and -I are for a program: give one with --program FILE")
	case f.program == "":
		return c, nil
	}
	prog, err := p4.Find(f.program, f.p4)
	if err != nil {
		return c, err
	}
	c.Pipeline = prog.New()
	if f.entries == "" {
		return c, nil
	}
	text, err := infile.Read(f.entries, infile.MaxText)
	if err == nil {
		err = p4.Configure(c.Pipeline, f.entries, text)
	}
	return c, err
}

func (f *switchFlags) run(ctx context.Context, out io.Writer) error {
	c, err := f.config()
	if err != nil {
		return usageError{err}
	}
	s, err := softswitch.Open(c)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, endings()...)
	defer stop()
	if f.duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.duration)
		defer cancel()
	}
	f.start = time.Now()
	if o, ok := out.(*os.File); ok {
		info, err := o.Stat()
		f.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	if !f.json {
		if _, err := fmt.Fprintf(out, "%d ports, %s; end with ctrl-c\n", len(c.Ports), f.what()); err != nil {
			return errors.Join(err, s.Close())
		}
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	err, ended := f.watch(s, out, done)
	if !ended { // its sockets are its own until it has
		stop()
		err = errors.Join(err, <-done)
	}
	return errors.Join(err, s.Close(), f.show(out, s.Stats(), true))
}

func (f *switchFlags) what() string {
	if f.program == "" {
		return "a learning bridge"
	}
	return "program " + f.program
}

// watch shows counters until the switch has ended, or they can't be written.
func (f *switchFlags) watch(s *softswitch.Switch, out io.Writer, done <-chan error) (err error, ended bool) {
	var tick <-chan time.Time
	if f.interval > 0 && (f.terminal || f.json) {
		t := time.NewTicker(f.interval)
		defer t.Stop()
		tick = t.C
	}
	for {
		select {
		case err := <-done:
			return err, true
		case <-tick:
			if err := f.show(out, s.Stats(), false); err != nil {
				return errors.Join(err, errors.New("the counters can't be written")), false
			}
		}
	}
}

// switchDocument is a line of sluice switch --json.
type switchDocument struct {
	Version     int                 `json:"version"`
	StartTime   string              `json:"start_time"`
	Arguments   []string            `json:"arguments"`
	Environment results.Environment `json:"environment"`
	Program     string              `json:"program,omitempty"`
	Final       bool                `json:"final"` // the switch has ended
	softswitch.Stats
}

// show writes counters: the document, or a table in place of the last one.
func (f *switchFlags) show(out io.Writer, s softswitch.Stats, final bool) error {
	if f.json {
		d := results.NewDocument(f.start, f.args)
		e := json.NewEncoder(out)
		e.SetEscapeHTML(false)
		return e.Encode(switchDocument{1, d.StartTime, d.Arguments, d.Environment, f.program, final, s})
	}
	if final {
		f.described = softswitch.Stats{} // rates are those of the whole time
	}
	text := switchTable(&s, &f.described)
	f.described = s
	lines := strings.Count(text, "\n")
	if f.terminal {
		text = "\x1b[?7l" + text + "\x1b[?7h" // no line goes on in the next
	}
	if f.lines > 0 {
		text = fmt.Sprintf("\x1b[%dA\x1b[J%s", f.lines, text) // over the last one
	}
	f.lines = lines
	_, err := io.WriteString(out, text)
	return err
}

// switchTable shows counters, and rates since those of before.
func switchTable(s, before *softswitch.Stats) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "port\trx packets\ttx packets\ttx[Mb/sec]\tdrops\tmissed\tmarked\tqueue[B]\tmax[B]\tdelay avg[usec]\tp99[usec]\tmax[usec]\t\n")
	for i := range s.Ports {
		p := &s.Ports[i]
		bytes := p.TxBytes
		if i < len(before.Ports) {
			bytes -= before.Ports[i].TxBytes
		}
		rate := 0.0
		if span := s.Seconds - before.Seconds; span > 0 {
			rate = float64(bytes) * 8e-6 / span
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%.2f\t%d\t%d\t%d\t%d\t%d\t%.1f\t%.1f\t%.1f\t\n", p.Name, p.RxPackets, p.TxPackets, rate, p.Drops, p.Missed+p.TxErrors, p.Marked,
			p.QueueBytes, p.MaxQueueBytes, p.DelayMeanUs, p.DelayP99Us, p.DelayMaxUs)
	}
	_ = w.Flush() // to memory
	if n := s.Discarded + s.NoPort + s.TooLong + s.Unknown; n > 0 {
		fmt.Fprintf(&b, "%d frames dropped besides: %d by the program or bridge, %d for no port, %d too long, %d not understood\n", n, s.Discarded, s.NoPort, s.TooLong, s.Unknown)
	}
	return b.String()
}
