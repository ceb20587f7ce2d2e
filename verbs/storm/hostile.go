package storm

import (
	"math/rand/v2"
	"net/netip"
	"slices"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// hostile is somebody on the wire who sends packets in a peer's name. What it sends is either
// such that nothing may come of it, or a misfit in place of a packet that would have fitted:
// then the connection may fail, by the status for that, and nothing else may happen.
type hostile struct {
	past     map[[2]int][][]byte // by link: packets that were sent on it, the oldest first
	requests map[[2]int][]byte   // by link: the last request for a connection
}

// Of so many forged packets, one brings a flood of requests for connections, and two one that is
// forged.
const requestsOneIn = 32

// mostPast is how many packets of a link are kept.
const mostPast = 64

// forgedMark is the private data of a release that is forged.
var forgedMark = []byte("forged")

// sent is called for each packet that a device sends.
func (r *run) sent(now units.Time, src, dst netip.AddrPort, trafficClass uint8, id uint16, p []byte) {
	if r.cfg.Sent != nil {
		r.cfg.Sent(now, src, dst, trafficClass, id, p)
	}
	from, to := int(src.Addr().As4()[3])-1, int(dst.Addr().As4()[3])-1
	r.observer.sent(now, from, to, p)
	if ib.Opcode(p[0]).Service() != ib.ServiceUD {
		return
	}
	var h roce.Packet
	if n, err := h.DecodeHeaders(p); err == nil && h.IsGSI() {
		r.hostile.asked(from, to, p, p[n:len(p)-roce.ICRCBytes])
	}
}

// keep keeps a packet for later.
func (h *hostile) keep(from, to int, p []byte) {
	if h.past == nil {
		h.past = map[[2]int][][]byte{}
	}
	l := [2]int{from, to}
	if len(h.past[l]) == mostPast {
		h.past[l] = slices.Delete(h.past[l], 0, 1)
	}
	h.past[l] = append(h.past[l], slices.Clone(p))
}

// asked keeps a request for a connection, for floods to be like it.
func (h *hostile) asked(from, to int, p, mad []byte) {
	if m, err := roce.ParseMAD(mad); err == nil && m.Attribute() == roce.AttrREQ {
		if h.requests == nil {
			h.requests = map[[2]int][]byte{}
		}
		h.requests[[2]int{from, to}] = slices.Clone(p)
	}
}

// far takes a PSN out of every window: behind, or ahead of what was asked.
const far = 1 << 22

// forge sends what as says beside a packet, or in its place.
func (r *run) forge(from, to int, as uint32, p []byte) (instead bool) {
	if r.engine.Now() > r.cfg.Span {
		return false
	}
	draw := rand.New(rand.NewPCG(uint64(as), r.cfg.Seed))
	r.hostile.keep(from, to, p)
	after := units.Time(draw.Int64N(int64(300 * units.Microsecond)))
	var h roce.Packet
	n, err := h.DecodeHeaders(p)
	if err != nil {
		return false
	}
	if like := r.hostile.requests[[2]int{from, to}]; like != nil && as%requestsOneIn < 3 {
		r.forgeRequests(from, to, as%requestsOneIn == 0, rand.New(rand.NewPCG(uint64(as), r.cfg.Seed^0xf100d)), like)
	}
	if h.IsGSI() {
		r.forgeMAD(from, to, after, draw, p[n:len(p)-roce.ICRCBytes], h)
		return false
	}
	put := func(h roce.Packet, payload []byte) []byte {
		b := make([]byte, roce.MaxHeaderBytes+len(payload)+8)
		k := h.Put(b)
		k += copy(b[k:], payload)
		return b[:k+int(h.Pad)+roce.ICRCBytes]
	}
	payload := p[n : len(p)-roce.ICRCBytes-int(h.Pad)]
	switch draw.IntN(8) {
	case 0, 1: // one of before, once more
		past := r.hostile.past[[2]int{from, to}]
		old := past[draw.IntN(len(past))]
		if g := (roce.Packet{}); decodes(&g, old) && g.Opcode.Operation() >= ib.ReadResponseFirst && g.Opcode.Operation() <= ib.ReadResponseOnly {
			// Where the READ was asked for again from its middle, the same bytes come as
			// another part of it.
			r.observer.tamper(to, g.DestQP)
		}
		r.world.Inject(from, to, after, slices.Clone(old))
	case 2: // far ahead, or far behind
		h.PSN = h.PSN.Add(far + int32(draw.IntN(1<<10)))
		r.world.Inject(from, to, after, put(h, payload))
	case 3: // an answer to nothing
		a := roce.Packet{DestQP: h.DestQP, PKey: h.PKey}
		a.Opcode, a.PSN, a.MSN = h.Opcode.Service()|ib.Acknowledge, r.observer.ahead(to, h.DestQP), draw.Uint32()&0xffffff
		a.Syndrome = []uint8{0x1f, 0x20 | uint8(draw.IntN(32)), 0x60, 0x61, 0x62, 0x63, 0x40, 0xe0}[draw.IntN(8)]
		r.world.Inject(from, to, after, put(a, nil))
	case 4: // a READ's answer to nothing
		a := roce.Packet{DestQP: h.DestQP, PKey: h.PKey}
		a.Opcode, a.PSN, a.Syndrome = h.Opcode.Service()|[]ib.Opcode{ib.ReadResponseFirst, ib.ReadResponseMiddle, ib.ReadResponseLast, ib.ReadResponseOnly}[draw.IntN(4)], r.observer.ahead(to, h.DestQP), 0x1f
		r.world.Inject(from, to, after, put(a, make([]byte, 256)))
	case 5: // to no queue pair, or by a key of another partition
		if draw.IntN(2) == 0 {
			h.DestQP = draw.Uint32N(1<<24-2) + 2
			if r.observer.knows(to, h.DestQP) {
				return false
			}
		} else {
			h.PKey ^= 0x1234
		}
		r.world.Inject(from, to, after, put(h, payload))
	default:
		return r.misfit(from, to, draw, h, payload, put)
	}
	return false
}

func decodes(h *roce.Packet, p []byte) bool {
	_, err := h.DecodeHeaders(p)
	return err == nil
}

// misfit sends a packet that does not fit in place of one that would have.
func (r *run) misfit(from, to int, draw *rand.Rand, h roce.Packet, payload []byte, put func(roce.Packet, []byte) []byte) bool {
	t := r.observer.byQPN[flowKey{to, h.DestQP}]
	if t == nil || t.off || t.service == ib.UD {
		return false
	}
	service := h.Opcode &^ 0x1f
	h.Opcode = h.Opcode.Operation()
	op := h.Opcode
	switch ends := op == ib.WriteLast || op == ib.WriteOnly || op == ib.WriteLastImm || op == ib.WriteOnlyImm; {
	case service == ib.ServiceRC && ends && draw.IntN(4) > 0:
		payload = otherLength(draw, payload)
	case draw.IntN(3) > 0: // a connection that fails tells nothing more
		return false
	case op >= ib.ReadResponseFirst && op <= ib.AtomicAcknowledge:
		payload = unfitAnswer(draw, &h, payload)
	case op == ib.ReadRequest || op == ib.CompareSwap || op == ib.FetchAdd:
		payload = unfitRead(draw, &h)
	case isSend(op) || isWrite(op):
		payload = unfitPart(draw, &h, payload, int(t.mtu), service == ib.ServiceRC)
	default:
		return false
	}
	if service == ib.ServiceRC && !r.observer.tamper(to, h.DestQP) {
		return false
	}
	h.Opcode |= service
	h.Pad = roce.Pad(len(payload))
	r.world.Inject(from, to, 0, put(h, payload))
	return true
}

// otherLength is more or fewer bytes.
func otherLength(draw *rand.Rand, payload []byte) []byte {
	switch {
	case len(payload) < 200 && draw.IntN(3) > 0:
		return append(slices.Clone(payload), 1, 2, 3, 4, 5)[:len(payload)+1+draw.IntN(5)]
	case len(payload) > 1:
		return payload[:len(payload)-1-draw.IntN(min(len(payload)-1, 8))]
	}
	return []byte{1, 2, 3, 4, 5, 6, 7}
}

// unfitAnswer makes an answer one of another kind or length, or a refusal, and returns its payload.
func unfitAnswer(draw *rand.Rand, h *roce.Packet, payload []byte) []byte {
	if h.Opcode == ib.Acknowledge || draw.IntN(3) == 0 {
		was := h.Opcode
		h.Opcode, h.Reserved6 = ib.Acknowledge, 0
		switch n := draw.IntN(6); {
		case n < 3:
			h.Syndrome = rc.SyndromeInvalid + uint8(n)
		case n == 3:
			h.Syndrome = rc.SyndromeOperation + 1 + uint8(draw.IntN(28)) // reserved
		case was == ib.Acknowledge && h.Syndrome>>5 == 0: // a NAK names what is to come, which it may fit
			h.Opcode, h.Orig = ib.AtomicAcknowledge, draw.Uint64()
		default:
			h.Syndrome = 0x40 | uint8(draw.IntN(32)) // reserved
		}
		return nil
	}
	if h.Opcode == ib.AtomicAcknowledge {
		if draw.IntN(2) == 0 {
			return []byte{1, 2, 3, 4}
		}
		h.Opcode = ib.ReadResponseOnly
		return []byte{1, 2, 3, 4, 5, 6, 7, 8}
	}
	switch last := h.Opcode == ib.ReadResponseLast || h.Opcode == ib.ReadResponseOnly; {
	case draw.IntN(2) == 0:
		return otherLength(draw, payload)
	case draw.IntN(3) == 0:
		h.Opcode = ib.AtomicAcknowledge
		return nil
	case last:
		h.Opcode = []ib.Opcode{ib.ReadResponseFirst, ib.ReadResponseMiddle}[draw.IntN(2)]
	default:
		h.Opcode = []ib.Opcode{ib.ReadResponseLast, ib.ReadResponseOnly}[draw.IntN(2)]
	}
	return payload
}

// unfitRead makes a request that returns data one that can't be, and returns its payload.
func unfitRead(draw *rand.Rand, h *roce.Packet) []byte {
	switch n := draw.IntN(4); {
	case n == 0:
		return []byte{1, 2, 3, 4}
	case n == 1:
		h.RKey ^= 1 << draw.IntN(32)
	case h.Opcode != ib.ReadRequest:
		h.VA += 1 + draw.Uint64N(7)
	case n == 2:
		h.DMALen = ib.MaxMessage + 1 + draw.Uint32N(1<<20)
	default:
		h.VA, h.DMALen = ^uint64(0)-draw.Uint64N(64), 128+draw.Uint32N(1<<20)
	}
	return nil
}

// unfitPart makes a packet of a SEND or WRITE one that can't come where it does, or not so long, and
// returns its payload. anew says that one that begins a message may be it.
func unfitPart(draw *rand.Rand, h *roce.Packet, payload []byte, mtu int, anew bool) []byte {
	starts := []ib.Opcode{ib.SendFirst, ib.SendOnly, ib.WriteFirst, ib.WriteOnly, ib.SendOnlyImm, ib.WriteOnlyImm}
	later := []ib.Opcode{ib.SendMiddle, ib.SendLast, ib.SendLastImm}
	if isSend(h.Opcode) == goesOn(h.Opcode) { // with the message in hand it is one of the other kind
		later = []ib.Opcode{ib.WriteMiddle, ib.WriteLast, ib.WriteLastImm}
	}
	op := h.Opcode
	switch n := draw.IntN(4); {
	case n == 0: // longer than any
		return append(slices.Clone(payload), make([]byte, max(0, mtu+4-len(payload)))...)
	case n == 1 && len(payload) > 1 && (op == ib.SendFirst || op == ib.SendMiddle || op == ib.WriteFirst || op == ib.WriteMiddle):
		return payload[:len(payload)-1-draw.IntN(len(payload)-1)]
	case n == 1 && goesOn(op) && isSend(op):
		return nil
	case n == 2 && op == ib.WriteFirst:
		h.DMALen = draw.Uint32N(uint32(len(payload)) + 1)
	case n == 2 && (op == ib.WriteOnly || op == ib.WriteOnlyImm):
		h.RKey ^= 1 << draw.IntN(32)
	case goesOn(op) && anew && draw.IntN(2) == 0:
		h.Opcode = starts[draw.IntN(len(starts))]
		h.VA, h.RKey, h.DMALen = draw.Uint64(), draw.Uint32(), uint32(len(payload))
	default:
		h.Opcode = later[draw.IntN(len(later))]
	}
	return payload
}

// forgeMAD sends a management datagram beside one.
func (r *run) forgeMAD(from, to int, after units.Time, draw *rand.Rand, b []byte, h roce.Packet) {
	m, err := roce.ParseMAD(b)
	if err != nil {
		return
	}
	out := make([]byte, roce.MaxHeaderBytes+roce.MADBytes+roce.ICRCBytes)
	n := h.Put(out)
	out = out[:n+roce.MADBytes+roce.ICRCBytes]
	forged := out[n : n+roce.MADBytes]
	var req roce.REQ
	if draw.IntN(2) == 0 && m.Attribute() == roce.AttrREQ && req.Decode(m) == nil {
		forgeRequest(draw, &req, draw.IntN(2) == 0)
		if _, err := req.Put(forged, draw.Uint64()); err != nil {
			return
		}
	} else if m.RemoteCommID() != 0 && draw.IntN(2) == 0 {
		// The release of the connection, with a queue pair that is not its.
		d := roce.DREQ{LocalCommID: m.LocalCommID(), RemoteCommID: m.RemoteCommID(), RemoteQPN: draw.Uint32N(1 << 24), Private: forgedMark}
		if r.observer.knows(to, d.RemoteQPN) {
			return
		}
		if _, err := d.Put(forged, draw.Uint64()); err != nil {
			return
		}
	} else {
		past := r.hostile.past[[2]int{from, to}]
		old := past[draw.IntN(len(past))]
		out = slices.Clone(old)
	}
	r.world.Inject(from, to, after, out)
}

// forgeRequests sends requests for connections that are like one that a host has sent, in its
// datagram: one that is forged, or a flood of more than a listener has places, in the names of
// several hosts, most of them in one's.
func (r *run) forgeRequests(from, to int, flood bool, draw *rand.Rand, like []byte) {
	var h roce.Packet
	n, err := h.DecodeHeaders(like)
	if err != nil {
		return
	}
	m, err := roce.ParseMAD(like[n : len(like)-roce.ICRCBytes])
	var req roce.REQ
	if err != nil || req.Decode(m) != nil {
		return
	}
	put := func(name int, after units.Time) {
		out := make([]byte, roce.MaxHeaderBytes+roce.MADBytes+roce.ICRCBytes)
		k := h.Put(out)
		out = out[:k+roce.MADBytes+roce.ICRCBytes]
		if _, err := req.Put(out[k:k+roce.MADBytes], draw.Uint64()); err == nil {
			r.world.Inject(name, to, after, out)
		}
	}
	if !flood {
		forgeRequest(draw, &req, draw.IntN(2) == 0)
		put(from, 0)
		return
	}
	for range backlogs + 1 + draw.IntN(2*backlogs) {
		name := from
		if draw.IntN(4) == 0 {
			if name = draw.IntN(r.cfg.Processes); name == to {
				continue
			}
		}
		req.LocalCommID, req.LocalCAGUID, req.LocalQPN = draw.Uint32(), draw.Uint64(), 2+draw.Uint32N(1<<24-2)
		req.StartingPSN, req.ServiceID, req.Private = units.MakePSN(draw.Uint32()), service, floodMark
		req.Primary.LocalGID = roce.GIDOf(netip.AddrFrom4([4]byte{10, 0, 0, byte(name + 1)}))
		put(name, units.Time(draw.Int64N(int64(100*units.Microsecond))))
	}
}
