package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"github.com/spf13/cobra"

	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/cli/internal/capture"
	"github.com/sluice-rdma/sluice/internal/infile"
	"github.com/sluice-rdma/sluice/internal/outfile"
	"github.com/sluice-rdma/sluice/p4"
	"github.com/sluice-rdma/sluice/units"
)

func newP4() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "p4",
		Short: "Check, test and run P4 programs of switches",
		Long: `Check, test and run programs in P4_16 for the architectures v1model and TNA
(docs/p4.md). Included files are looked for beside the program, in the directories of
-I, and last among the built-in core.p4, v1model.p4, tna.p4 and t2na.p4. A name without
a file means one of Sluice's own programs: p4/csig_mpd.p4,
p4/poseidon_mpd.p4, p4/int.p4, p4/ein.p4, and the same with _tna.p4.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return noCommand(c, args[0])
			}
			return nil
		},
		RunE:    func(c *cobra.Command, _ []string) error { return c.Help() },
		Example: "  sluice p4 check switch.p4\n  sluice p4 test switch.p4\n  sluice p4 run switch.p4 --in before.pcap --out after.pcapng",
	}
	cmd.AddCommand(newP4Check(), newP4Test(), newP4Run())
	return cmd
}

// p4Flags adds the flags for reading a program.
func p4Flags(cmd *cobra.Command, o *p4.Options) {
	cmd.Flags().StringArrayVarP(&o.Include, "include", "I", nil, "look for included files in `DIR`, too; may be repeated")
	cmd.Flags().StringArrayVarP(&o.Define, "define", "D", nil, "define the macro `NAME[=VALUE]`; may be repeated")
}

func p4Programs(least, most int) cobra.PositionalArgs {
	return func(c *cobra.Command, names []string) error {
		if len(names) < least || len(names) > most {
			return usageError{fmt.Errorf("%s takes a P4 program: see %s --help", c.CommandPath(), c.CommandPath())}
		}
		return nil
	}
}

func newP4Check() *cobra.Command {
	var o p4.Options
	cmd := &cobra.Command{
		Use:   "check PROGRAM...",
		Short: "Say whether programs are right and can be run",
		Long: `Read, type and compile programs. Faults are shown as FILE:LINE:COLUMN: TEXT, and the
exit status is then 1. A program that is valid P4 but needs what Sluice does not run
is "not supported". A construct that p4c takes though the language does not allow it gets
a warning, and so does an extern that the program itself declares: the program is right,
but test, run and scenarios refuse it.

With --target, programs for TNA get a warning for each place that the chip's compiler
is known to refuse (docs/p4.md has the rules). Warnings leave the exit status alone. A
program without warnings may still not fit: only the compiler can say that.`,
		Example: "  sluice p4 check switch.p4\n  sluice p4 check -I include -D PORTS=8 a.p4 b.p4\n  sluice p4 check --target tofino1 switch_tna.p4",
		Args:    p4Programs(1, 1<<20),
		RunE: func(c *cobra.Command, names []string) error {
			var errs []error
			for _, name := range names {
				r, err := p4.Check(name, o)
				if err != nil {
					errs = append(errs, err)
					continue
				}
				if _, err := fmt.Fprintf(c.OutOrStdout(), "%s: ok, %s, %d tables\n", name, r.Architecture, r.Tables); err != nil {
					return err
				}
				for _, w := range r.Warnings {
					if _, err := fmt.Fprintln(c.OutOrStdout(), w); err != nil {
						return err
					}
				}
			}
			return errors.Join(errs...)
		},
	}
	p4Flags(cmd, &o)
	cmd.Flags().StringVar(&o.Target, "target", "", "warn of what the compiler of `CHIP` refuses: "+strings.Join(p4.Targets(), ", "))
	return cmd
}

// p4TestDocument is the output of sluice p4 test --json.
type p4TestDocument struct {
	Version     int                 `json:"version"`
	Environment results.Environment `json:"environment"`
	Program     string              `json:"program"`
	Files       []p4TestFile        `json:"files"`
}

type p4TestFile struct {
	File     string   `json:"file"`
	Passed   bool     `json:"passed"`
	Packets  int      `json:"packets"`
	Expected int      `json:"expected"`
	Failures []string `json:"failures,omitempty"`
}

func newP4Test() *cobra.Command {
	var o p4.Options
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "test PROGRAM [FILE.stf...]",
		Short: "Run a program's packet tests",
		Long: `Run the packet tests (.stf: packets in, packets expected, table entries) of a
program on a new switch each, and say which passed and what differed. Without files,
the tests of x.p4 are x.stf and x-*.stf beside it, except those of a program with
that name; Sluice's own programs bring theirs. The exit status is 1 if a test
fails.`,
		Example: "  sluice p4 test switch.p4\n  sluice p4 test switch.p4 queues.stf --json",
		Args:    p4Programs(1, 1<<20),
		RunE: func(c *cobra.Command, names []string) error {
			prog, err := p4.Find(names[0], o)
			if err != nil {
				return err
			}
			files, read := names[1:], readP4Text
			if len(files) == 0 {
				if files, read, err = stfFiles(names[0]); err != nil {
					return err
				}
			}
			doc := p4TestDocument{Version: 1, Environment: results.Here(), Program: names[0]}
			failed := 0
			for _, f := range files {
				t := testSTF(prog, f, read)
				doc.Files = append(doc.Files, t)
				if !t.Passed {
					failed++
				}
			}
			if err := writeP4Test(c.OutOrStdout(), &doc, asJSON); err != nil {
				return err
			}
			if failed > 0 {
				return fmt.Errorf("%d of %d files failed", failed, len(files))
			}
			return nil
		},
	}
	p4Flags(cmd, &o)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

// readP4Text reads a packet test, or commands for a switch's tables.
func readP4Text(name string) ([]byte, error) { return infile.Read(name, infile.MaxText) }

// stfFiles finds the tests beside a program, and says how to read them.
func stfFiles(program string) (files []string, read func(string) ([]byte, error), err error) {
	dir, file := filepath.Split(program)
	fsys := os.DirFS(filepath.Clean(dir))
	read = readP4Text
	if own, ok := p4.Own(program); ok {
		fsys, file = p4.Programs, own
		read = func(name string) ([]byte, error) { return p4.Programs.ReadFile(filepath.Base(name)) }
	}
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, nil, err
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	ext := filepath.Ext(file)
	stem := strings.TrimSuffix(file, ext)
	for _, n := range names {
		own, ok := strings.CutSuffix(n, ".stf")
		if !ok || own != stem && (!strings.HasPrefix(own, stem+"-") || slices.Contains(names, own+ext)) {
			continue
		}
		files = append(files, dir+n)
	}
	if len(files) == 0 {
		base := dir + stem
		return nil, nil, fmt.Errorf("%s has no tests: there is neither %s.stf nor %s-*.stf", program, base, base)
	}
	return files, read, nil
}

func testSTF(prog *p4.Program, file string, read func(string) ([]byte, error)) p4TestFile {
	t := p4TestFile{File: file}
	text, err := read(file)
	var script *p4.Script
	if err == nil {
		script, err = p4.ParseScript(file, text)
	}
	var r p4.Result
	if err == nil {
		r, err = p4.RunScript(prog, script)
	}
	t.Packets, t.Expected = r.Packets, r.Expected
	for _, f := range r.Failures {
		t.Failures = append(t.Failures, fmt.Sprintf("%s:%d: %s", file, f.Line, f.Text))
	}
	if err != nil {
		t.Failures = append(t.Failures, err.Error())
	}
	t.Passed = len(t.Failures) == 0
	return t
}

func writeP4Test(w io.Writer, doc *p4TestDocument, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(doc)
	}
	var b strings.Builder
	for _, f := range doc.Files {
		if f.Passed {
			fmt.Fprintf(&b, "%s: pass, %d packets in, %d expected\n", f.File, f.Packets, f.Expected)
			continue
		}
		fmt.Fprintf(&b, "%s: FAIL\n", f.File)
		for _, x := range f.Failures {
			b.WriteString("  " + strings.ReplaceAll(x, "\n", "\n  ") + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// p4RunDocument is the output of sluice p4 run --json.
type p4RunDocument struct {
	Version        int                 `json:"version"`
	Environment    results.Environment `json:"environment"`
	Program        string              `json:"program"`
	Packets        int                 `json:"packets"`
	Sent           int                 `json:"sent"`
	SentByPort     map[string]int      `json:"sent_by_port"`
	Dropped        int                 `json:"dropped"`
	Clones         int                 `json:"clones"`
	Resubmits      int                 `json:"resubmits"`
	Recirculations int                 `json:"recirculations"`
	Digests        int                 `json:"digests"`
	ParserErrors   map[string]int      `json:"parser_errors,omitempty"`
	Skipped        int                 `json:"skipped"` // frames that are not Ethernet or not whole
}

func newP4Run() *cobra.Command {
	var o p4.Options
	var in []string
	var out, entries string
	var asJSON bool
	var seed uint64
	cmd := &cobra.Command{
		Use:   "run PROGRAM --in FILE",
		Short: "Put the packets of a capture through a program",
		Long: `Put the Ethernet frames of captures (pcap or pcapng, gzipped or not) through a switch
that runs a program, at the times that the capture gives. --in PORT=FILE says by which
port a capture's frames come, without PORT it is 0. Queues are empty: a packet leaves
when it arrives. Frames that leave are written to --out: pcapng with an interface for
each port, or pcap if the name ends so. --entries sets tables and more with the lines of
a packet test (.stf).`,
		Example: "  sluice p4 run switch.p4 --in before.pcap --out after.pcapng\n  sluice p4 run switch.p4 --in 1=a.pcap --in 2=b.pcap --entries tables.stf --json",
		Args:    p4Programs(1, 1),
		RunE: func(c *cobra.Command, names []string) error {
			if len(in) == 0 {
				return usageError{fmt.Errorf("%s needs a capture: --in FILE", c.CommandPath())}
			}
			prog, err := p4.Find(names[0], o)
			if err != nil {
				return err
			}
			pl := prog.New()
			pl.Seed(seed)
			pl.SetLog(func(s string) { _, _ = fmt.Fprintln(c.ErrOrStderr(), s) })
			if entries != "" {
				text, err := infile.Read(entries, infile.MaxText)
				if err != nil {
					return usageError{err}
				}
				if err := p4.Configure(pl, entries, text); err != nil {
					return err
				}
			}
			frames, skipped, err := p4Frames(in)
			if err != nil {
				return err
			}
			doc := p4RunDocument{Version: 1, Environment: results.Here(), Program: names[0], Packets: len(frames), Skipped: skipped, SentByPort: map[string]int{}}
			sent := p4Process(prog, pl, frames, &doc)
			if out != "" {
				if err := writeCapture(out, sent); err != nil {
					return err
				}
			}
			return writeP4Run(c.OutOrStdout(), &doc, asJSON)
		},
	}
	p4Flags(cmd, &o)
	cmd.Flags().StringArrayVar(&in, "in", nil, "frames that come in: `[PORT=]FILE`; may be repeated")
	cmd.Flags().StringVar(&out, "out", "", "write the frames that leave to `FILE`")
	cmd.Flags().StringVar(&entries, "entries", "", "set tables with the commands in `FILE`")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "`SEED` of the program's random numbers")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

// portFrame is a frame at a port.
type portFrame struct {
	port uint16
	at   time.Time
	data []byte
}

// p4Frames reads captures and sorts their frames by time.
func p4Frames(files []string) (frames []portFrame, skipped int, err error) {
	for _, name := range files {
		port := uint64(0)
		if p, rest, ok := strings.Cut(name, "="); ok {
			if n, err := strconv.ParseUint(p, 0, 16); err == nil {
				port, name = n, rest
			}
		}
		fs, skip, err := readFrames(name, uint16(port))
		if err != nil {
			return nil, 0, err
		}
		frames = append(frames, fs...)
		skipped += skip
	}
	slices.SortStableFunc(frames, func(a, b portFrame) int { return a.at.Compare(b.at) })
	return frames, skipped, nil
}

// What the frames of a capture may take that are held at a time: their bytes and what stands
// beside each, for a file whose length they are out of proportion to.
const (
	freeFrameBytes  = 64 << 20
	frameBytesTimes = 4 // the file's length
	frameOverhead   = 64
)

func readFrames(name string, port uint16) (frames []portFrame, skipped int, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, 0, usageError{err}
	}
	defer func() { _ = f.Close() }() // it was only read
	most := int64(freeFrameBytes)
	if info, err := f.Stat(); err == nil {
		most += frameBytesTimes * info.Size()
	}
	r, err := capture.NewReader(f)
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", name, err)
	}
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return frames, skipped, nil
		}
		if err != nil {
			return nil, 0, fmt.Errorf("%s: %w", name, err)
		}
		if rec.Link != layers.LinkTypeEthernet || len(rec.Data) < rec.Length {
			skipped++
			continue
		}
		if most -= int64(len(rec.Data)) + frameOverhead; most < 0 {
			return nil, 0, fmt.Errorf("%s: its frames take more memory than %d times the file: unpack it first, or take a part of it", name, frameBytesTimes)
		}
		frames = append(frames, portFrame{port, rec.Time, rec.Data})
	}
}

func p4Process(prog *p4.Program, pl *p4.Pipeline, frames []portFrame, doc *p4RunDocument) []portFrame {
	var v p4.Verdict
	var sent []portFrame
	for _, f := range frames {
		at := units.Time(0)
		if d := f.at.Sub(frames[0].at); d > 0 {
			at = units.FromDuration(d)
		}
		pl.Process(f.data, &p4.Intrinsic{IngressPort: f.port, IngressTime: at, EnqueueTime: at, DequeueTime: at}, &v)
		for _, s := range v.Sent {
			doc.Sent++
			doc.SentByPort[strconv.Itoa(int(s.Port))]++
			sent = append(sent, portFrame{s.Port, f.at, slices.Clone(s.Data)})
		}
		doc.Dropped += v.Drops
		doc.Clones += v.Clones
		doc.Resubmits += v.Resubmits
		doc.Recirculations += v.Recirculations
		doc.Digests += v.Digests
		if v.ParserError != 0 {
			if doc.ParserErrors == nil {
				doc.ParserErrors = map[string]int{}
			}
			doc.ParserErrors[prog.ErrorName(v.ParserError)]++
		}
	}
	return sent
}

// writeCapture writes pcap if the name says so, else pcapng with an interface for each port.
func writeCapture(name string, frames []portFrame) error {
	return outfile.Write(name, func(w io.Writer) error {
		if strings.HasSuffix(name, ".pcap") {
			return writePcap(w, frames)
		}
		return writePcapng(w, frames)
	})
}

func captureInfo(p portFrame, i int) gopacket.CaptureInfo {
	return gopacket.CaptureInfo{Timestamp: p.at, CaptureLength: len(p.data), Length: len(p.data), InterfaceIndex: i}
}

func writePcap(out io.Writer, frames []portFrame) error {
	w := pcapgo.NewWriterNanos(out)
	if err := w.WriteFileHeader(65535, layers.LinkTypeEthernet); err != nil {
		return err
	}
	for _, p := range frames {
		if err := w.WritePacket(captureInfo(p, 0), p.data); err != nil {
			return err
		}
	}
	return nil
}

func writePcapng(out io.Writer, frames []portFrame) error {
	port := func(p uint16) pcapgo.NgInterface {
		i := pcapgo.DefaultNgInterface
		i.Name = fmt.Sprintf("port%d", p)
		i.LinkType = layers.LinkTypeEthernet
		return i
	}
	first := uint16(0)
	if len(frames) > 0 {
		first = frames[0].port
	}
	w, err := pcapgo.NewNgWriterInterface(out, port(first), pcapgo.DefaultNgWriterOptions)
	if err != nil {
		return err
	}
	ids := map[uint16]int{first: 0}
	for _, p := range frames {
		id, ok := ids[p.port]
		if !ok {
			if id, err = w.AddInterface(port(p.port)); err != nil {
				return err
			}
			ids[p.port] = id
		}
		if err := w.WritePacket(captureInfo(p, id), p.data); err != nil {
			return err
		}
	}
	return w.Flush()
}

func writeP4Run(w io.Writer, d *p4RunDocument, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(d)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d packets in, %d out, %d dropped", d.Packets, d.Sent, d.Dropped)
	for _, x := range []struct {
		n    int
		what string
	}{{d.Clones, "cloned"}, {d.Resubmits, "resubmitted"}, {d.Recirculations, "recirculated"}, {d.Digests, "digests"}, {d.Skipped, "skipped (not Ethernet, or cut off)"}} {
		if x.n > 0 {
			fmt.Fprintf(&b, ", %d %s", x.n, x.what)
		}
	}
	b.WriteString("\n")
	for _, p := range sortedNumbers(d.SentByPort) {
		fmt.Fprintf(&b, "port %s: %d\n", p, d.SentByPort[p])
	}
	var errs []string
	for e := range d.ParserErrors {
		errs = append(errs, e)
	}
	slices.Sort(errs)
	for _, e := range errs {
		fmt.Fprintf(&b, "parser error %s: %d\n", e, d.ParserErrors[e])
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func sortedNumbers(m map[string]int) []string {
	var ks []string
	for k := range m {
		ks = append(ks, k)
	}
	slices.SortFunc(ks, func(a, b string) int {
		x, _ := strconv.Atoi(a)
		y, _ := strconv.Atoi(b)
		return x - y
	})
	return ks
}
