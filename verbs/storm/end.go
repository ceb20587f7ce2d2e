package storm

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
)

// end is one end of a connection.
type end struct {
	link       *link
	nonce      uint64
	side       int // 0 the client's, 1 the server's
	p          *Process
	hello      hello
	qp         verbs.QP
	connection uint32 // of the connection manager; 0 if made without
	began      units.Time

	plan    *plan // what this end asks
	theirs  *plan // what the other asks
	ownMR   verbs.MR
	own     []byte // memory of this end's requests
	offerMR verbs.MR
	offer   []byte   // memory that the other's requests act on
	tokenMR verbs.MR // that the other's SEND with invalidate takes away
	recvMR  verbs.MR
	recv    []byte // places of messages
	slot    int    // bytes of each

	remote    hello
	window    verbs.MW // to offer, for the other end
	windowKey uint32   // of it, once bound
	fidget    verbs.MW // that nobody uses
	invalid   []verbs.MR
	extras    []extra // under way
	asked     int     // extras, in all

	started       bool
	posted        int // requests
	completed     int // of them, with success
	receives      int // posted
	received      int
	broken        bool // the queue pair is in error, and is drained
	brokenAt      units.Time
	excused       bool // the other end or the connection manager has broken it off
	parted        bool // the connection manager knows it
	untoken       bool // the token is taken away
	tampered      bool // memory was taken away, or memory asked for that is not the connection's
	trespassed    bool // the latter: no more is posted
	impatient     bool // it does not wait for receives for ever
	paused        bool // its send queue has been drained, once
	draining      bool // the send queue is, until the event that it has
	finished      bool
	otherFinished bool
	isOver        bool       // nothing acts on its memory any more
	moved         units.Time // when something last happened
}

// begins are the packet numbers that queue pairs have expected first, of each connection that they
// had.
type begins map[flowKey][]units.PSN

func (b *begins) add(k flowKey, psn uint32) {
	if *b == nil {
		*b = begins{}
	}
	(*b)[k] = append((*b)[k], units.PSN(psn))
}

// apart reports whether late packets of no earlier connection of a queue pair fit into one that
// begins at psn.
func (b begins) apart(k flowKey, psn uint32) bool {
	for _, old := range b[k] {
		if d := units.PSN(psn).Sub(old); d < 1<<16 && d > -1<<16 {
			return false
		}
	}
	return true
}

// newEnd makes the queue pair and the memory of an end. asked is what the client has said, nil if
// this is the client or if queue pairs are not used again.
func (w *peer) newEnd(id linkID, nonce uint64, side int, asked *hello) (*end, error) {
	e := &end{link: w.p.run.link(id, nonce), nonce: nonce, side: side, p: w.p, began: w.p.Now(), moved: w.p.Now()}
	draw := func(side int) *plan { return drawPlan(rand.New(rand.NewPCG(nonce, uint64(side)))) }
	e.plan, e.theirs = draw(side), draw(1-side)
	e.slot = e.theirs.longest()
	init := verbs.QPInitAttr{
		Type: ib.RC, SendCQ: w.send, RecvCQ: w.recv, SigAll: w.p.Rand.IntN(4) == 0,
		Cap: verbs.QPCap{MaxSendWR: w.weather.depth, MaxRecvWR: w.weather.receives, MaxSendSGE: 2, MaxRecvSGE: 1, MaxInlineData: 64},
	}
	if w.srq != nil {
		init.SRQ = w.srq.srq
	}
	var err error
	n := len(w.spares)
	if n > 0 && asked != nil && !w.p.run.begins.apart(flowKey{w.p.ID, w.spares[n-1].Num()}, asked.psn) {
		n = 0
	}
	if n > 0 {
		e.qp, w.spares = w.spares[n-1], w.spares[:n-1]
	} else if e.qp, err = w.pd.CreateQP(init); err != nil {
		return nil, err
	}
	all := ib.AccessLocalWrite | ib.AccessRemoteRead | ib.AccessRemoteWrite | ib.AccessRemoteAtomic
	e.own, e.offer, e.recv = make([]byte, e.plan.own), make([]byte, e.theirs.theirs), make([]byte, w.weather.receives*e.slot)
	e.plan.fillOwn(e.own)
	e.theirs.fillTheirs(e.offer)
	if e.ownMR, err = w.register(e.own, ib.AccessLocalWrite); err != nil {
		return nil, err
	}
	if w.weather.extras > 0 {
		all |= ib.AccessMWBind
	}
	if e.offerMR, err = w.register(e.offer, all); err != nil {
		return nil, err
	}
	if e.recvMR, err = w.register(e.recv, ib.AccessLocalWrite); err != nil {
		return nil, err
	}
	if e.tokenMR, err = w.pd.RegMR(make([]byte, 8), ib.AccessLocalWrite|ib.AccessRemoteWrite|ib.AccessRemoteInvalidate); err != nil {
		return nil, err
	}
	psn := w.p.Rand.Uint32() & 0xffffff
	if n == 0 && w.p.Rand.IntN(3) == 0 {
		psn = 0xffffff - w.p.Rand.Uint32N(40) // they wrap soon
	}
	if asked != nil {
		client := flowKey{id.client, asked.qpn}
		for !w.p.run.begins.apart(client, psn) {
			psn = w.p.Rand.Uint32() & 0xffffff
		}
		w.p.run.begins.add(client, psn)
		w.p.run.begins.add(flowKey{w.p.ID, e.qp.Num()}, asked.psn)
	}
	e.hello = hello{e.qp.Num(), psn, e.offerMR.Addr(), e.offerMR.RKey(), e.tokenMR.RKey()}
	e.link.join(e)
	w.ends[id], w.byQPN[e.hello.qpn] = e, e
	w.order = append(w.order, id)
	w.p.onCrash = append(w.p.onCrash, e.gone)
	return e, nil
}

// start begins the plan: the queue pair is connected.
func (e *end) start(remote hello) {
	e.remote, e.started, e.moved = remote, true, e.p.Now()
	e.p.run.observer.begin(e)
}

// pump posts what may be posted, and sees whether the end is over.
func (w *peer) pump(e *end) bool {
	did := false
	switch {
	case e.broken:
		return w.drain(e)
	case !e.started:
		return false
	}
	w.misbehave(e)
	if w.srq == nil && w.p.Rand.IntN(3) > 0 {
		posted, ok := w.postReceives(e)
		if !ok {
			return true
		}
		did = posted
	}
	if n := w.weather.extras; n > 0 && !e.tampered && !e.finished && w.p.Rand.IntN(n) == 0 && e.asked < mostExtras {
		w.ask(e)
	}
	posted, ok := w.postPlanned(e)
	if !ok {
		return true
	}
	did = did || posted
	if !e.finished && len(e.extras) == 0 && e.completed == len(e.plan.ops) && e.received == len(e.theirs.sends) {
		e.finished, did = true, true
		w.p.Send(e.link.id.client+e.link.id.server-w.p.ID, finishedMsg{e.link.id, e.nonce})
	}
	if e.finished && e.otherFinished {
		w.part(e)
		return true
	}
	if did {
		e.moved = w.p.Now()
	} else {
		w.lookAfter(e)
	}
	return did
}

// misbehave now and then does what the weather has: takes memory away, drains the queue, or
// posts what must be refused.
func (w *peer) misbehave(e *end) {
	r := w.p.Rand
	if n := w.weather.dereg; n > 0 && !e.tampered && r.IntN(n) == 0 && !w.p.Calm() {
		w.tamper(e)
	}
	if n := w.weather.drains; n > 0 && !e.tampered && !e.draining && !w.p.Calm() && r.IntN(n) == 0 {
		w.pause(e)
	}
	if shim := e.guard().shim(); shim != nil && r.IntN(64) == 0 {
		w.share(e, shim)
	}
	if n := w.weather.forbidden; n > 0 && !e.tampered && !w.p.Calm() && w.pending(e) < w.weather.depth && r.IntN(n) == 0 {
		w.trespass(e)
	}
}

// share gives a queue pair another share of its group, or one that none has.
func (w *peer) share(e *end, q *paced.QP) {
	weight, class := w.p.Rand.IntN(paced.MaxWeight+3)-1, w.p.Rand.IntN(paced.Classes+2)-1
	var want error
	if weight < 1 || weight > paced.MaxWeight || class < 0 || class >= paced.Classes {
		want = verbs.ErrInvalid
	}
	if err := q.SetShare(weight, class); !refused(err, want) {
		w.p.Failf("rule 20: connection %v: weight %d in class %d: %v, expected %v", e.link.id, weight, class, err, want)
	}
}

// pending is how many requests of an end are posted and not known to have completed.
func (w *peer) pending(e *end) int { return e.posted - e.completed + len(e.extras) }

// postReceives posts receives for messages that are to come, as many as there may be at a time;
// false means that this failed, which is reported.
func (w *peer) postReceives(e *end) (did, ok bool) {
	for e.receives < len(e.theirs.sends) && e.receives-e.received < w.weather.receives {
		slot := e.receives % w.weather.receives
		if _, err := e.qp.PostRecv([]verbs.RecvWR{{WRID: recvID | uint64(e.receives), SGL: []verbs.SGE{verbs.SGEOf(e.recvMR, slot*e.slot, e.slot)}}}); err != nil {
			w.p.Failf("connection %v: post_recv: %v", e.link.id, err)
			return true, false
		}
		e.receives++
		did = true
	}
	return did, true
}

// postPlanned posts some of the plan's next requests, where there is room; false means that
// this failed, which is reported.
func (w *peer) postPlanned(e *end) (did, ok bool) {
	n := min(len(e.plan.ops)-e.posted, w.weather.depth-w.pending(e))
	if n <= 0 || e.trespassed {
		return false, true
	}
	r := w.p.Rand
	n = 1 + r.IntN(n)
	if r.IntN(8) == 0 {
		n = len(e.plan.ops) - e.posted // and perhaps there is no room for all
	}
	wrs := make([]verbs.SendWR, n)
	for i := range wrs {
		to := e.remote
		if other := e.link.other(e.side); other != nil && other.windowKey != 0 && r.IntN(2) == 0 {
			to.rkey = other.windowKey
		}
		wrs[i] = e.plan.request(e.posted+i, e.ownMR, e.own, &to)
		if w.pending(e)+i == w.weather.depth-1 {
			wrs[i].Flags |= verbs.SendSignaled // or no completion would ever make room
		}
	}
	taken, err := e.qp.PostSend(wrs)
	e.posted += taken
	for i := range wrs { // lists and inline data are the program's again
		clear(wrs[i].SGL)
		clear(wrs[i].Inline)
	}
	full := errors.Is(err, verbs.ErrQueueFull)
	if err != nil && !e.tampered && !(full && w.pending(e) >= w.weather.depth) {
		// The queue pair may be in error, and the completion that says so on its way.
		if a, bad := e.qp.Query(); bad != nil || a.State != ib.Err {
			w.p.Failf("connection %v: post_send: %v", e.link.id, err)
			return true, false
		}
	}
	if err != nil && e.tampered && !full {
		w.breakOff(e)
	}
	return taken > 0, true
}

// recvID marks the WRIDs of receives.
const recvID = 1 << 32

// impatience is how long an end waits when nothing moves: longer than a queue pair takes
// to give up.
const impatience = 2 * units.Second

// lookAfter breaks off a connection that does not move, and reports it if both its ends
// are there and nothing has gone wrong for long.
func (w *peer) lookAfter(e *end) {
	if w.p.Now()-e.moved < impatience {
		return
	}
	other := e.link.other(e.side)
	if w.p.Calm() && e.moved > w.p.run.cfg.Span && other != nil && !other.isOver && !other.broken && other.started && w.p.Now()-other.moved > impatience/2 {
		w.p.Failf("connection %v stands still: this end has completed %d of %d requests and received %d of %d messages, the other %d of %d and %d of %d",
			e.link.id, e.completed, len(e.plan.ops), e.received, len(e.theirs.sends), other.completed, len(other.plan.ops), other.received, len(other.theirs.sends))
		return
	}
	e.excused = true
	w.breakOff(e)
}

// tamper takes registered memory away in the middle.
func (w *peer) tamper(e *end) {
	e.tampered = true
	mr := []verbs.MR{e.ownMR, e.offerMR, e.recvMR}[w.p.Rand.IntN(3)]
	if err := mr.Close(); err != nil && !e.busy(mr, err) {
		w.p.Failf("connection %v: %v", e.link.id, err)
	}
}

// pause drains the send queue: what has begun goes on, and what is posted waits.
func (w *peer) pause(e *end) {
	if err := e.qp.Modify(verbs.QPAttr{State: ib.SQD}, verbs.AttrState); err != nil {
		w.inError(e, err)
		return
	}
	e.draining, e.paused = true, true
}

// resume goes on with a send queue that has drained.
func (w *peer) resume(e *end) {
	if e == nil || !e.draining || e.broken {
		return
	}
	e.draining, e.moved = false, w.p.Now()
	if err := e.qp.Modify(verbs.QPAttr{State: ib.RTS}, verbs.AttrState); err != nil {
		w.inError(e, err)
	}
}

// inError looks whether a call failed because the queue pair is in error, of which the
// completion may be on its way.
func (w *peer) inError(e *end, err error) {
	if a, bad := e.qp.Query(); bad != nil || a.State != ib.Err {
		w.p.Failf("connection %v: %v", e.link.id, err)
	}
}

// forbiddenID marks the WRIDs of requests that must be refused.
const forbiddenID = 1 << 40

// trespass posts a request that the other end must refuse: on memory of another
// protection domain, without the right, past the end, or by a key that is no more.
func (w *peer) trespass(e *end) {
	other := e.link.other(e.side)
	if other == nil || other.isOver || other.tampered || other.broken {
		return
	}
	r := w.p.Rand
	wr := verbs.SendWR{
		WRID: forbiddenID, Opcode: []ib.WROpcode{ib.WRRDMAWrite, ib.WRRDMARead, ib.WRAtomicFetchAndAdd}[r.IntN(3)], Flags: verbs.SendSignaled,
		SGL: []verbs.SGE{verbs.SGEOf(e.ownMR, 0, 8)}, RemoteAddr: e.remote.addr, RKey: e.remote.rkey,
	}
	if wr.Opcode != ib.WRRDMAWrite {
		wr.SGL = []verbs.SGE{verbs.SGEOf(w.spareMR, 0, 8)}
	}
	switch r.IntN(6) {
	case 4:
		if other.windowKey == 0 {
			return
		}
		wr.RKey = other.windowKey ^ 1<<r.IntN(8)
	case 5:
		if !other.untoken || wr.Opcode != ib.WRRDMAWrite {
			return
		}
		wr.RemoteAddr, wr.RKey = other.tokenMR.Addr(), other.tokenMR.RKey()
	case 0:
		far := w.p.run.foreign[other.p.ID]
		wr.RemoteAddr, wr.RKey = far.addr, far.rkey
	case 1:
		if len(other.recv) < 16 {
			return
		}
		wr.RemoteAddr, wr.RKey = (other.recvMR.Addr()+7)&^7, other.recvMR.RKey()
	case 2:
		wr.RemoteAddr = (e.remote.addr + uint64(e.plan.theirs) - 1) &^ 7
		if wr.Opcode == ib.WRAtomicFetchAndAdd {
			wr.RemoteAddr += 8
		} else {
			wr.RemoteAddr += 4
		}
	default:
		old := w.p.run.gone[other.p.ID]
		if old.rkey == 0 {
			return
		}
		wr.RemoteAddr, wr.RKey = old.addr, old.rkey
	}
	e.tampered = true
	if _, err := e.qp.PostSend([]verbs.SendWR{wr}); err != nil {
		if a, bad := e.qp.Query(); bad != nil || a.State != ib.Err {
			w.p.Failf("connection %v: post_send: %v", e.link.id, err)
		}
		return
	}
	e.trespassed = true
}

// completion handles a completion of the end's queue pair.
func (e *end) completion(w *peer, wc *verbs.WC) {
	if wc.WRID != extraID { // which the other end knows nothing of
		e.moved = w.p.Now()
	}
	if wc.Status != ib.WCSuccess {
		e.status(w, wc)
		w.breakOff(e)
		return
	}
	if wc.Opcode >= ib.WCRecv {
		var slot []byte
		if w.srq != nil {
			slot = w.srq.slot(wc.WRID)
		} else {
			slot = e.recv[e.received%w.weather.receives*e.slot:][:e.slot]
		}
		e.untoken = e.untoken || wc.Flags&verbs.WCWithInv != 0
		if err := e.theirs.delivered(e.received, wc, slot, e.hello.token, w.p.cutsImmediate()); err != nil {
			w.p.Failf("connection %v: %v", e.link.id, err)
		}
		if w.srq != nil {
			w.srq.again(w, wc.WRID)
		}
		e.received++
		return
	}
	if wc.WRID == extraID {
		w.asked(e)
		return
	}
	if wc.WRID == forbiddenID {
		w.p.Failf("connection %v: a %v of memory that is not the connection's has succeeded", e.link.id, wc.Opcode)
		return
	}
	i := int(wc.WRID)
	for e.completed <= i {
		if err := e.plan.brought(e.completed, e.own); err != nil {
			w.p.Failf("connection %v: %v", e.link.id, err)
		}
		e.completed++
	}
}

// status holds the failure of a request against what has happened.
func (e *end) status(w *peer, wc *verbs.WC) {
	if w.srq != nil && wc.WRID&recvID != 0 {
		w.srq.again(w, wc.WRID)
	}
	switch wc.Status {
	case ib.WCWRFlushErr:
	case ib.WCRetryExcErr:
		// The other end may be gone, or the wire; in calm weather neither is.
		other := e.link.other(e.side)
		if e.began > w.p.run.cfg.Span && other != nil && !other.isOver && !other.broken && !other.tampered && !e.excused {
			w.p.Failf("connection %v: request %d: %v, and the other end is there", e.link.id, wc.WRID, wc.Status)
		}
	case ib.WCRNRRetryExcErr:
		if !e.impatient && !e.tampered {
			w.p.Failf("connection %v: request %#x: %v, and it asks again without end", e.link.id, wc.WRID, wc.Status)
		}
	default:
		other := e.link.other(e.side)
		if !e.tampered && !(other != nil && (other.tampered || other.broken || other.isOver)) {
			w.p.Failf("connection %v: request %#x: %v", e.link.id, wc.WRID, wc.Status)
		}
	}
}

// breakOff takes the queue pair to the error state, where all that was posted is
// flushed.
func (w *peer) breakOff(e *end) {
	if e.broken {
		return
	}
	e.broken, e.brokenAt = true, w.p.Now()
	w.p.run.observer.finish(e)
	if err := e.qp.Modify(verbs.QPAttr{State: ib.Err}, verbs.AttrState); err != nil {
		w.p.Failf("connection %v: to the error state: %v", e.link.id, err)
	}
}

// drain waits until all that was posted has ended, and destroys the end.
func (w *peer) drain(e *end) bool {
	if sends, recvs := e.guard().underWay(); sends+recvs > 0 {
		if w.p.Now()-e.brokenAt > units.Second {
			w.p.Failf("connection %v: %d requests and %d receives have not ended, %v after the queue pair went to the error state",
				e.link.id, sends, recvs, w.p.Now()-e.brokenAt)
		}
		return false
	}
	if !e.excused {
		w.p.Send(e.link.id.client+e.link.id.server-w.p.ID, brokenMsg{e.link.id, e.nonce})
	}
	w.over(e)
	return true
}

func (e *end) guard() *guardQP { return e.qp.(*guardQP) }

// part ends a connection of which both ends have carried out all.
func (w *peer) part(e *end) {
	if c := w.clients[e.link.id]; c != nil && c.calm {
		c.done = true
	}
	w.over(e)
}

// regain takes the shared queue's receives back that the queue pair holds: ones that
// have completed, and one of a message that is not whole, which is flushed in the error
// state (IBA 10.2.9.4).
func (w *peer) regain(e *end) {
	if w.srq == nil {
		return
	}
	e.excused = true
	w.breakOff(e)
	w.p.Sleep(20 * time.Microsecond)
	for w.poll(w.recv) {
	}
}

// over frees an end.
func (w *peer) over(e *end) {
	if e.isOver {
		return
	}
	if c := w.clients[e.link.id]; c != nil && c.asked == e {
		c.asked = nil
	}
	if e.connection != 0 && w.agent != nil && !e.parted {
		_ = w.agent.core.Disconnect(w.p.Now(), e.connection)
		w.agent.drain()
	}
	w.regain(e)
	delete(w.ends, e.link.id)
	delete(w.byQPN, e.hello.qpn)
	for i, id := range w.order {
		if id == e.link.id {
			w.order = append(w.order[:i:i], w.order[i+1:]...)
			break
		}
	}
	var err error
	// By the connection manager, a queue pair's number is not used again so soon. The event of a
	// drained queue may wait, and would be taken for another's.
	if w.agent == nil && !e.paused && w.p.Rand.IntN(2) == 0 {
		w.spares = append(w.spares, e.qp)
		err = e.qp.Modify(verbs.QPAttr{State: ib.Reset}, verbs.AttrState)
	} else {
		err = e.qp.Close()
	}
	if err != nil {
		w.p.Failf("connection %v: %v", e.link.id, err)
	}
	w.p.run.gone[w.p.ID] = e.hello
	if err := e.freeExtras(); err != nil {
		w.p.Failf("connection %v: %v", e.link.id, err)
	}
	for _, m := range []verbs.MR{e.ownMR, e.offerMR, e.recvMR, e.tokenMR} {
		if err := m.Close(); err != nil && !e.tampered {
			w.p.Failf("connection %v: %v", e.link.id, err)
		}
	}
	e.gone()
}

// gone notes that nothing acts on the end's memory any more.
func (e *end) gone() {
	if e.isOver {
		return
	}
	e.isOver = true
	e.p.run.observer.finish(e)
	e.link.gone(e)
}

// whole is what is written when all requests are carried out.
func (p *plan) whole() []byte {
	b := make([]byte, p.written)
	fill(b)
	for i := range p.ops {
		if o := &p.ops[i]; o.writes() {
			copy(b[o.at:], o.data)
		}
	}
	return b
}
