package workload

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-rdma/sluice/scenario/internal/tree"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
)

// Flows makes the flows of a scenario, in the order of their starts; of flows
// that start at one instant those of the workload that is listed first come
// first. Workloads with random arrivals are drawn as they are asked for, so that
// a run of a million flows holds none that has not started.
type Flows struct {
	sources []flowSource
	heads   []Flow // the next of each source
	n       int64
}

// Next returns the next flow, or false after the last.
func (f *Flows) Next() (Flow, bool) {
	if len(f.heads) == 0 {
		return Flow{}, false
	}
	first := 0
	for i := range f.heads {
		if f.heads[i].Start < f.heads[first].Start {
			first = i
		}
	}
	flow := f.heads[first]
	flow.ID = f.n
	f.n++
	if head, ok := f.sources[first].next(); ok {
		head.Workload = flow.Workload
		f.heads[first] = head
	} else {
		f.sources = slices.Delete(f.sources, first, first+1)
		f.heads = slices.Delete(f.heads, first, first+1)
	}
	return flow, true
}

// flowSource yields flows in the order of their starts, with all but ID and
// Workload.
type flowSource interface {
	next() (Flow, bool)
}

// flow returns a flow of the workload with what all of its flows share.
func (w *Workload) flow(label, src, dst int, size FlowSize, start units.Time) Flow {
	f := Flow{Label: label, Src: src, Dst: dst, Start: start, Stop: units.Never, Message: w.Message, Operation: w.Operation, Class: w.class(), Function: w.Function, Every: w.Every}
	if size != unlimited {
		f.Size = units.Bytes(size)
	} else if w.Stop > 0 {
		f.Stop = w.Stop
	}
	switch {
	case f.Message == 0 && f.Size == 0:
		f.Message = units.MiB
	case f.Message == 0 || f.Size > 0 && f.Message > f.Size:
		f.Message = min(f.Size, MaxMessage)
	}
	return f
}

// class returns the index for Flow.Class and Conn.Class.
func (w *Workload) class() int {
	if w.Priority == nil {
		return 0
	}
	return *w.Priority + 1
}

// checkSize refuses a flow's size that is missing or makes no sense.
func checkSize(d *tree.Document, path string, size FlowSize) {
	switch {
	case size == 0 && !d.Given(path):
		d.Fail(path, "it is missing: give the bytes of a flow, such as 1MB, or unlimited")
	case size <= 0 && size != unlimited:
		d.Fail(path, "is %v: choose a size above 0, or unlimited", units.Bytes(size))
	}
}

// maxListed bounds the flows of a workload that are known from the start.
const maxListed = 1 << 20

// checkConnections checks the number of flows between each pair of hosts.
func checkConnections(d *tree.Document, path string, n, pairs int) {
	if most := max(maxListed/max(pairs, 1), 1); n > most {
		d.Fail(path, "is %d: choose a number from 1 to %d", n, most)
	}
}

// list is a plan of flows that are known from the start, but for their jitter.
type list struct {
	w     *Workload
	flows []Flow
	// shuffle, if set, is called with the workload's stream before the flows
	// are handed out, on a copy of them.
	shuffle func(flows []Flow, stream des.Stream)
}

func (l *list) start(stream func(string) des.Stream) flowSource {
	flows := slices.Clone(l.flows)
	if l.shuffle != nil {
		l.shuffle(flows, stream("pairs"))
	}
	if l.w.Jitter > 0 {
		draw := stream("jitter")
		for i := range flows {
			flows[i].Start += units.Time(draw.Float64() * float64(l.w.Jitter))
		}
	}
	if l.w.Stop > 0 {
		flows = slices.DeleteFunc(flows, func(f Flow) bool { return f.Start >= l.w.Stop })
	}
	slices.SortStableFunc(flows, func(a, b Flow) int { return cmp.Compare(a.Start, b.Start) })
	return &listSource{flows}
}

type listSource struct{ rest []Flow }

func (l *listSource) next() (Flow, bool) {
	if len(l.rest) == 0 {
		return Flow{}, false
	}
	f := l.rest[0]
	l.rest = l.rest[1:]
	return f, true
}

func (p *Incast) plan(d *tree.Document, path string, w *Workload, net *network) plan {
	errs := d.Check(path, p)
	to := net.host(d, path+".receiver", p.Receiver)
	checkSize(d, path+".size", p.Size)
	senders := net.hosts(d, path+".senders", p.Senders, to)
	checkConnections(d, path+".connections", p.Connections, len(senders))
	p.checkRounds(d, path, len(senders))
	if len(d.Errs) > errs {
		return nil
	}
	label := net.label(w.Label)
	l := &list{w: w}
	for r := range p.Rounds {
		for _, from := range senders {
			for range p.Connections {
				l.flows = append(l.flows, w.flow(label, from, to, p.Size, w.Start+units.Time(r)*p.Period))
			}
		}
	}
	return l
}

func (p *Incast) checkRounds(d *tree.Document, path string, senders int) {
	if most := max(maxListed/max(senders*max(p.Connections, 1), 1), 1); p.Rounds > most {
		d.Fail(path+".rounds", "is %d: choose 1 to %d", p.Rounds, most)
	}
	if p.Rounds > 1 && p.Size == unlimited {
		d.Fail(path+".rounds", "flows without end go on after their round: give them a size, or leave rounds out")
	}
	switch {
	case p.Rounds > 1 && p.Period == 0:
		d.Fail(path+".period", "is %v: choose a span above 0 and up to 1000s from round to round", p.Period)
	case p.Rounds == 1 && p.Period != 0:
		d.Fail(path+".period", "there is one round: set rounds, too, or leave it out")
	}
}

func (p *Permutation) plan(d *tree.Document, path string, w *Workload, net *network) plan {
	errs := d.Check(path, p)
	checkSize(d, path+".size", p.Size)
	hosts := net.hosts(d, path+".hosts", p.Hosts, -1)
	checkConnections(d, path+".connections", p.Connections, len(hosts))
	if len(hosts) < 2 && len(d.Errs) == errs {
		d.Fail(path+".hosts", "a permutation needs at least two hosts")
	}
	if len(d.Errs) > errs {
		return nil
	}
	label := net.label(w.Label)
	l := &list{w: w}
	for _, from := range hosts {
		for range p.Connections {
			l.flows = append(l.flows, w.flow(label, from, 0, p.Size, w.Start))
		}
	}
	l.shuffle = func(flows []Flow, stream des.Stream) {
		// Sattolo's algorithm: one cycle through all hosts, so that none sends to
		// itself.
		to := slices.Clone(hosts)
		for i := len(to) - 1; i > 0; i-- {
			j := stream.IntN(i)
			to[i], to[j] = to[j], to[i]
		}
		for i := range flows {
			flows[i].Dst = to[i/p.Connections]
		}
	}
	return l
}

func (p *FlowList) plan(d *tree.Document, path string, w *Workload, net *network) plan {
	if len(p.Flows) == 0 {
		d.Fail(path+".flows", "there are none: list at least one, such as - {src: h0, dst: h1, size: 1MB}")
	}
	l := &list{w: w}
	for i := range p.Flows {
		p.Flows[i].add(d, fmt.Sprintf("%s.flows[%d]", path, i), w, net, l)
	}
	return l
}

// SetDefaults implements tree.Defaulter.
func (f *FlowSpec) SetDefaults() { *f = FlowSpec{Connections: 1, Count: 1} }

func (f *FlowSpec) add(d *tree.Document, path string, w *Workload, net *network, l *list) {
	errs := d.Check(path, f)
	net.chosen = -1 // each pair may be in a plane of its own
	src, dst := net.host(d, path+".src", f.Src), net.host(d, path+".dst", f.Dst)
	checkSize(d, path+".size", f.Size)
	if left := maxListed - len(l.flows); f.Count > left {
		d.Fail(path+".count", "is %d: choose a number from 0 to %d", f.Count, left)
	} else {
		checkConnections(d, path+".connections", f.Connections, f.Count)
		if f.Connections*f.Count > left {
			d.Fail(path, "with it the workload has more than %d flows: choose fewer", maxListed)
		}
	}
	if f.Stop > 0 && f.Stop <= f.Start {
		d.Fail(path+".stop", "is %v: choose a span above start, %v, or 0 for the workload's", f.Stop, f.Start)
	}
	if f.Stop > 0 && f.Size > 0 {
		d.Fail(path+".stop", "a flow of %v ends by itself: leave stop out, or make its size unlimited", units.Bytes(f.Size))
	}
	if len(d.Errs) > errs {
		return
	}
	name := w.Label
	if f.Label != "" {
		name = f.Label
	}
	if f.Count == 0 {
		return
	}
	label := net.label(name)
	for i := range f.Count {
		from, to := src+i*f.SrcStep, dst+i*f.DstStep
		for _, h := range []struct {
			n   int
			key string
		}{{from, "src"}, {to, "dst"}} {
			if h.n < 0 || h.n >= net.Hosts() {
				d.Fail(path+"."+h.key+"_step", "takes flow %d to host number %d, and the hosts are %s to %s: choose a smaller step or count", i, h.n, net.HostName(0), net.HostName(net.Hosts()-1))
				return
			}
		}
		if from == to {
			d.Fail(path, "flow %d goes from %s to itself: choose another src or dst", i, net.HostName(from))
			return
		}
		if net.Plane(from) != net.Plane(to) {
			d.Fail(path, "flow %d goes from %s to %s, which is in another plane, and planes share no link: choose other steps, or a smaller count", i, net.HostName(from), net.HostName(to))
			return
		}
		for range f.Connections {
			flow := w.flow(label, from, to, f.Size, w.Start+f.Start+units.Time(i)*f.StartStep)
			if f.Stop > 0 {
				flow.Stop = min(flow.Stop, w.Start+f.Stop)
			}
			l.flows = append(l.flows, flow)
		}
	}
}

// FlowSize is the number of bytes of a flow: unlimited, or above 0.
type FlowSize units.Bytes

// unlimited is the size of a flow without end.
const unlimited FlowSize = -1

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *FlowSize) UnmarshalText(b []byte) error {
	if string(b) == "unlimited" {
		*s = unlimited
		return nil
	}
	n, err := units.ParseBytes(string(b))
	if err == nil && n <= 0 {
		err = fmt.Errorf("%q is no size of a flow: choose one above 0, or unlimited", b)
	}
	*s = FlowSize(n)
	return err
}

// MarshalText implements encoding.TextMarshaler.
func (s FlowSize) MarshalText() ([]byte, error) {
	if s == unlimited {
		return []byte("unlimited"), nil
	}
	return units.Bytes(s).MarshalText()
}

var operationNames = []string{"write", "read", "send"}

// UnmarshalText implements encoding.TextUnmarshaler.
func (o *Operation) UnmarshalText(b []byte) error {
	i := slices.Index(operationNames, string(b))
	if i < 0 {
		return fmt.Errorf("%q is no operation: choose one of %s", b, strings.Join(operationNames, ", "))
	}
	*o = Operation(i)
	return nil
}

// MarshalText implements encoding.TextMarshaler.
func (o Operation) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

func (o Operation) String() string {
	if int(o) < len(operationNames) {
		return operationNames[o]
	}
	return "Operation(" + strconv.Itoa(int(o)) + ")"
}
