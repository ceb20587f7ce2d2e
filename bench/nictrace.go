package bench

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/units"
)

// NICTrace writes what becomes of requests inside NICs as trace events, the JSON that
// Perfetto and Chromium's trace viewer read. Each host is a process. Its threads are
// the stages of its NIC, each with the work that it does, and as many more as requests
// were under way at once, each with one after the other: from the doorbell's store to
// when the host can see the completion, and inside that the parts that it is made of,
// which follow each other without a gap. Of a request of several packets the
// parts from the scheduler on are those of the packet that was last on the wire.
//
// Times are in microseconds of simulated time, exact to the picosecond. A request
// without a completion, and one that is not over at the end, is not shown.
type NICTrace struct {
	filter NICTraceFilter
	w      *bufio.Writer
	err    error
	events int
	system string
	hosts  []tracedHost
	lives  map[requestKey]*life
	pairs  map[pairKey]*tracedPair
	name   func(int) string
	pid    int // of the first host
	used   int // pids so far
	first  bool
}

// NICTraceFilter says what a NICTrace shows.
type NICTraceFilter struct {
	From, To units.Time // requests that were under way at any time between them
	// Of are the requesters; none stands for all.
	Of []NICTraceOf
}

// NICTraceOf is a host, and one of its queue pairs; 0 stands for all.
type NICTraceOf struct {
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

type (
	pairKey struct {
		host int
		qpn  uint32
	}
	requestKey struct {
		pairKey
		slot uint32
	}
)

// life is what is known of a request under way.
type life struct {
	store, there, doorbell, fetch, wqe units.Time
	firstAt                            units.Time // at the scheduler
	packets                            []tracedPacket
	last                               tracedPacket
	sent                               int
	peerFrom, peerTo                   units.Time // the last packet at the peer
	cqe                                nicmodel.Span
}

type tracedPacket struct {
	op                                             ib.Opcode
	psn                                            units.PSN
	scheduler, chosen, fetched, packed, wire, sent units.Time
}

// tracedPair is what came back for a queue pair lately.
type tracedPair struct{ answers []answer }

// answer is a response: when its last bit left the peer, when it came, and when the
// transport had it.
type answer struct {
	psn            units.PSN
	op             ib.Opcode
	left, from, to units.Time
}

// keptAnswers is how many responses of a queue pair are remembered: more than can be
// between a peer's wire and a completion.
const keptAnswers = 4096

// NewNICTrace begins a trace. Close ends it.
func NewNICTrace(w io.Writer, f NICTraceFilter) *NICTrace {
	t := &NICTrace{filter: f, w: bufio.NewWriterSize(w, 1<<16), first: true}
	t.text(`{"displayTimeUnit":"ns","traceEvents":[`)
	return t
}

// watch has a simulation's NICs tell the trace. A nil trace watches nothing.
func (t *NICTrace) watch(s *simulation) error {
	if t == nil {
		return nil
	}
	of, err := t.filter.hosts(s)
	if err != nil {
		return err
	}
	t.system, t.name = s.sys.Name, s.name
	t.hosts = make([]tracedHost, len(s.hosts))
	t.lives, t.pairs = map[requestKey]*life{}, map[pairKey]*tracedPair{}
	t.pid = t.used + 1
	t.used += len(s.hosts)
	for h, pairs := range of {
		t.hosts[h].of, t.hosts[h].all = pairs, slices.Contains(pairs, 0)
	}
	s.onSpan(t.span)
	return nil
}

// wants reports whether the requests of a queue pair are shown.
func (t *NICTrace) wants(host int, qpn uint32) bool {
	if len(t.filter.Of) == 0 {
		return true
	}
	h := &t.hosts[host]
	return h.all || slices.Contains(h.of, qpn)
}

// span takes a span of the NIC of a host.
func (t *NICTrace) span(at int, s *nicmodel.Span) {
	if s.Host < 0 || s.Host >= len(t.hosts) || !t.wants(s.Host, s.QPN) {
		return
	}
	if s.Begin < t.filter.To && s.End > t.filter.From {
		t.stage(at, s)
	}
	pair := pairKey{s.Host, s.QPN}
	switch {
	case s.Place == nicmodel.AtStore:
		if s.Begin >= t.filter.To {
			return
		}
		t.each(s, func(key requestKey) { t.lives[key] = &life{store: s.Begin, there: s.End} })
	case s.Place == nicmodel.AtDoorbell:
		t.each(s, func(key requestKey) { t.known(key).doorbell = s.End })
	case s.Place == nicmodel.AtFetch:
		t.each(s, func(key requestKey) { t.known(key).fetch = s.End })
	case s.Place == nicmodel.AtWQE:
		t.each(s, func(key requestKey) { t.known(key).wqe = s.End })
	case s.Place == nicmodel.AtCQE && !s.Response:
		t.known(requestKey{pair, s.Slot}).cqe = *s
	case s.Place == nicmodel.AtCQEWrite && !s.Response:
		key := requestKey{pair, s.Slot}
		if l := t.lives[key]; l != nil {
			t.ended(pair, l, s.End)
			delete(t.lives, key)
		}
	case s.Response:
		t.answer(at, pair, s)
	case s.Place != nicmodel.AtCQE && s.Place != nicmodel.AtCQEWrite:
		if l := t.lives[requestKey{pair, s.Slot}]; l != nil {
			l.packet(s)
		}
	}
}

func (t *NICTrace) each(s *nicmodel.Span, do func(requestKey)) {
	for i := range s.Count {
		do(requestKey{pairKey{s.Host, s.QPN}, (s.Slot + i) & (s.Ring - 1)})
	}
}

// known is a request's life, or one that nobody will see.
func (t *NICTrace) known(key requestKey) *life {
	if l := t.lives[key]; l != nil {
		return l
	}
	return &life{}
}

// packet takes a span of a request's packet.
func (l *life) packet(s *nicmodel.Span) {
	if s.Place == nicmodel.AtReceive {
		if s.PSN == l.last.psn && l.sent > 0 {
			l.peerFrom, l.peerTo = s.Begin, s.End
		}
		return
	}
	if s.Place == nicmodel.AtRecvFetch { // goes on where that ended
		if s.PSN == l.last.psn && l.sent > 0 {
			l.peerTo = s.End
		}
		return
	}
	if s.Place == nicmodel.AtScheduler {
		if l.firstAt == 0 {
			l.firstAt = s.Begin
		}
		l.packets = append(l.packets, tracedPacket{op: s.Opcode, psn: s.PSN, scheduler: s.Begin, chosen: s.End})
		return
	}
	for i := len(l.packets) - 1; i >= 0; i-- {
		p := &l.packets[i]
		if p.psn != s.PSN {
			continue
		}
		switch s.Place {
		case nicmodel.AtPayload:
			p.fetched = s.End
		case nicmodel.AtPacketiser:
			p.packed = s.End
		case nicmodel.AtWire:
			p.wire, p.sent = s.Begin, s.End
			l.last, l.peerFrom, l.peerTo = *p, 0, 0
			l.sent++
			l.packets = append(l.packets[:0], l.packets[i+1:]...)
		}
		return
	}
}

// answer takes a span of a response to a queue pair.
func (t *NICTrace) answer(at int, key pairKey, s *nicmodel.Span) {
	pair := t.pairs[key]
	if pair == nil {
		pair = &tracedPair{}
		t.pairs[key] = pair
	}
	switch {
	case s.Place == nicmodel.AtWire:
		if len(pair.answers) == keptAnswers {
			pair.answers = append(pair.answers[:0], pair.answers[keptAnswers/2:]...)
		}
		pair.answers = append(pair.answers, answer{psn: s.PSN, op: s.Opcode, left: s.End})
	case s.Place == nicmodel.AtReceive && at == key.host:
		for i := range pair.answers {
			if a := &pair.answers[i]; a.to == 0 && a.psn == s.PSN && a.op == s.Opcode {
				a.from, a.to = s.Begin, s.End
				return
			}
		}
	}
}

// completedBy is the response that brought a completion, which the stage cqe began
// at an instant: the newest that the transport had by then.
func (p *tracedPair) completedBy(at units.Time) answer {
	if p == nil {
		return answer{}
	}
	for i := len(p.answers) - 1; i >= 0; i-- {
		if x := p.answers[i]; x.to > 0 && x.to <= at {
			return x // they come in order
		}
	}
	return answer{}
}

// part is a piece of a request's life, up to an instant.
type part struct {
	name string
	end  units.Time
}

// ended writes the life of a request whose completion the host can see at an instant.
func (t *NICTrace) ended(key pairKey, l *life, visible units.Time) {
	if l.store >= t.filter.To || visible <= t.filter.From || l.wqe == 0 {
		return
	}
	a := t.pairs[key].completedBy(l.cqe.Begin)
	p := &l.last
	parts := []part{
		{"doorbell store", l.there}, {"doorbell", l.doorbell}, {"wqe fetch", l.fetch}, {"wqe", l.wqe},
		{"wait for the scheduler", l.firstAt}, {"packets before the last", p.scheduler}, {"scheduler", p.chosen},
		{"payload fetch", p.fetched}, {"packetiser", p.packed}, {"wait for the wire", p.wire}, {"wire", p.sent},
		{"network and peer", a.from}, {"receive", a.to}, {"cqe", l.cqe.End}, {"cqe write", visible},
	}
	h := &t.hosts[key.host]
	lane := slices.IndexFunc(h.lanes, func(free units.Time) bool { return free <= l.store })
	if lane < 0 {
		lane = len(h.lanes)
		h.lanes = append(h.lanes, 0)
		t.thread(key.host, firstLane+lane, "request "+strconv.Itoa(lane))
	}
	h.lanes[lane] = visible
	tid := firstLane + lane
	t.event(key.host, tid, "request", "qp "+strconv.FormatUint(uint64(key.qpn), 10), l.store, visible, func() {
		t.number("qp", uint64(key.qpn))
		t.number("packets", uint64(l.sent))
		t.number("last_psn", uint64(p.psn))
	})
	t.chain(key.host, tid, l.store, visible, parts, func(name string, from, to units.Time) {
		if name != "network and peer" || l.peerTo == 0 {
			return
		}
		t.chain(key.host, tid, from, to, []part{
			{"network", l.peerFrom}, {"receive at the peer", l.peerTo}, {"answer of the peer", a.left}, {"network back", to},
		}, nil)
	})
}

// chain writes parts that fill a span without gaps. One that nothing is known of, or
// that was overtaken, has no length and is left out. inside is called behind each.
func (t *NICTrace) chain(host, tid int, from, to units.Time, parts []part, inside func(name string, from, to units.Time)) {
	bound := to
	for i := len(parts) - 1; i >= 0; i-- {
		if parts[i].end > 0 {
			bound = min(bound, parts[i].end)
			parts[i].end = bound
		}
	}
	for i := range parts {
		end := max(parts[i].end, from)
		if end == from {
			continue
		}
		t.event(host, tid, "part", parts[i].name, from, end, nil)
		if inside != nil {
			inside(parts[i].name, from, end)
		}
		from = end
	}
}

// Threads of a host: stages from 1 on, and behind them requests.
const firstLane = 100

// stage writes what a stage did.
func (t *NICTrace) stage(at int, s *nicmodel.Span) {
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

func (t *NICTrace) thread(host, tid int, name string) {
	h := &t.hosts[host]
	if !h.named {
		h.named = true
		t.meta("process_name", host, 0, t.system+": "+t.name(host))
	}
	t.meta("thread_name", host, tid, name)
}

func (t *NICTrace) meta(kind string, host, tid int, name string) {
	t.begin()
	t.text(`{"ph":"M","name":` + strconv.Quote(kind) + `,"pid":` + strconv.Itoa(t.pid+host) + `,"tid":` + strconv.Itoa(tid) + `,"args":{"name":` + jsonText(name) + `}}`)
}

// event writes a span of a thread; args writes what else there is to say.
func (t *NICTrace) event(host, tid int, category, name string, from, to units.Time, args func()) {
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

func (t *NICTrace) begin() {
	if !t.first {
		t.text(",\n")
	}
	t.first = false
}

func (t *NICTrace) comma() {
	if !t.first {
		t.text(",")
	}
	t.first = false
}

func (t *NICTrace) number(key string, v uint64) {
	t.comma()
	t.text(strconv.Quote(key) + ":" + strconv.FormatUint(v, 10))
}

func (t *NICTrace) field(key, v string) {
	t.comma()
	t.text(strconv.Quote(key) + ":" + jsonText(v))
}

func (t *NICTrace) text(s string) {
	if t.err == nil {
		_, t.err = t.w.WriteString(s)
	}
}

// Events is how many spans have been written.
func (t *NICTrace) Events() int { return t.events }

// Close ends the trace.
func (t *NICTrace) Close() error {
	t.text("]}\n")
	return errors.Join(t.err, t.w.Flush())
}

// microseconds writes a time to the picosecond.
func microseconds(t units.Time) string {
	const us = units.Microsecond
	return fmt.Sprintf("%d.%06d", t/us, t%us)
}

// jsonText is s as JSON has it.
func jsonText(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return `""` // no string is refused
	}
	return string(b)
}
