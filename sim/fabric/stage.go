package fabric

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// Stage handles each packet that a switch takes off a queue, in place
// of writing telemetry itself: a P4 program, for one. A stage belongs to one switch
// and is called from one goroutine at a time, in the order in which that switch
// sends. It gets all of its input as arguments and starts nothing of its own.
type Stage interface {
	// Depart handles a packet that is about to go on the wire. It may change the
	// fields from Flags on.
	Depart(d *Departure)
}

// Departure is a packet as it leaves a switch. It is valid during the call.
type Departure struct {
	Now    units.Time // when its first bit goes on the wire
	Waited units.Time // in the queue

	In, Port LinkID     // by which it entered and leaves
	Rate     units.Rate // of the port
	TxBytes  units.Bytes
	Priority uint8
	// Behind is the length of its queue behind the packet as it leaves, Ahead the
	// length that it found.
	Behind, Ahead               units.Bytes
	BehindPackets, AheadPackets int

	Packet   Handle
	Src, Dst int32  // host indices
	FlowHash uint32 // entropy for the choice of path
	Size     units.Bytes
	// Telemetry is the kind of telemetry that the packet collects.
	Telemetry telemetry.Kind
	// Hops is the number of switches it passed before this one.
	Hops uint8

	// The stage may change the fields below.

	// Flags are the packet's marks. CE and EIN of this switch's own classes are
	// in it.
	Flags Flags
	// MaxDelay is the packet's largest delay of the hops so far, and Path its per-hop
	// records. Path is read-only, and valid during the call.
	MaxDelay units.Time
	Path     *telemetry.Stack
	// Record is a further record, for which the packet grows by its length in Config.INT,
	// if Recorded is set. Overflow says that there was no room for it. A network
	// remembers every rate that is no port's own, and looks for it one by one: there
	// should be few.
	Record   telemetry.Hop
	Recorded bool
	Overflow bool
	// Drop makes the switch drop the packet, and count it.
	Drop bool
}

// reportedBase is the number from which on record.kind means one of
// Network.reported, not a kind.
const reportedBase = 1 << 16

// reportedRates are the rates that stages have reported, beside the ports' own. Stages of
// several lanes look them up concurrently; their numbers, which depend on the order of
// arrival, are in no result.
type reportedRates struct {
	mu  sync.Mutex
	all atomic.Pointer[[]units.Rate] // never changed, but replaced by a longer one
}

func (r *reportedRates) rates() []units.Rate {
	if all := r.all.Load(); all != nil {
		return *all
	}
	return nil
}

// number returns the place of a rate, which is remembered if it is new.
func (r *reportedRates) number(rate units.Rate) int {
	if i := slices.Index(r.rates(), rate); i >= 0 {
		return i
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	have := r.rates()
	if i := slices.Index(have, rate); i >= 0 {
		return i
	}
	all := append(slices.Clip(have), rate)
	r.all.Store(&all)
	return len(have)
}

// stage lets a switch's Stage see a packet, and sends what it leaves.
func (x *Lane) stage(now units.Time, at uint32, l *port, k *kind, e entry, behind int32, waited units.Time) {
	n := x.n
	prio := e.prio()
	p := n.slab.asideOf(e.handle())
	tel := e.tel()
	d := &x.departure
	*d = Departure{
		Now: now, Waited: waited,
		In: n.inlets[n.nodes[n.inlets[at].node].first+e.in()].link, Port: n.linkOf(at), Rate: k.rate, TxBytes: units.Bytes(l.txBytes), Priority: uint8(prio),
		Behind: units.Bytes(behind), BehindPackets: int(n.queues[at*n.prios+prio].count),
		Packet: e.handle(), Src: n.packet(e.handle()).Src, Dst: int32(e.dst()), FlowHash: e.hash(), Size: units.Bytes(e.size()),
		Telemetry: telemetry.Kind(tel & kindMask), Hops: e.hops(), Flags: e.flags(), MaxDelay: p.maxDelay,
	}
	records := int(tel & recordsMask >> recordsShift)
	d.Path = x.path(e.handle(), tel)
	d.Overflow = d.Path.Overflow
	if waited > 0 {
		d.Ahead, d.AheadPackets = units.Bytes(p.ahead), int(p.aheadPackets)
	}
	k.stage.Depart(d)
	if d.Drop {
		n.coldQueue(at, prio).drops++
		n.cold[at].dropBytes += units.Bytes(e.size())
		x.totals.Dropped++
		x.Free(e.handle())
		return
	}
	if d.Flags&^e.flags()&EIN != 0 {
		n.cold[at].notices++
	}
	if d.Flags&^e.flags()&CE != 0 {
		n.coldQueue(at, prio).marks++
	}
	e.name = e.name&^(flagsMask<<flagsShift) | uint64(d.Flags&flagsMask)<<flagsShift
	p.maxDelay = d.MaxDelay
	switch {
	case d.Recorded && records < n.cfg.INT.MaxHops():
		r := &n.slab.recordsOf(e.handle())[records&7]
		r.time, r.txBytes, r.qlen, r.kind = d.Record.Time, int64(d.Record.TxBytes), int32(d.Record.QLen), n.reportedRate(k, l.kind, d.Record.Rate)
		e.name += k.recordBytes << sizeShift
		e.when += recordOne
	case d.Recorded || d.Overflow:
		e.when |= overflowBit
	}
	x.put(now, at, l, k, &e)
}

// reportedRate returns record.kind for a rate that a stage reports.
func (n *Network) reportedRate(k *kind, kind uint16, rate units.Rate) uint32 {
	if rate == k.rate {
		return uint32(kind)
	}
	return reportedBase + uint32(n.reported.number(rate))
}

// rateOf is the rate that a record's kind represents.
func (n *Network) rateOf(kind uint32) units.Rate {
	if kind >= reportedBase {
		return n.reported.rates()[kind-reportedBase]
	}
	return n.kinds[kind].rate
}

// notePlace keeps what a packet found in its queue, for a stage.
func (n *Network) notePlace(h Handle, q *queue) {
	p := n.slab.asideOf(h)
	p.ahead, p.aheadPackets = q.bytes, uint16(min(q.count, math.MaxUint16))
}
