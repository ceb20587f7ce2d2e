package storm

import (
	"fmt"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// twins are those of all queue pairs of reliable connections of soft devices, with what they
// share: each host's memory, events and counters.
type twins struct {
	window     int // packets that a connection may have under way
	turnaround bool
	start      units.Time // of the devices' clocks

	byQPN    map[flowKey]*twin
	byHost   [][]*twin
	byPeer   map[route][]*twin // by whom they send to
	regions  []map[uint32]*region
	windows  []map[uint32]*window // by the upper 24 bits of their keys
	stamp    uint64               // of the packet that arrives, if stamped
	stamped  bool
	words    map[*byte]uint64 // that atomics have changed, of the packets that a device gets together
	counts   []map[string]uint64
	inexact  []bool // by host: something has happened that no twin knows
	expected []map[event]bool
}

// route is from a host to a queue pair of another.
type route struct {
	from, to int
	qpn      uint32
}

// event is an asynchronous event.
type event struct {
	kind ib.EventType
	qpn  uint32
	srq  verbs.SRQ
}

// region is registered memory.
type region struct {
	pd         verbs.PD
	addr, size uint64
	access     ib.AccessFlags
	buf        []byte
	gone       bool // its key is
}

// window is a memory window.
type window struct {
	pd         verbs.PD
	kind       ib.MWType
	key        uint32
	mr         *region // nil if it is not bound
	qp         *twin   // of type 2, that bound it
	addr, size uint64
	access     ib.AccessFlags
}

func newTwins(hosts int) twins {
	t := twins{
		window: 256, words: map[*byte]uint64{}, byQPN: map[flowKey]*twin{}, byPeer: map[route][]*twin{}, byHost: make([][]*twin, hosts), regions: make([]map[uint32]*region, hosts), windows: make([]map[uint32]*window, hosts),
		counts: make([]map[string]uint64, hosts), inexact: make([]bool, hosts), expected: make([]map[event]bool, hosts),
	}
	for i := range hosts {
		t.regions[i], t.counts[i], t.expected[i], t.windows[i] = map[uint32]*region{}, map[string]uint64{}, map[event]bool{}, map[uint32]*window{}
	}
	return t
}

func (o *observer) count(host int, name string) { o.counts[host][name]++ }

// wrong makes the run fail by a rule, for a twin that knows.
func (t *twin) wrong(rule int, format string, args ...any) {
	if !t.off {
		t.o.run.failf("rule %d: process %d, queue pair %#x (%v): "+format, append([]any{rule, t.host, t.qpn, t.state}, args...)...)
	}
}

// add makes the twin of a queue pair that was made, and remove forgets it.
func (o *observer) add(t *twin) {
	t.o = o
	t.reset()
	o.byQPN[flowKey{t.host, t.qpn}] = t
	o.byHost[t.host] = append(o.byHost[t.host], t)
}

func (o *observer) remove(t *twin) {
	o.unlink(t)
	for e := range o.expected[t.host] {
		if e.srq == nil && e.qpn == t.qpn {
			delete(o.expected[t.host], e)
		}
	}
	delete(o.byQPN, flowKey{t.host, t.qpn})
	o.byHost[t.host] = without(o.byHost[t.host], t)
}

// unlink forgets whom it sends to.
func (o *observer) unlink(t *twin) {
	o.unbind(t)
	k := route{t.host, t.peer, t.peerQPN}
	if o.byPeer[k] = without(o.byPeer[k], t); len(o.byPeer[k]) == 0 {
		delete(o.byPeer, k)
	}
}

func without(list []*twin, t *twin) []*twin {
	var rest []*twin
	for _, x := range list {
		if x != t {
			rest = append(rest, x)
		}
	}
	return rest
}

func (o *observer) link(t *twin) {
	k := route{t.host, t.peer, t.peerQPN}
	o.byPeer[k] = append(o.byPeer[k], t)
}

// leaves holds a packet that leaves against what is due.
func (o *observer) leaves(now units.Time, from, to int, p []byte) {
	var h roce.Packet
	payload, err := h.Decode(p)
	if err != nil || h.Opcode != ib.CNP && h.Opcode.Service() != ib.ServiceRC && h.Opcode.Service() != ib.ServiceUC {
		return
	}
	if h.Opcode == ib.CNP {
		o.notices[from].sent++
	}
	all := o.byPeer[route{from, to, h.DestQP}]
	h.Pad = 0
	for _, t := range all {
		if t.off {
			return
		}
		want, n, ok := t.due(now, false)
		if want.Opcode == ib.FetchAdd {
			want.Compare = h.Compare // ignored
		}
		if ok && want == h && (n == len(payload) || h.Opcode == ib.CNP) && t.carries(payload) {
			t.due(now, true)
			t.dirty = true
			return
		}
	}
	if len(all) == 0 {
		o.run.failf("rule 11: process %d sends %v with PSN %#x to queue pair %#x of process %d, to which it has no connection", from, h.Opcode, uint32(h.PSN), h.DestQP, to)
		return
	}
	want, n, ok := all[0].due(now, false)
	due := "nothing is due"
	if ok {
		due = fmt.Sprintf("%+v with %d bytes is due", want, n)
	}
	all[0].wrong(11, "%+v with %d bytes leaves, and %s", h, len(payload), due)
}

// arrives tells the twin of a packet that its device gets.
func (o *observer) arrives(now units.Time, stamp uint64, from, to int, trafficClass uint8, p []byte) {
	var h roce.Packet
	payload, err := h.Decode(p)
	if err == nil && h.PKey&0x7fff != roce.DefaultPKey&0x7fff {
		o.notices[to].foreign++
		return
	}
	if err != nil {
		return
	}
	if t := o.byQPN[flowKey{to, h.DestQP}]; t != nil {
		o.stamp, o.stamped = stamp, true
		t.receive(now, from, &h, payload, trafficClass&roce.ECNCE == roce.ECNCE)
		o.stamped = false
	}
}

// rings tells the twins that their device's alarm rings.
func (o *observer) rings(now units.Time, host int) {
	o.quiet(now, host)
	for _, t := range o.byHost[host] {
		t.expire(now)
	}
}

// quiet holds a device against what it had to do by now.
func (o *observer) quiet(now units.Time, host int) {
	for _, t := range o.byHost[host] {
		if t.off || t.service == ib.UD {
			continue
		}
		// The alarm counts whole nanoseconds.
		if due := t.dueAt(); now > due+2*units.Nanosecond && due != units.Never {
			t.wrong(3, "the timeout was over %v ago, and packet %#x has not left again", now-due, uint32(units.MakePSN(uint32(t.una))))
		}
		if !t.dirty || t.rnrUntil > 0 && now <= t.rnrUntil+2*units.Nanosecond {
			continue
		}
		t.dirty = false
		if h, n, ok := t.due(now, false); ok {
			t.wrong(12, "%+v with %d bytes is due, and does not leave", h, n)
		}
	}
}

// polled holds completions of a queue against what must come, and what did not come.
func (o *observer) polled(now units.Time, host int, cq verbs.CQ, wcs []verbs.WC, more bool, told func(*verbs.WC) signals) {
	o.quiet(now, host)
	for i := range wcs {
		t := o.byQPN[flowKey{host, wcs[i].QPN}]
		if t == nil || t.off || t.service == ib.UD {
			continue
		}
		from := &t.sendDone
		if t.recv == cq && (t.send != cq || t.isReceive(&wcs[i])) {
			from = &t.recvDone
		}
		if len(*from) == 0 {
			t.wrong(13, "%+v is completed, and nothing is to be", wcs[i])
			continue
		}
		want := (*from)[0]
		*from = (*from)[1:]
		if from == &t.sendDone {
			report := t.reports[0]
			t.reports = t.reports[1:]
			if told != nil && want.WRID < unreliableID && want.Status == ib.WCSuccess {
				if got := told(&wcs[i]); got != report {
					t.wrong(13, "the network is said to have told %+v of %+v, and has told %+v", got, wcs[i], report)
				}
			}
		}
		if want.Timestamp == 0 {
			want.Timestamp = wcs[i].Timestamp
		}
		if want != wcs[i] {
			t.wrong(13, "%+v is completed, and must be %+v", wcs[i], want)
		}
	}
	if more {
		return
	}
	for _, t := range o.byHost[host] {
		switch {
		case t.off || t.service == ib.UD:
		case t.send == cq && len(t.sendDone) > 0:
			t.wrong(13, "%+v is to be completed, and is not", t.sendDone[0])
		case t.recv == cq && len(t.recvDone) > 0:
			t.wrong(13, "%+v is to be completed, and is not", t.recvDone[0])
		}
	}
}

// isReceive tells to which queue a completion belongs.
func (t *twin) isReceive(wc *verbs.WC) bool {
	if wc.Status == ib.WCSuccess {
		return wc.Opcode >= ib.WCRecv
	}
	return len(t.recvDone) > 0 && t.recvDone[0].WRID == wc.WRID && (len(t.sendDone) == 0 || t.sendDone[0].WRID != wc.WRID)
}

// expectEvent notes an event that must come, of a queue pair or a shared receive queue.
func (o *observer) expectEvent(t *twin, kind ib.EventType) {
	o.expected[t.host][event{kind: kind, qpn: t.qpn}] = true
}

func (o *observer) expectShared(host int, s verbs.SRQ) {
	o.expected[host][event{kind: ib.EventSRQLimit, srq: s}] = true
}

// happened holds an event against what must come, and noEvent that there is none.
func (o *observer) happened(now units.Time, host int, e *verbs.AsyncEvent) {
	o.quiet(now, host)
	k := event{kind: e.Type, srq: e.SRQ}
	if e.QP != nil {
		k.qpn = e.QP.Num()
		t := o.byQPN[flowKey{host, k.qpn}]
		if t == nil || t.off || t.service == ib.UD {
			return
		}
	}
	if e.CQ != nil || o.inexact[host] {
		return
	}
	if !o.expected[host][k] {
		o.run.failf("rule 14: process %d: the event %v (queue pair %#x) has no reason", host, e.Type, k.qpn)
	}
	delete(o.expected[host], k)
}

func (o *observer) noEvent(now units.Time, host int) {
	o.quiet(now, host)
	for _, t := range o.byHost[host] {
		if t.off {
			return
		}
	}
	if o.inexact[host] {
		return
	}
	for e := range o.expected[host] {
		o.run.failf("rule 14: process %d: the event %v (queue pair %#x) does not come", host, e.kind, e.qpn)
	}
}

// invalidate takes a key away, and reports whether that is allowed.
func (o *observer) invalidate(t *twin, key uint32, peer bool) bool {
	if m := o.regions[t.host][key]; m != nil {
		if m.pd != t.pd || peer && m.access&ib.AccessRemoteInvalidate == 0 {
			return false
		}
		m.gone = true
		delete(o.regions[t.host], key)
		return true
	}
	w := o.windows[t.host][key>>8]
	if w == nil || w.mr == nil || w.key != key || w.qp != t {
		return false
	}
	w.mr, w.qp = nil, nil
	return true
}

// changeKey carries out a local invalidate or the bind of a window, and reports whether that is
// allowed (IBA 10.6.6, 10.6.7).
func (o *observer) changeKey(t *twin, a *ask) bool {
	if a.wr.Opcode == ib.WRLocalInv {
		return o.invalidate(t, a.wr.Imm, false)
	}
	w, m := o.windows[t.host][a.wr.RKey>>8], t.region(uint32(a.wr.Swap), a.wr.RemoteAddr, uint32(a.wr.CompareAdd), ib.AccessMWBind)
	access := ib.AccessFlags(a.wr.Imm)
	switch {
	case w == nil || w.pd != t.pd || a.wr.RKey == w.key:
		return false
	case w.kind == ib.MWType2 && (w.mr != nil || a.wr.CompareAdd == 0):
		return false
	case a.wr.CompareAdd == 0:
		w.mr, w.key = nil, a.wr.RKey
		return true
	case m == nil || access&^ib.AccessRemoteRead != 0 && m.access&ib.AccessLocalWrite == 0:
		return false
	}
	w.key, w.mr, w.addr, w.size, w.access = a.wr.RKey, m, a.wr.RemoteAddr, a.wr.CompareAdd, access
	if w.kind == ib.MWType2 {
		w.qp = t
	}
	return true
}

// unbind ends the windows that a queue pair bound.
func (o *observer) unbind(t *twin) {
	for _, w := range o.windows[t.host] {
		if w.qp == t {
			w.mr, w.qp = nil, nil
		}
	}
}

// compare holds what a queue pair says that it has repaired against what it had to.
func (t *twin) compare(got verbs.Repairs, cnps uint64) {
	if t.off { // what it has missed counts as known
		t.cnpsBefore, t.cnps = cnps, 0
	}
	if cnps != t.cnps+t.cnpsBefore {
		t.wrong(14, "it counts %d congestion notifications, and there were %d", cnps, t.cnps+t.cnpsBefore)
	}
	c := t.o.counts[t.host]
	c["local_ack_timeout_err"] += t.repairs.Timeouts
	c["rnr_nak_retry_err"] += t.repairs.RNRNAKs
	c["retransmitted_pkts"] += t.repairs.Retransmitted
	if t.off {
		t.o.inexact[t.host] = true
	}
	if got != t.repairs {
		t.wrong(14, "it counts %+v, and has repaired %+v", got, t.repairs)
	}
}

// twinCounted are the counters of a device that its twins count, too.
var twinCounted = []string{
	"out_of_sequence", "duplicate_request", "out_of_buffer", "rx_write_requests", "rx_read_requests", "rx_atomic_requests",
	"req_remote_invalid_request", "req_remote_access_errors", "resp_remote_access_errors", "resp_local_length_error",
	"rp_cnp_handled", "retry_exceeded_err", "rnr_nak_retry_exceeded_err", "local_ack_timeout_err", "rnr_nak_retry_err", "retransmitted_pkts",
}

// twinCounts are what a device must have counted, if its twins know of all.
func (o *observer) twinCounts(host int) map[string]uint64 {
	if o.inexact[host] {
		return nil
	}
	c := map[string]uint64{}
	for _, name := range twinCounted {
		c[name] = o.counts[host][name]
	}
	return c
}
