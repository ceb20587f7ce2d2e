package nictrace

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/units"
)

// lives follows requests through NICs by their spans, from the doorbell to the completion
// that the host sees.
type lives struct {
	wants func(host int, qpn uint32) bool // whose requests are followed
	until units.Time                      // requests whose doorbell rings later are not
	ended func(pairKey, *life)            // is given each that has ended; it is valid during the call
	all   map[requestKey]*life
	pairs map[pairKey]*followedPair
	idle  []*life
}

func newLives(until units.Time, wants func(int, uint32) bool, ended func(pairKey, *life)) *lives {
	return &lives{wants: wants, until: until, ended: ended, all: map[requestKey]*life{}, pairs: map[pairKey]*followedPair{}}
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
	timed                              units.Time // the end of the wait for its send time
	firstAt                            units.Time // at the scheduler
	packets                            []followedPacket
	last                               followedPacket
	sent                               int
	peer                               int        // host of the last packet's receiver
	peerFrom, peerTo                   units.Time // the last packet there
	recvFetched                        units.Time // its receive, if the packet waited for that
	cqe                                nicmodel.Span
	answer                             answer
	visible                            units.Time // the end
}

type followedPacket struct {
	op                                             ib.Opcode
	psn                                            units.PSN
	scheduler, chosen, fetched, packed, wire, sent units.Time
}

// followedPair is the responses that a queue pair received lately.
type followedPair struct {
	answers []answer
	known   int // of them have come, from the oldest on
}

// answer is a response: when its last bit left the peer, when it arrived, and when
// the transport had it.
type answer struct {
	psn            units.PSN
	op             ib.Opcode
	left, from, to units.Time
}

// keptAnswers is how many responses of a queue pair are remembered: more than can be
// between a peer's wire and a completion.
const keptAnswers = 4096

// span takes a span of the NIC of a host.
func (v *lives) span(at int, s *nicmodel.Span) {
	if !v.wants(s.Host, s.QPN) {
		return
	}
	pair := pairKey{s.Host, s.QPN}
	switch {
	case s.Place == nicmodel.AtStore:
		if s.Begin < v.until {
			v.each(s, func(key requestKey) { v.onStore(key, s) })
		}
	case s.Place == nicmodel.AtDoorbell:
		v.each(s, func(key requestKey) { v.known(key).doorbell = s.End })
	case s.Place == nicmodel.AtFetch:
		v.each(s, func(key requestKey) { v.known(key).fetch = s.End })
	case s.Place == nicmodel.AtWQE:
		v.each(s, func(key requestKey) { v.known(key).wqe = s.End })
	case s.Place == nicmodel.AtSendTime:
		v.each(s, func(key requestKey) { v.known(key).timed = s.End })
	case s.Place == nicmodel.AtCQE && !s.Response:
		v.known(requestKey{pair, s.Slot}).cqe = *s
	case s.Place == nicmodel.AtCQEWrite && !s.Response:
		v.onVisible(requestKey{pair, s.Slot}, s.End)
	case s.Response:
		v.answer(at, pair, s)
	case s.Place != nicmodel.AtCQE && s.Place != nicmodel.AtCQEWrite:
		if l := v.all[requestKey{pair, s.Slot}]; l != nil {
			l.packet(at, s)
		}
	}
}

func (v *lives) each(s *nicmodel.Span, do func(requestKey)) {
	for i := range s.Count {
		do(requestKey{pairKey{s.Host, s.QPN}, (s.Slot + i) & (s.Ring - 1)})
	}
}

func (v *lives) onStore(key requestKey, s *nicmodel.Span) {
	l := v.all[key] // of a request that ended without a completion
	if l == nil {
		if n := len(v.idle); n > 0 {
			l, v.idle = v.idle[n-1], v.idle[:n-1]
		} else {
			l = &life{}
		}
		v.all[key] = l
	}
	*l = life{store: s.Begin, there: s.End, packets: l.packets[:0]}
}

// known is a request's life, or a dummy that is not shown.
func (v *lives) known(key requestKey) *life {
	if l := v.all[key]; l != nil {
		return l
	}
	return &life{}
}

func (v *lives) onVisible(key requestKey, visible units.Time) {
	l := v.all[key]
	if l == nil {
		return
	}
	if l.wqe > 0 {
		l.answer, l.visible = v.pairs[key.pairKey].completedBy(l.cqe.Begin), visible
		v.ended(key.pairKey, l)
	}
	delete(v.all, key)
	v.idle = append(v.idle, l)
}

// packet takes a span of a request's packet.
func (l *life) packet(at int, s *nicmodel.Span) {
	if s.Place == nicmodel.AtReceive {
		if s.PSN == l.last.psn && l.sent > 0 {
			l.peer, l.peerFrom, l.peerTo, l.recvFetched = at, s.Begin, s.End, 0
		}
		return
	}
	if s.Place == nicmodel.AtRecvFetch { // goes on where that ended
		if s.PSN == l.last.psn && l.sent > 0 {
			l.recvFetched = s.End
		}
		return
	}
	if s.Place == nicmodel.AtScheduler {
		if l.firstAt == 0 {
			l.firstAt = s.Begin
		}
		l.packets = append(l.packets, followedPacket{op: s.Opcode, psn: s.PSN, scheduler: s.Begin, chosen: s.End})
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
			l.last, l.peerFrom, l.peerTo, l.recvFetched = *p, 0, 0, 0
			l.sent++
			l.packets = append(l.packets[:0], l.packets[i+1:]...)
		}
		return
	}
}

// answer takes a span of a response to a queue pair.
func (v *lives) answer(at int, key pairKey, s *nicmodel.Span) {
	pair := v.pairs[key]
	if pair == nil {
		pair = &followedPair{}
		v.pairs[key] = pair
	}
	switch {
	case s.Place == nicmodel.AtWire:
		if len(pair.answers) == keptAnswers {
			pair.answers = append(pair.answers[:0], pair.answers[keptAnswers/2:]...)
			pair.known = max(pair.known-keptAnswers/2, 0)
		}
		pair.answers = append(pair.answers, answer{psn: s.PSN, op: s.Opcode, left: s.End})
	case s.Place == nicmodel.AtReceive && at == key.host:
		for i := pair.known; i < len(pair.answers); i++ {
			if a := &pair.answers[i]; a.to == 0 && a.psn == s.PSN && a.op == s.Opcode {
				a.from, a.to = s.Begin, s.End
				break
			}
		}
		for pair.known < len(pair.answers) && pair.answers[pair.known].to > 0 {
			pair.known++
		}
	}
}

// completedBy is the response that caused a completion that the stage cqe started
// at an instant: the newest that the transport had by then.
func (p *followedPair) completedBy(at units.Time) answer {
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

// lifePart is a piece of a request's life.
type lifePart struct {
	name     string
	from, to units.Time
	where    lifePlace
	inside   []lifePart
}

// lifePlace is where a part of a life is spent.
type lifePlace uint8

const (
	atRequester lifePlace = iota
	inNetwork
	atPeer
)

// elsewhere is the part between the wire and the response.
const elsewhere = "network and peer"

// parts are what the life is made of: they follow each other without a gap and add up to
// it. Those inside elsewhere are so where the peer's NIC reported them.
func (l *life) parts() []lifePart {
	p, a := &l.last, &l.answer
	all := chain(l.store, l.visible, []lifePart{
		{name: "doorbell store", to: l.there}, {name: "doorbell", to: l.doorbell}, {name: "wqe fetch", to: l.fetch}, {name: "wqe", to: l.wqe},
		{name: "wait for its send time", to: l.timed}, {name: "wait for the scheduler", to: l.firstAt}, {name: "packets before the last", to: p.scheduler}, {name: "scheduler", to: p.chosen},
		{name: "payload fetch", to: p.fetched}, {name: "packetiser", to: p.packed}, {name: "wait for the wire", to: p.wire}, {name: "wire", to: p.sent},
		{name: elsewhere, to: a.from, where: inNetwork}, {name: "receive", to: a.to}, {name: "cqe", to: l.cqe.End}, {name: "cqe write", to: l.visible},
	})
	for i := range all {
		if x := &all[i]; x.name == elsewhere && l.peerTo > 0 {
			x.inside = chain(x.from, x.to, []lifePart{
				{name: "network", to: l.peerFrom, where: inNetwork}, {name: "receive at the peer", to: l.peerTo, where: atPeer},
				{name: "receive wqe fetch", to: l.recvFetched, where: atPeer},
				{name: "answer of the peer", to: a.left, where: atPeer}, {name: "network back", to: x.to, where: inNetwork},
			})
		}
	}
	return all
}

// chain puts parts one after the other so that they fill a span without gaps; each keeps
// its end. A part that is unknown, or was overtaken, has no length and is left out.
func chain(from, to units.Time, parts []lifePart) []lifePart {
	bound := to
	for i := len(parts) - 1; i >= 0; i-- {
		if parts[i].to > 0 {
			bound = min(bound, parts[i].to)
			parts[i].to = bound
		}
	}
	kept := parts[:0]
	for _, p := range parts {
		if p.to > from {
			p.from = from
			from = p.to
			kept = append(kept, p)
		}
	}
	return kept
}
