package workload

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/sluice-rdma/sluice/internal/infile"
	"github.com/sluice-rdma/sluice/scenario/internal/tree"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
)

// Trace is flows from a file: a flow file of HPCC's simulator, or a connection
// matrix of htsim's.
type Trace struct {
	// The file, relative to the one that names it.
	File string `yaml:"file" eg:"flows.txt" req:"yes"`
	// What the file is: `hpcc`, a flow file (the number of flows, then lines `src
	// dst pg dport size start`, with the start in seconds; groups and
	// ports change nothing, and text after that number of flows is left unread), or `htsim`, a connection
	// matrix (`Nodes`, `Connections`, then lines such as `0->5 id 1 start 0 size
	// 2000000`, with the start in picoseconds); `auto` sees which.
	Format string `yaml:"format" eg:"htsim" one:"auto hpcc htsim"`
	// The hosts that the file's node numbers mean: node 0 is the first of them.
	// Choices as at `senders`.
	Hosts HostSet `yaml:"hosts" eg:"[h8..h15]"`
	// The file's time at which the workload starts. The generator of HPCC's files
	// begins at 2s.
	Origin units.Time `yaml:"origin" eg:"2s" range:"[0s,)"`
}

// maxTraceBytes bounds the size of a trace.
const maxTraceBytes = units.GiB

func (p *Trace) plan(d *tree.Document, path string, w *Workload, net *network) plan {
	errs := d.Check(path, p)
	if w.Jitter > 0 {
		d.Fail(path+".jitter", "a trace says when each flow starts: leave it out")
	}
	hosts := net.hosts(d, path+".hosts", p.Hosts, -1)
	if p.File == "" {
		d.Fail(path+".file", "it is missing: name the file of the trace")
	}
	if len(d.Errs) > errs {
		return nil
	}
	if at := d.Pos(path + ".file"); at.Set == "" && !filepath.IsAbs(p.File) {
		// So it can be found where YAML's text is read.
		p.File = filepath.Join(filepath.Dir(at.File), p.File)
	}
	src, err := readWhole(p.File, maxTraceBytes)
	if err != nil {
		d.Fail(path+".file", "%v", err)
		return nil
	}
	flows, rest, bad := parseTrace(p.Format, src)
	if rest > 0 {
		d.Note(tree.Pos{File: p.File, Line: rest}, fmt.Sprintf("text after the %d flows that the file begins with is left unread, as HPCC's simulator leaves it: correct the number if it is of flows", len(flows)))
	}
	if bad == nil {
		bad = p.check(flows, hosts, net)
	}
	if bad != nil {
		d.FailAt(tree.Pos{File: p.File, Line: bad.line}, bad.field, bad.msg)
		return nil
	}
	slices.SortStableFunc(flows, func(a, b traceFlow) int { return cmp.Compare(a.start, b.start) })
	return &tracePlan{w: w, label: net.label(w.Label), hosts: hosts, origin: p.Origin, flows: flows}
}

// readWhole reads a file of at most most bytes.
func readWhole(name string, most units.Bytes) ([]byte, error) {
	info, err := os.Stat(name) // before Open, which waits for the writer of a pipe
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("there is no file %s", name)
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no regular file", name)
	}
	return infile.Read(name, most)
}

// check holds the flows against the hosts there are.
func (p *Trace) check(flows []traceFlow, hosts []int, net *network) *traceError {
	for i := range flows {
		f := &flows[i]
		for _, end := range []struct {
			field string
			node  int32
		}{{"src", f.src}, {"dst", f.dst}} {
			if int(end.node) >= len(hosts) {
				return &traceError{int(f.line), end.field, fmt.Sprintf("there is no host for node %d: the scenario gives it %d, so nodes are 0 to %d", end.node, len(hosts), len(hosts)-1)}
			}
		}
		if f.start < p.Origin {
			return &traceError{int(f.line), "start", fmt.Sprintf("%v is before the origin, %v: set origin to the first start of the file", f.start, p.Origin)}
		}
	}
	return nil
}

type tracePlan struct {
	w      *Workload
	label  int
	hosts  []int
	origin units.Time
	flows  []traceFlow // in the order of their starts
}

func (p *tracePlan) start(func(string) des.Stream) flowSource { return &traceSource{tracePlan: p} }

type traceSource struct {
	*tracePlan
	i int
}

func (s *traceSource) next() (Flow, bool) {
	if s.i == len(s.flows) {
		return Flow{}, false
	}
	f := &s.flows[s.i]
	at := s.w.Start + f.start - s.origin
	if s.w.Stop > 0 && at >= s.w.Stop {
		return Flow{}, false
	}
	s.i++
	return s.w.flow(s.label, s.hosts[f.src], s.hosts[f.dst], FlowSize(f.size), at), true
}
