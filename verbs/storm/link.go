package storm

import (
	"bytes"
	"errors"
	"fmt"
)

// link is one connection, which both its ends know: so what either has done can be held
// against the other's memory when both are over. It lives as long as the run.
//
// A request that comes twice, with a crash between, makes the server two ends, since what the
// first has said may be forgotten. The client is connected to one of them; others are strays,
// to which nothing is sent, and which may send what the first would have.
type link struct {
	id     linkID
	ends   [2]*end // client's, server's; nil as long as there is none
	strays []*end  // of the server
}

// other returns the other end, nil if there is none yet.
func (l *link) other(side int) *end { return l.ends[1-side] }

// link finds or makes the link of a nonce.
func (r *run) link(id linkID, nonce uint64) *link {
	l := r.links[nonce]
	if l == nil {
		l = &link{id: id}
		if r.links == nil {
			r.links = map[uint64]*link{}
		}
		r.links[nonce] = l
	}
	return l
}

// join takes an end. As long as the client has no answer, the server's newest is its other end.
func (l *link) join(e *end) {
	switch old := l.ends[e.side]; {
	case old == nil:
		l.ends[e.side] = e
	case l.ends[0] != nil && l.ends[0].started:
		l.strays = append(l.strays, e)
	default:
		l.strays = append(l.strays, old)
		l.ends[e.side] = e
	}
}

// answered says which queue pair the client connects to.
func (l *link) answered(qpn uint32) {
	for i, s := range l.strays {
		if s.hello.qpn == qpn {
			l.strays[i], l.ends[1] = l.ends[1], s
		}
	}
}

// gone notes that an end is over. Once that is so of both, what they have is held against each
// other.
func (l *link) gone(e *end) {
	switch {
	case l.ends[0] == nil: // the client is forgotten
		delete(e.p.run.links, e.nonce)
		e.alone()
		return
	case e != l.ends[e.side]:
		e.alone()
		return
	}
	client, server := l.ends[0], l.ends[1]
	if server == nil || !client.isOver || !server.isOver {
		return
	}
	l.hold(client, server, client.posted)
	posted := server.posted
	for _, s := range l.strays {
		posted = max(posted, s.posted)
	}
	l.hold(server, client, posted)
	for _, s := range l.strays {
		if s.isOver {
			s.alone()
		}
	}
	// The run may make thousands of connections.
	delete(e.p.run.links, e.nonce)
	for _, x := range l.ends {
		x.forget()
	}
}

// hold holds what one end has asked, of which so many were posted, against the other's memory.
func (l *link) hold(from, to *end, posted int) {
	err := from.plan.left(to.offer, from.completed, posted, from.p.run.unordered)
	if err == nil && to.received > 0 && from.plan.sends[to.received-1] >= posted {
		err = fmt.Errorf("%d messages were received, and fewer posted", to.received)
	}
	if err == nil && from.finished && to.finished && !bytes.Equal(to.offer[:from.plan.written], from.plan.whole()) {
		err = errors.New("all is finished, and memory is not what it must be")
	}
	if err != nil {
		from.p.Failf("connection %v, %s's requests: %v", l.id, [2]string{"client", "server"}[from.side], err)
	}
}

// alone holds an end to which nobody was connected against what can have come of it: nothing.
func (e *end) alone() {
	if e.offer == nil {
		return
	}
	want := make([]byte, len(e.offer))
	e.theirs.fillTheirs(want)
	switch {
	case e.completed > 0 || e.received > 0:
		e.p.Failf("connection %v: %d requests and %d messages of an end to which nobody was connected have completed", e.link.id, e.completed, e.received)
	case !bytes.Equal(e.offer, want):
		e.p.Failf("connection %v: the memory of an end to which nobody was connected has changed", e.link.id)
	}
	e.forget()
}

// forget frees what an end that is over has been held against.
func (e *end) forget() {
	e.own, e.offer, e.recv, e.plan, e.theirs = nil, nil, nil, nil, nil
}
