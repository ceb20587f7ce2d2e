package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"github.com/spf13/cobra"

	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/internal/infile"
	"github.com/sluice-rdma/sluice/internal/outfile"
	"github.com/sluice-rdma/sluice/sim/fault"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs/storm"
)

// stormDocument is what sluice storm --json prints.
type stormDocument struct {
	Version     int                 `json:"version"`
	StartTime   string              `json:"start_time"`
	Arguments   []string            `json:"arguments"`
	Environment results.Environment `json:"environment"`
	Provider    string              `json:"provider"`
	Shim        string              `json:"shim,omitempty"`
	Processes   int                 `json:"processes"`
	FirstSeed   uint64              `json:"first_seed"`
	Seeds       uint64              `json:"seeds"`
	Seconds     float64             `json:"seconds"`
	SeedsPerSec float64             `json:"seeds_per_second"`
	Requests    uint64              `json:"requests"`
	Failed      uint64              `json:"failed_requests"`
	Packets     uint64              `json:"packets"`
	Interrupted bool                `json:"interrupted,omitempty"`
	UnderWay    []uint64            `json:"under_way,omitempty"` // seeds that were, as it was interrupted
	Failure     *stormFailure       `json:"failure,omitempty"`

	// With --out: the folder, a failure of each task that has one, and the tasks whose
	// results are not there, as an array. Seconds are those of the tasks, added up.
	Folder   string          `json:"folder,omitempty"`
	Failures []*stormFailure `json:"failures,omitempty"`
	Missing  string          `json:"missing,omitempty"`
	// Misfits say of missing tasks whose results are not what they should be, why.
	Misfits []string `json:"misfits,omitempty"`
}

// stormFailure is a run that failed, and the least that still fails.
type stormFailure struct {
	Seed    uint64   `json:"seed"`
	What    string   `json:"what"`
	Faults  int      `json:"faults"` // of the seed
	Shrunk  []string `json:"shrunk_faults"`
	Then    string   `json:"then"`                            // what the shrunk run does
	Broken  bool     `json:"shrinking_interrupted,omitempty"` // fewer faults may be enough
	Stack   string   `json:"stack,omitempty"`
	Capture string   `json:"capture,omitempty"`
}

type stormOptions struct {
	config   storm.Config
	seeds    uint64
	workers  int
	tries    int
	span     units.Time
	faults   string
	capture  string
	asJSON   bool
	patience time.Duration
	folder   stormFolder
}

func newStorm(args []string) *cobra.Command {
	o := stormOptions{config: storm.Default()}
	o.span = o.config.Span
	cmd := &cobra.Command{
		Use:   "storm",
		Short: "Run seeded storms of faults over the verbs, in simulated time",
		Long: `Processes connect with each other and send all kinds of requests, while packets are
dropped, doubled, late, corrupted and marked, links part, processes crash and restart or
stand still, and NIC clocks step and drift; all in simulated time, over the code that
runs in production. The seed of a run gives its faults. Completions, memory and
connections are compared with what they must be (docs/storm.md).

The first failure ends the command, with status 1. Its faults are shrunk: every fault
without which it still fails is left out. The rest can be saved, and run again by
--faults, with the same --seed.

With --out, seeds are run by tasks of --chunk seeds, each of which is kept when it is
done and ends with its first failure. Tasks of an array of Slurm, Kubernetes, Grid Engine,
PBS or GNU parallel share the folder, and take the task that the environment names.`,
		Example: "  sluice storm --seeds 1000\n  sluice storm --provider sim --shim timely --seeds 1000\n  sluice storm --seed 4711 -w failure.pcapng\n  sluice storm --seeds 1000000 --out storms",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return o.run(c, args) },
	}
	f := cmd.Flags()
	f.StringVar(&o.config.Provider, "provider", o.config.Provider, "run over `soft or sim`: soft-RoCE on a wire in memory, or the NIC model")
	f.StringVar(&o.config.Shim, "shim", "", "lay the shim over each device, with this `ENGINE`, or none")
	f.Uint64Var(&o.config.Seed, "seed", o.config.Seed, "first `SEED`")
	f.Uint64Var(&o.seeds, "seeds", 1, "`NUMBER` of seeds to run")
	f.IntVar(&o.config.Processes, "processes", o.config.Processes, "`NUMBER` of processes, 2 to 16")
	f.TextVar(&o.span, "span", o.span, "simulated `TIME` within which faults come")
	f.IntVar(&o.workers, "workers", runtime.GOMAXPROCS(0), "`NUMBER` of runs at a time")
	f.IntVar(&o.tries, "shrink", 1000, "runs at most this `NUMBER` of times to shrink a failure; 0 does not")
	f.StringVar(&o.faults, "faults", "", "take the faults from a `FILE`, - for standard input, instead of the seed")
	f.StringVarP(&o.capture, "write", "w", "", "write the packets of the failed run, shrunk, or of the only run, to a pcapng `FILE` (soft only)")
	f.BoolVar(&o.asJSON, "json", false, "print as JSON")
	f.DurationVar(&o.patience, "patience", o.config.Patience, "real `TIME` after which a run counts as hanging")
	o.folder.addTo(cmd)
	return cmd
}

func (o *stormOptions) run(c *cobra.Command, args []string) error {
	o.config.Span, o.config.Patience = o.span, o.patience
	switch {
	case o.seeds == 0:
		return usageError{errors.New("--seeds 0: give at least 1")}
	case o.workers < 1:
		return usageError{fmt.Errorf("--workers %d: give at least 1", o.workers)}
	case o.capture != "" && o.config.Provider != "soft":
		return usageError{fmt.Errorf("--write with --provider %s: only soft devices have packets to write", o.config.Provider)}
	case o.faults != "" && o.seeds > 1:
		return usageError{errors.New("--faults with --seeds: a file of faults is for one seed")}
	}
	if err := o.folder.check(c, o); err != nil {
		return usageError{err}
	}
	if o.faults != "" {
		s, err := readFaults(o.faults, c.InOrStdin())
		if err != nil {
			return usageError{err}
		}
		o.config.Faults = s
	}
	if err := o.config.Validate(); err != nil {
		return usageError{err}
	}
	debug.SetGCPercent(400) // a run's memory is small and short-lived
	program := results.NewDocument(time.Now(), args)
	ctx, stop := interruptible(c.Context())
	defer stop()
	line := newProgress(os.Stderr)
	d := &stormDocument{
		Version: 1, StartTime: program.StartTime, Arguments: program.Arguments, Environment: program.Environment,
		Provider: o.config.Provider, Shim: o.config.Shim, Processes: o.config.Processes, FirstSeed: o.config.Seed,
	}
	blank := *d
	run := func(config storm.Config, n uint64) (*stormDocument, error) {
		one := blank
		one.FirstSeed = config.Seed
		done := config.Seed - o.config.Seed
		err := o.runSeeds(ctx, &one, config, n, func(t storm.Tally) {
			line.Show(float64(done+t.Seeds)/float64(o.seeds), fmt.Sprintf("%s: %d of %d seeds", o.config.Provider, done+t.Seeds, o.seeds))
		})
		d.UnderWay = one.UnderWay
		return &one, err
	}
	var err error
	if o.folder.name != "" {
		err = o.folder.sum(ctx, d, o.config, o.seeds, run)
	} else {
		d, err = run(o.config, o.seeds)
	}
	line.Clear()
	if err != nil {
		return err
	}
	var broken error
	if d.Failure == nil && ctx.Err() != nil {
		broken = context.Cause(ctx)
		d.Interrupted = true
	}
	if o.capture != "" && d.Failure == nil && o.seeds == 1 && broken == nil {
		if err := o.record(ctx, o.config); err != nil {
			return err
		}
	}
	if err := d.write(c.OutOrStdout(), o.asJSON); err != nil {
		return err
	}
	switch {
	case d.Failure != nil:
		return fmt.Errorf("seed %d fails over %s: %s", d.Failure.Seed, overName(&o.config), d.Failure.What)
	case len(d.Failures) > 0:
		return fmt.Errorf("%d of the tasks have a seed that fails over %s, the first seed %d: %s", len(d.Failures), overName(&o.config), d.Failures[0].Seed, d.Failures[0].What)
	}
	return broken
}

// runSeeds runs n seeds and adds what they gave to a document.
func (o *stormOptions) runSeeds(ctx context.Context, d *stormDocument, config storm.Config, n uint64, progress func(storm.Tally)) error {
	began := time.Now()
	tally, failed, err := storm.Seeds(ctx, config, n, o.workers, progress)
	if err != nil {
		return err
	}
	d.Seeds, d.Requests, d.Failed, d.Packets = tally.Seeds, tally.Requests, tally.Failed, tally.Packets
	d.Seconds = time.Since(began).Seconds()
	d.SeedsPerSec = float64(d.Seeds) / d.Seconds
	d.UnderWay = tally.UnderWay
	if failed != nil {
		d.Failure, err = o.explain(ctx, failed)
		return err
	}
	d.Interrupted = tally.Seeds < n
	return nil
}

func overName(c *storm.Config) string {
	if c.Shim == "" {
		return c.Provider
	}
	return c.Provider + " with the shim (" + c.Shim + ")"
}

func readFaults(name string, in io.Reader) (fault.Schedule, error) {
	var text []byte
	var err error
	if name == "-" {
		text, err = infile.All(in, infile.MaxText)
	} else {
		text, err = infile.Read(name, infile.MaxText)
	}
	if err != nil {
		return nil, err
	}
	s, err := fault.ParseSchedule(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if s == nil {
		s = fault.Schedule{}
	}
	return s, nil
}

// explain shrinks a failure, and records it, for as long as ctx lasts.
func (o *stormOptions) explain(ctx context.Context, failed *storm.Result) (*stormFailure, error) {
	c := o.config
	c.Seed = failed.Seed
	tries := o.tries
	if failed.Hangs {
		tries = min(tries, 10) // each takes --patience
	}
	least, err := storm.Shrink(ctx, c, failed, tries)
	broken := ctx.Err() != nil
	if err != nil && !broken {
		return nil, err
	}
	f := &stormFailure{
		Seed: failed.Seed, What: failed.Failure, Faults: len(failed.Faults), Then: least.Failure, Stack: least.Stack,
		Shrunk: make([]string, 0, len(least.Faults)), Broken: broken,
	}
	for _, x := range least.Faults {
		f.Shrunk = append(f.Shrunk, x.String())
	}
	if o.capture != "" && !broken {
		c.Faults = least.Faults
		switch err := o.record(ctx, c); {
		case err == nil:
			f.Capture = o.capture
		case ctx.Err() == nil:
			return f, err
		}
	}
	return f, nil
}

// record runs once and writes the packets to the file of --write.
func (o *stormOptions) record(ctx context.Context, c storm.Config) error {
	return outfile.Write(o.capture, func(w io.Writer) error {
		link := pcapgo.DefaultNgInterface
		link.Name, link.LinkType = "storm", layers.LinkTypeRaw
		ng, err := pcapgo.NewNgWriterInterface(w, link, pcapgo.DefaultNgWriterOptions)
		if err != nil {
			return err
		}
		var failed error
		c.Sent = func(now units.Time, src, dst netip.AddrPort, trafficClass uint8, id uint16, p []byte) {
			frame, err := ipFrame(src, dst, trafficClass, id, p)
			if err == nil {
				err = ng.WritePacket(gopacket.CaptureInfo{
					Timestamp: time.Unix(0, int64(now/units.Nanosecond)), CaptureLength: len(frame), Length: len(frame),
				}, frame)
			}
			failed = errors.Join(failed, err)
		}
		if _, err := storm.Run(ctx, c); err != nil {
			return err
		}
		return errors.Join(failed, ng.Flush())
	})
}

// ipFrame puts IPv4 and UDP headers before a packet, as a soft device's socket does.
func ipFrame(src, dst netip.AddrPort, trafficClass uint8, id uint16, p []byte) ([]byte, error) {
	ip := &layers.IPv4{
		Version: 4, IHL: 5, TOS: trafficClass, Id: id, Flags: layers.IPv4DontFragment, TTL: 64, Protocol: layers.IPProtocolUDP,
		SrcIP: src.Addr().AsSlice(), DstIP: dst.Addr().AsSlice(),
	}
	udp := &layers.UDP{SrcPort: layers.UDPPort(src.Port()), DstPort: layers.UDPPort(dst.Port())}
	if err := udp.SetNetworkLayerForChecksum(ip); err != nil {
		return nil, err
	}
	b := gopacket.NewSerializeBuffer()
	err := gopacket.SerializeLayers(b, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, ip, udp, gopacket.Payload(p))
	return b.Bytes(), err
}

func (d *stormDocument) write(w io.Writer, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(d)
	}
	over := d.Provider
	if d.Shim != "" {
		over += ", shim " + d.Shim
	}
	if _, err := fmt.Fprintf(w, "%s: %d seeds from %d on, %d requests completed, %d failed, %d packets, %.1f s (%.0f seeds/s)\n",
		over, d.Seeds, d.FirstSeed, d.Requests, d.Failed, d.Packets, d.Seconds, d.SeedsPerSec); err != nil {
		return err
	}
	for _, seed := range d.UnderWay {
		if _, err := fmt.Fprintf(w, "seed %d was under way\n", seed); err != nil {
			return err
		}
	}
	if d.Missing != "" {
		if _, err := fmt.Fprintf(w, "%s does not have all: missing are the tasks --array=%s\n", d.Folder, d.Missing); err != nil {
			return err
		}
	}
	for _, why := range d.Misfits {
		if _, err := fmt.Fprintln(w, why); err != nil {
			return err
		}
	}
	for _, f := range append([]*stormFailure{d.Failure}, d.Failures...) {
		if f != nil {
			if err := f.write(w); err != nil {
				return err
			}
		}
	}
	return nil
}

// write prints the failure.
func (f *stormFailure) write(w io.Writer) error {
	fewer := ""
	if f.Broken {
		fewer = ", and fewer may be: shrinking them was interrupted"
	}
	_, err := fmt.Fprintf(w, "seed %d fails: %s\n%d of its %d faults are enough%s; with them: %s\n", f.Seed, f.What, len(f.Shrunk), f.Faults, fewer, f.Then)
	for _, line := range f.Shrunk {
		if err == nil {
			_, err = fmt.Fprintf(w, "  %s\n", line)
		}
	}
	if err == nil && f.Stack != "" {
		_, err = fmt.Fprintf(w, "%s\n", f.Stack)
	}
	return err
}
