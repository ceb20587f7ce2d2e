package endpoint

import (
	"encoding/binary"
	"net/netip"
	"sync/atomic"
	"unsafe"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// Packet is a received packet whose ICRC the driver has verified.
type Packet struct {
	Data         []byte // from the Base Transport Header to the ICRC
	Src          netip.AddrPort
	GID          int    // its destination address
	Stamp        uint64 // arrival time, on the device's counter
	TrafficClass uint8
	HopLimit     uint8
	Brought
}

// inbound is a packet in decoded form.
type inbound struct {
	roce.Packet
	payload []byte
}

// fullMember masks the P_Key without its membership bit, full or limited (IBA
// 10.9.3).
const fullMember = 0x7fff

// Receive takes one packet. It does not keep p.
func (e *Endpoint) Receive(now units.Time, p *Packet) {
	e.Counters.RxPackets++
	e.Counters.RxBytes += uint64(len(p.Data))
	e.stamp = p.Stamp
	in := &e.in
	var err error
	if in.payload, err = in.Decode(p.Data); err != nil {
		e.Counters.Malformed++
		return
	}
	if in.PKey&fullMember != roce.DefaultPKey&fullMember {
		e.Counters.BadPKey++
		return
	}
	if in.DestQP == roce.GSIQP {
		e.receiveMAD(p, in)
		return
	}
	q := e.qps.get(in.DestQP)
	if len(e.late.pieces) > 0 && !e.late.continues(q, in.Opcode) {
		e.settle(now)
		e.stamp = p.Stamp
	}
	if q == nil {
		if in.Opcode == ib.CNP {
			e.Counters.CNPsIgnored++
		}
		e.Counters.NoQP++
		return
	}
	if q.recv.source != nil && q.rc != nil && q.rc.State() != ib.Err && consumesRecv(in.Opcode) {
		q.recv.fetch()
	}
	if q.datagrams() {
		e.receiveDatagram(now, q, p, in)
		return
	}
	switch {
	case q.rc == nil:
		e.Counters.NoQP++
		return
	case p.Src.Addr() != q.route.Dst.Addr() || p.GID != q.route.GID:
		e.Counters.WrongSource++
		return
	case in.Opcode == ib.CNP:
		e.receiveCNP(now, q)
		return
	case in.Opcode.Service() != q.service:
		e.Counters.WrongService++
		return
	}
	q.rc.Receive(now, &in.Header, len(in.payload), &e.eff)
	e.noteCongestion(now, q, p, in)
	e.noteTelemetry(now, q, p, in)
	e.noteTurnaround(q, p, in)
	if e.eff.Drop != rc.DropNone {
		e.Counters.DroppedByQP++
	}
	e.effects(now, q, in)
	q.turnaround.told = false
}

// effects carries out what the transport asks for in e.eff. in is the packet that
// it is about, or nil.
func (e *Endpoint) effects(now units.Time, q *QP, in *inbound) {
	eff := &e.eff
	if in == nil {
		e.stamp = e.stampOf(now)
	}
	events := eff.Events
	if eff.Do&rc.DoCheck != 0 {
		ok := e.check(q, &eff.Check)
		if !ok {
			e.Counters.RemoteKeyFaults++
		}
		q.rc.Checked(now, ok, eff)
		events |= eff.Events
	}
	do, recv := eff.Do, eff.Recv
	if do&rc.DoPlace != 0 && !e.place(now, q, in, &eff.Place) {
		// The transport's answer to that replaces its earlier one.
		events |= eff.Events
		recv.Status = ib.WCLocProtErr // of the receive that the packet completed, if it did
		do |= eff.Do
	}
	if do&rc.DoAtomic != 0 {
		e.atomic(now, q, &eff.Atomic)
		do |= eff.Do
		events |= eff.Events
	}
	if do&rc.DoRecv != 0 {
		e.received(q, &recv, in)
	}
	if do&rc.DoComplete != 0 {
		e.reap(q)
	}
	e.failOverrun(now)
	for t := ib.EventType(0); events>>t != 0; t++ {
		if events.Has(t) {
			if t == ib.EventSRQLimit {
				e.raise(Event{Type: t, SRQ: q.recv})
				continue
			}
			e.raise(Event{Type: t, QP: q})
		}
	}
	e.arm(q)
	if do&(rc.DoRespond|rc.DoSend|rc.DoComplete) != 0 {
		q.wake()
	}
}

// check makes the access check that the transport requests. It carries out an
// invalidate that is allowed: nothing else of its message can fail.
func (e *Endpoint) check(q *QP, c *rc.Check) bool {
	if !c.Invalidate {
		return e.remote(q, c.RKey, c.VA, uint64(c.Length), c.Access) != nil
	}
	return e.invalidate(q, c.RKey, true)
}

// place copies the payload to its destination. If that memory may not be written,
// it reports this to the transport and returns false.
func (e *Endpoint) place(now units.Time, q *QP, in *inbound, p *rc.Place) bool {
	l := &e.late
	if l.more = l.batch && goesOn>>in.Opcode.Operation()&1 != 0; l.more {
		l.q, l.place = q, *p
	}
	ok := false
	switch p.Kind {
	case rc.PlaceMemory:
		m := e.remote(q, p.RKey, p.VA, uint64(p.Length), ib.AccessRemoteWrite)
		ok = m != nil && e.store(m, p.VA, in.payload[:p.Length])
	case rc.PlaceRecv:
		ok = e.placeRecv(q, in, p)
	default: // the data of a READ or an atomic
		from := in.payload
		if p.Kind == rc.PlaceAtomic {
			binary.NativeEndian.PutUint64(e.orig[:], in.Orig)
			from = e.orig[:]
		}
		part := q.sq.part(p.Slot)
		ok = e.scatter(q.pd, q.sq.at(part.wr).sgl, part.offset+p.Offset, from[:p.Length])
	}
	if !ok {
		e.unplaced(now, q, p)
	}
	return ok
}

// unplaced reports to the transport that what a packet brought could not be written.
func (e *Endpoint) unplaced(now units.Time, q *QP, p *rc.Place) {
	switch p.Kind {
	case rc.PlaceMemory:
		e.Counters.RemoteKeyFaults++
		q.rc.FailRecv(now, ib.WCRemAccessErr, &e.eff)
	case rc.PlaceRecv:
		e.Counters.LocalFaults++
		q.rc.FailRecv(now, ib.WCLocProtErr, &e.eff)
	default:
		e.Counters.LocalFaults++
		q.rc.FailSend(now, p.Slot, ib.WCLocProtErr, &e.eff)
	}
}

// atomic performs an atomic operation. The address is a multiple of eight, and
// registered memory keeps that.
func (e *Endpoint) atomic(now units.Time, q *QP, a *rc.Atomic) {
	m := e.remote(q, a.RKey, a.VA, 8, ib.AccessRemoteAtomic)
	var orig uint64
	ok := m != nil
	switch {
	case !ok:
	case m.other.memory != nil:
		orig, ok = e.atomicElsewhere(m, a)
	default:
		orig = atomicHere((*uint64)(unsafe.Pointer(unsafe.SliceData(m.at(a.VA, 8)))), a)
	}
	if !ok {
		e.Counters.RemoteKeyFaults++
		q.rc.FailRecv(now, ib.WCRemAccessErr, &e.eff)
		return
	}
	q.rc.AtomicDone(a.Slot, orig)
	q.wake()
}

// atomicHere performs an atomic operation on the program's own memory, atomic for its
// sync/atomic too. It returns what was there.
func atomicHere(word *uint64, a *rc.Atomic) uint64 {
	if a.Op == ib.FetchAdd {
		return atomic.AddUint64(word, a.Swap) - a.Swap
	}
	for !atomic.CompareAndSwapUint64(word, a.Compare, a.Swap) {
		if orig := atomic.LoadUint64(word); orig != a.Compare {
			return orig
		}
		// It changed in between, to what was wanted: once more.
	}
	return a.Compare
}
