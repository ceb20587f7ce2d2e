package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/sim/fabric"
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

// Flows starts the flows over, for a run with that seed. The same seed gives the
// same flows, whatever the system.
func (s *Scenario) Flows(seed uint64) *Flows {
	f := &Flows{}
	for i, p := range s.plans {
		src := p.start(func(entity string) des.Stream {
			return des.NewStream(seed, "workload/"+s.Workloads[i].Name+"/"+entity)
		})
		if head, ok := src.next(); ok {
			head.Workload = i
			f.sources, f.heads = append(f.sources, src), append(f.heads, head)
		}
	}
	return f
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

// plan is a workload that has been checked: what makes its flows.
type plan interface {
	// start begins anew; stream returns the random stream of an entity of the
	// workload.
	start(stream func(entity string) des.Stream) flowSource
}

// flowSource yields flows in the order of their starts, with all but ID and
// Workload.
type flowSource interface {
	next() (Flow, bool)
}

// network is what workloads must know of the hosts.
type network struct {
	*fabric.Topology
	rack   []int        // of each host: the number of its switch
	line   []units.Rate // of each host: its link
	uplink []units.Rate // of each switch: its links to other switches
	labels *[]string
}

// label returns the number of a label, a new one if need be.
func (n *network) label(name string) int {
	if i := slices.Index(*n.labels, name); i >= 0 {
		return i
	}
	*n.labels = append(*n.labels, name)
	return len(*n.labels) - 1
}

func (s *Scenario) planWorkloads(d *decoder) {
	if len(s.Workloads) == 0 {
		d.fail("workloads", "there are none: list at least one, such as - {kind: incast, receiver: h0, size: unlimited}")
		return
	}
	net := &network{Topology: s.graph, labels: &s.labels}
	net.rack, net.line, net.uplink = racks(s.graph)
	names := map[string]bool{}
	for i, w := range s.Workloads {
		path := fmt.Sprintf("workloads[%d]", i)
		if w.Name == "" {
			w.Name = w.Kind
		}
		if w.Label == "" {
			w.Label = w.Name
		}
		if names[w.Name] {
			d.fail(path+".name", "two workloads are called %q: give each a name of its own", w.Name)
		}
		names[w.Name] = true
		if w.Message < 0 || w.Message > MaxMessage {
			d.fail(path+".message", "is %v: choose a size of up to 2GiB, or 0 for one message a flow", w.Message)
		}
		if w.Start < 0 {
			d.fail(path+".start", "is %v: choose a span of 0 or more", w.Start)
		}
		if w.Stop < 0 || w.Stop > 0 && w.Stop <= w.Start {
			d.fail(path+".stop", "is %v: choose a span above start, %v, or 0 for never", w.Stop, w.Start)
		}
		if w.Priority != nil && (*w.Priority < 0 || *w.Priority >= fabric.MaxPriorities) {
			d.fail(path+".priority", "is %d: choose 0 to %d", *w.Priority, fabric.MaxPriorities-1)
		}
		if w.Jitter < 0 {
			d.fail(path+".jitter", "is %v: choose a span of 0 or more", w.Jitter)
		}
		s.plans = append(s.plans, w.Pattern.plan(d, path, w, net))
	}
}

// flow returns a flow of the workload with what all of its flows share.
func (w *Workload) flow(label, src, dst int, size FlowSize, start units.Time) Flow {
	f := Flow{Label: label, Src: src, Dst: dst, Start: start, Stop: units.Never, Message: w.Message, Operation: w.Operation, Class: w.class()}
	if size != Unlimited {
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

// class returns what Flow.Class and Conn.Class are.
func (w *Workload) class() int {
	if w.Priority == nil {
		return 0
	}
	return *w.Priority + 1
}

// checkSize refuses a flow's size that is missing or makes no sense.
func checkSize(d *decoder, path string, size FlowSize) {
	switch {
	case size == 0 && !d.given(path):
		d.fail(path, "it is missing: give the bytes of a flow, such as 1MB, or unlimited")
	case size <= 0 && size != Unlimited:
		d.fail(path, "is %v: choose a size above 0, or unlimited", units.Bytes(size))
	}
}

// maxListed bounds the flows of a workload that are known from the start.
const maxListed = 1 << 20

// checkConnections checks the number of flows between each pair of hosts.
func checkConnections(d *decoder, path string, n, pairs int) {
	if most := max(maxListed/max(pairs, 1), 1); n < 1 || n > most {
		d.fail(path, "is %d: choose a number from 1 to %d", n, most)
	}
}

// host returns the number of a host, or -1.
func (n *network) host(d *decoder, path, name string) int {
	if name == "" && !d.given(path) {
		d.fail(path, "it is missing: name a host, from %s to %s", n.HostName(0), n.HostName(n.Hosts()-1))
		return -1
	}
	h, err := n.Host(name)
	if err != nil {
		d.fail(path, "%s", plain(err))
		return -1
	}
	return h
}

// hosts returns the numbers of the hosts that a set chooses, except one (or -1).
func (n *network) hosts(d *decoder, path string, set HostSet, except int) []int {
	var chosen []int
	if set.All || set.Count > 0 {
		for h := range n.Hosts() {
			if h != except && (set.All || len(chosen) < set.Count) {
				chosen = append(chosen, h)
			}
		}
		if len(chosen) < set.Count {
			d.fail(path, "is %d: there are only %d", set.Count, len(chosen))
		}
		return chosen
	}
	seen := map[int]bool{}
	for i, item := range set.Names {
		at := fmt.Sprintf("%s[%d]", path, i)
		first, last, isRange := strings.Cut(item, "..")
		if !isRange {
			last = first
		}
		from, err := n.Host(first)
		to, err2 := n.Host(last)
		switch {
		case err != nil:
			d.fail(at, "%s", plain(err))
			continue
		case err2 != nil:
			d.fail(at, "%s", plain(err2))
			continue
		case from > to:
			d.fail(at, "%q begins after its end: write it as %s..%s", item, last, first)
		}
		for h := from; h <= to; h++ {
			switch {
			case seen[h]:
				d.fail(at, "%s is listed twice: name each host once, and give it more connections if that is meant", n.HostName(h))
			case h == except:
				d.fail(at, "%s is the receiver itself: leave it out", n.HostName(h))
			default:
				chosen = append(chosen, h)
			}
			seen[h] = true
		}
	}
	return chosen
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

func (p *Incast) plan(d *decoder, path string, w *Workload, net *network) plan {
	errs := len(d.errs)
	to := net.host(d, path+".receiver", p.Receiver)
	checkSize(d, path+".size", p.Size)
	senders := net.hosts(d, path+".senders", p.Senders, to)
	checkConnections(d, path+".connections", p.Connections, len(senders))
	p.checkRounds(d, path, len(senders))
	if len(d.errs) > errs {
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

func (p *Incast) checkRounds(d *decoder, path string, senders int) {
	if most := max(maxListed/max(senders*max(p.Connections, 1), 1), 1); p.Rounds < 1 || p.Rounds > most {
		d.fail(path+".rounds", "is %d: choose 1 to %d", p.Rounds, most)
	}
	if p.Rounds > 1 && p.Size == Unlimited {
		d.fail(path+".rounds", "flows without end go on after their round: give them a size, or leave rounds out")
	}
	switch {
	case p.Rounds > 1 && (p.Period <= 0 || p.Period > 1000*units.Second):
		d.fail(path+".period", "is %v: choose a span above 0 and up to 1000s from round to round", p.Period)
	case p.Rounds == 1 && p.Period != 0:
		d.fail(path+".period", "there is one round: set rounds, too, or leave it out")
	}
}

func (p *Permutation) plan(d *decoder, path string, w *Workload, net *network) plan {
	errs := len(d.errs)
	checkSize(d, path+".size", p.Size)
	hosts := net.hosts(d, path+".hosts", p.Hosts, -1)
	checkConnections(d, path+".connections", p.Connections, len(hosts))
	if len(hosts) < 2 && len(d.errs) == errs {
		d.fail(path+".hosts", "a permutation needs at least two hosts")
	}
	if len(d.errs) > errs {
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

func (p *FlowList) plan(d *decoder, path string, w *Workload, net *network) plan {
	if len(p.Flows) == 0 {
		d.fail(path+".flows", "there are none: list at least one, such as - {src: h0, dst: h1, size: 1MB}")
	}
	l := &list{w: w}
	for i := range p.Flows {
		p.Flows[i].add(d, fmt.Sprintf("%s.flows[%d]", path, i), w, net, l)
	}
	return l
}

// decodeNode sets the defaults of a flow before its keys are read.
func (f *FlowSpec) decodeNode(d *decoder, n *node, path string) {
	type plain FlowSpec // without this method
	*f = FlowSpec{Connections: 1, Count: 1}
	d.decodeInto(n, path, (*plain)(f))
}

func (f *FlowSpec) add(d *decoder, path string, w *Workload, net *network, l *list) {
	errs := len(d.errs)
	src, dst := net.host(d, path+".src", f.Src), net.host(d, path+".dst", f.Dst)
	checkSize(d, path+".size", f.Size)
	if left := maxListed - len(l.flows); f.Count < 0 || f.Count > left {
		d.fail(path+".count", "is %d: choose a number from 0 to %d", f.Count, left)
	} else {
		checkConnections(d, path+".connections", f.Connections, f.Count)
		if f.Connections*f.Count > left {
			d.fail(path, "with it the workload has more than %d flows: choose fewer", maxListed)
		}
	}
	if f.Start < 0 || f.StartStep < 0 {
		d.fail(path+".start", "is %v and start_step %v: choose spans of 0 or more", f.Start, f.StartStep)
	}
	if f.Stop < 0 || f.Stop > 0 && f.Stop <= f.Start {
		d.fail(path+".stop", "is %v: choose a span above start, %v, or 0 for the workload's", f.Stop, f.Start)
	}
	if f.Stop > 0 && f.Size > 0 {
		d.fail(path+".stop", "a flow of %v ends by itself: leave stop out, or make its size unlimited", units.Bytes(f.Size))
	}
	if len(d.errs) > errs {
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
				d.fail(path+"."+h.key+"_step", "takes flow %d to host number %d, and the hosts are %s to %s: choose a smaller step or count", i, h.n, net.HostName(0), net.HostName(net.Hosts()-1))
				return
			}
		}
		if from == to {
			d.fail(path, "flow %d goes from %s to itself: choose another src or dst", i, net.HostName(from))
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

// FlowSize is how many bytes a flow has: Unlimited, or above 0.
type FlowSize units.Bytes

// Unlimited is the size of a flow without end.
const Unlimited FlowSize = -1

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *FlowSize) UnmarshalText(b []byte) error {
	if string(b) == "unlimited" {
		*s = Unlimited
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
	if s == Unlimited {
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
