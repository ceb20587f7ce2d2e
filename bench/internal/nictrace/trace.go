package nictrace

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/units"
)

// Trace writes the way of requests through NICs as trace events, the JSON that
// Perfetto and Chromium's trace viewer read. Each host is a process. Its threads are
// the stages of its NIC, each with its work, and one more for each request that was
// under way at the same time. Such a thread shows requests one after the other, from
// the doorbell's store to when the host can see the completion. Inside each are its
// parts, which follow each other without a gap. For a request of several packets, the
// parts from the scheduler on are those of the packet that was last on the wire.
//
// Times are in microseconds of simulated time, exact to the picosecond. A request
// without a completion, and one that is not over at the end, is not shown.
type Trace struct {
	filter Filter
	w      *bufio.Writer
	err    error
	events int
	system string
	hosts  []tracedHost
	lives  *lives
	name   func(int) string
	pid    int // of the first host
	used   int // pids so far
	first  bool
}

// Filter says what a Trace shows.
type Filter struct {
	From, To units.Time // requests that were under way at any time between them
	// Of are the requesters; an empty list means all.
	Of []QueuePair
}

// QueuePair is a host, and one of its queue pairs; 0 means all.
type QueuePair struct {
	Host string
	QPN  uint32
}

type tracedHost struct {
	named  bool
	stages [len(stagePlaces)]bool
	lanes  []units.Time // when each is free again
	of     []uint32     // queue pairs shown; nil for none
	all    bool
}

// stagePlaces have a thread of their own, in this order.
var stagePlaces = [...]nicmodel.Place{
	nicmodel.AtDoorbell, nicmodel.AtWQE, nicmodel.AtScheduler, nicmodel.AtPacketiser, nicmodel.AtWire, nicmodel.AtCQE,
}

// NewTrace begins a trace. Close ends it.
func NewTrace(w io.Writer, f Filter) *Trace {
	t := &Trace{filter: f, w: bufio.NewWriterSize(w, 1<<16), first: true}
	t.text(`{"displayTimeUnit":"ns","traceEvents":[`)
	return t
}

// Watch traces the NICs of a network that is about to run, behind those before it. A nil
// trace watches nothing.
func (t *Trace) Watch(n *Network) error {
	if t == nil {
		return nil
	}
	of, err := n.queuePairs(&t.filter)
	if err != nil {
		return err
	}
	t.system, t.name = n.System, n.Topology.HostName
	t.hosts = make([]tracedHost, len(n.NICs))
	t.lives = newLives(t.filter.To, t.wants, t.ended)
	t.pid = t.used + 1
	t.used += len(n.NICs)
	for h, pairs := range of {
		t.hosts[h].of, t.hosts[h].all = pairs, slices.Contains(pairs, 0)
	}
	n.onSpan(func(int) bool { return true }, t.span)
	return nil
}

// wants reports whether Trace shows the requests of a queue pair.
func (t *Trace) wants(host int, qpn uint32) bool {
	if len(t.filter.Of) == 0 {
		return true
	}
	h := &t.hosts[host]
	return h.all || slices.Contains(h.of, qpn)
}

// span takes a span of the NIC of a host.
func (t *Trace) span(at int, s *nicmodel.Span) {
	if s.Host < 0 || s.Host >= len(t.hosts) {
		return
	}
	if t.wants(s.Host, s.QPN) && s.Begin < t.filter.To && s.End > t.filter.From {
		t.stage(at, s)
	}
	t.lives.span(at, s)
}

// ended writes the life of a request.
func (t *Trace) ended(key pairKey, l *life) {
	if l.visible <= t.filter.From {
		return
	}
	h := &t.hosts[key.host]
	lane := slices.IndexFunc(h.lanes, func(free units.Time) bool { return free <= l.store })
	if lane < 0 {
		lane = len(h.lanes)
		h.lanes = append(h.lanes, 0)
		t.thread(key.host, firstLane+lane, "request "+strconv.Itoa(lane))
	}
	h.lanes[lane] = l.visible
	tid := firstLane + lane
	t.event(key.host, tid, "request", "qp "+strconv.FormatUint(uint64(key.qpn), 10), l.store, l.visible, func() {
		t.number("qp", uint64(key.qpn))
		t.number("packets", uint64(l.sent))
		t.number("last_psn", uint64(l.last.psn))
	})
	for _, p := range l.parts() {
		t.event(key.host, tid, "part", p.name, p.from, p.to, nil)
		for _, q := range p.inside {
			t.event(key.host, tid, "part", q.name, q.from, q.to, nil)
		}
	}
}

// Threads of a host: stages from 1 on, and behind them requests.
const firstLane = 100

// stage writes what a stage did.
func (t *Trace) stage(at int, s *nicmodel.Span) {
	i := slices.Index(stagePlaces[:], s.Place)
	if i < 0 {
		return
	}
	h := &t.hosts[at]
	if !h.stages[i] {
		h.stages[i] = true
		t.thread(at, 1+i, s.Place.String())
	}
	name := s.Opcode.String()
	packet := s.Place == nicmodel.AtScheduler || s.Place == nicmodel.AtPacketiser || s.Place == nicmodel.AtWire
	if !packet {
		name = s.Place.String()
	}
	t.event(at, 1+i, "stage", name, s.Begin, s.End, func() {
		t.field("requester", t.name(s.Host))
		t.number("qp", uint64(s.QPN))
		if packet {
			t.number("psn", uint64(s.PSN))
		}
	})
}

func (t *Trace) thread(host, tid int, name string) {
	h := &t.hosts[host]
	if !h.named {
		h.named = true
		t.meta("process_name", host, 0, t.system+": "+t.name(host))
	}
	t.meta("thread_name", host, tid, name)
}

func (t *Trace) meta(kind string, host, tid int, name string) {
	t.begin()
	t.text(`{"ph":"M","name":` + strconv.Quote(kind) + `,"pid":` + strconv.Itoa(t.pid+host) + `,"tid":` + strconv.Itoa(tid) + `,"args":{"name":` + jsonText(name) + `}}`)
}

// event writes a span of a thread; args writes what else there is to say.
func (t *Trace) event(host, tid int, category, name string, from, to units.Time, args func()) {
	t.begin()
	t.text(`{"ph":"X","cat":"` + category + `","name":` + jsonText(name) + `,"pid":` + strconv.Itoa(t.pid+host) + `,"tid":` + strconv.Itoa(tid) +
		`,"ts":` + microseconds(from) + `,"dur":` + microseconds(to-from))
	if args != nil {
		t.text(`,"args":{`)
		t.first = true
		args()
		t.text(`}`)
		t.first = false
	}
	t.text(`}`)
	t.events++
}

func (t *Trace) begin() {
	if !t.first {
		t.text(",\n")
	}
	t.first = false
}

func (t *Trace) comma() {
	if !t.first {
		t.text(",")
	}
	t.first = false
}

func (t *Trace) number(key string, v uint64) {
	t.comma()
	t.text(strconv.Quote(key) + ":" + strconv.FormatUint(v, 10))
}

func (t *Trace) field(key, v string) {
	t.comma()
	t.text(strconv.Quote(key) + ":" + jsonText(v))
}

func (t *Trace) text(s string) {
	if t.err == nil {
		_, t.err = t.w.WriteString(s)
	}
}

// Events is how many spans have been written.
func (t *Trace) Events() int { return t.events }

// Close ends the trace.
func (t *Trace) Close() error {
	t.text("]}\n")
	if t.err == nil {
		t.err = t.w.Flush()
	}
	return t.err
}

// microseconds writes a time to the picosecond.
func microseconds(t units.Time) string {
	const us = units.Microsecond
	return fmt.Sprintf("%d.%06d", t/us, t%us)
}

// jsonText is s as a JSON string.
func jsonText(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return `""` // no string is refused
	}
	return string(b)
}
