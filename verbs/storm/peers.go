package storm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/cm"
	"github.com/sluice-rdma/sluice/verbs/paced"
	"github.com/sluice-rdma/sluice/verbs/rdmacm"
)

// Peers is the program that comes with the package. Each two processes have connections,
// made by the one with the lower ID: over messages, or where the devices have them over
// the datagrams of the connection manager. Over a connection both ends carry out a plan,
// and hold what comes of it against what must come. It is made again until a plan was
// carried out whole after the last fault. Beside that the processes call the API in
// arbitrary ways, with objects that nothing depends on.
func Peers(p *Process) error {
	w, err := newPeer(p)
	if err != nil {
		return err
	}
	if p.ID == 0 && p.Incarnation == 0 && p.run.cfg.Seed%8 == 1 {
		if err := w.limits(); err != nil {
			p.Failf("%v", err)
		}
	}
	for idle := least; !w.finished(); {
		if w.step() {
			idle = least
			continue
		}
		if err := w.rest(idle); err != nil {
			return err
		}
		idle = min(idle+idle/2, most)
	}
	return w.close()
}

// How long a peer that finds nothing to do rests, at first and at most.
const (
	least = 2 * time.Microsecond
	most  = 2 * time.Millisecond
)

// weather is what the peers of one run have in common.
type weather struct {
	mtu        ib.MTU
	timeout    uint8
	minRNR     uint8
	depth      int  // of send queues
	receives   int  // of receive queues
	perPair    int  // connections of each two
	srq        bool // processes have a shared receive queue
	events     bool // they wait for completion events
	managed    bool // connections are made by the connection manager, where there is one
	oneCQ      bool
	batch      int // of polls
	rdAtomic   uint8
	abuse      int  // steps for one that calls the API in some arbitrary way; 0 for none
	dereg      int  // steps for one that takes registered memory away; 0 for none
	forbidden  int  // steps for one that asks for what must be refused; 0 for none
	unreliable int  // steps for one that sends over an unreliable connection; 0 for none
	datagrams  int  // steps for one that sends a datagram; 0 for none
	drains     int  // steps for one that drains a send queue; 0 for none
	extras     int  // steps for one that binds a window, or invalidates a key; 0 for none
	fills      int  // one step in so many fills a completion queue; 0 for none
	foreign    bool // memory is another program's
}

func drawWeather(seed uint64) weather {
	r := rand.New(rand.NewPCG(seed, 0xfa17))
	w := weather{
		mtu: []ib.MTU{256, 512, 1024}[r.IntN(3)], timeout: uint8(8 + r.IntN(3)), minRNR: uint8(1 + r.IntN(10)),
		depth: 1 << r.IntN(6), receives: 1 << r.IntN(6), perPair: 1 + r.IntN(2),
		srq: r.IntN(4) == 0, events: r.IntN(2) == 0, managed: r.IntN(2) == 0, oneCQ: r.IntN(2) == 0,
		batch: 1 + r.IntN(16), rdAtomic: uint8(1 + r.IntN(8)),
	}
	if r.IntN(2) == 0 {
		w.abuse = 20 + r.IntN(200)
	}
	if r.IntN(3) == 0 {
		w.forbidden = 50 + r.IntN(500)
	}
	if r.IntN(2) == 0 {
		w.datagrams = 20 + r.IntN(200)
	}
	if r.IntN(4) == 0 {
		w.dereg = 200 + r.IntN(2000)
	}
	if r := rand.New(rand.NewPCG(seed, 0x50d)); r.IntN(2) == 0 {
		w.drains = 50 + r.IntN(500)
	}
	if r := rand.New(rand.NewPCG(seed, 0x0c)); r.IntN(2) == 0 {
		w.unreliable = 5 + r.IntN(100)
	}
	if r := rand.New(rand.NewPCG(seed, 0xf111)); r.IntN(2) == 0 {
		w.fills = 50 + r.IntN(1000)
	}
	if r := rand.New(rand.NewPCG(seed, 0xb1d)); r.IntN(2) == 0 {
		w.extras = 3 + r.IntN(100)
		w.foreign = r.IntN(2) == 0
	} else {
		w.foreign = r.IntN(3) == 0
	}
	return w
}

// linkID names a connection between two processes; client < server.
type linkID struct{ client, server, k int }

// peer is one process.
type peer struct {
	p           *Process
	weather     weather
	dev         verbs.Device
	pd          verbs.PD
	channel     verbs.CompChannel
	send        verbs.CQ
	recv        verbs.CQ
	srq         *sharedReceives
	agent       *agent
	lookUps     map[uint32][]byte // what they said, by their IDs
	ends        map[linkID]*end
	byQPN       map[uint32]*end
	order       []linkID // of ends, so that a run does not depend on a map's order
	clients     map[linkID]*client
	calls       []linkID // clients, likewise
	scratch     scratch
	datagrams   datagrams
	unreliables map[int]*unreliable // by the other process
	wc          []verbs.WC
	urgent      int        // completions polled that are solicited, or failures
	spares      []verbs.QP // reset, to be used again
	fills       *rand.Rand // of completion queues that are filled
	spareMR     verbs.MR   // where results may go that nothing depends on
	foreignPD   verbs.PD
	foreignMR   verbs.MR
}

// client is what makes a connection, again and again.
type client struct {
	done    bool
	nonce   uint64
	retryAt units.Time
	asked   *end
	calm    bool // this attempt began when nothing went wrong any more
	tries   int
}

// Messages between peers.
type (
	connectMsg struct {
		id    linkID
		nonce uint64
		hello hello
	}
	acceptMsg struct {
		id    linkID
		nonce uint64
		hello hello
	}
	finishedMsg struct {
		id    linkID
		nonce uint64
	}
	brokenMsg struct {
		id    linkID
		nonce uint64
	}
)

// hello is what one end tells the other: its queue pair and its memory.
type hello struct {
	qpn, psn uint32
	addr     uint64
	rkey     uint32
	token    uint32 // the key of what a SEND with invalidate takes away
}

func (h *hello) put(nonce uint64, k int) []byte {
	b := make([]byte, 28)
	binary.BigEndian.PutUint64(b, nonce)
	binary.BigEndian.PutUint64(b[8:], h.addr)
	binary.BigEndian.PutUint32(b[16:], h.rkey)
	b[20] = byte(k)
	binary.BigEndian.PutUint32(b[24:], h.token)
	return b
}

func parseHello(b []byte) (h hello, nonce uint64, k int) {
	return hello{addr: binary.BigEndian.Uint64(b[8:]), rkey: binary.BigEndian.Uint32(b[16:]), token: binary.BigEndian.Uint32(b[24:])}, binary.BigEndian.Uint64(b), int(b[20])
}

// service is the one that peers listen on.
const service = 0x0000000001061c00

func newPeer(p *Process) (*peer, error) {
	w := &peer{
		p: p, weather: drawWeather(p.run.cfg.Seed), dev: p.Device(), ends: map[linkID]*end{}, byQPN: map[uint32]*end{},
		clients: map[linkID]*client{}, fills: newRand(p.run.cfg.Seed^0xf111, p.ID, p.Incarnation),
	}
	w.wc = make([]verbs.WC, w.weather.batch)
	w.allow()
	if err := w.allocate(); err != nil {
		return nil, err
	}
	if err := w.serve(); err != nil {
		return nil, err
	}
	for server := p.ID + 1; server < p.Processes; server++ {
		for k := range w.weather.perPair {
			id := linkID{p.ID, server, k}
			w.clients[id] = &client{}
			w.calls = append(w.calls, id)
		}
	}
	return w, nil
}

// allow takes out of the weather what the provider or the shim does not have.
func (w *peer) allow() {
	cfg := &w.p.run.cfg
	soft, shim := cfg.Provider == "soft", cfg.Shim != ""
	if !soft {
		w.weather.drains = 0 // the model has no SQD
	}
	if !soft || shim {
		w.weather.fills = 0 // they take datagrams
	}
	w.weather.foreign = w.weather.foreign && soft && !shim
	if shim {
		w.weather.datagrams = 0 // the shim has none
	}
}

// allocate makes what all connections share.
func (w *peer) allocate() (err error) {
	p := w.p
	if w.pd, err = w.dev.AllocPD(); err != nil {
		return err
	}
	if w.spareMR, err = w.pd.RegMR(make([]byte, 64), ib.AccessLocalWrite|ib.AccessMWBind); err != nil {
		return err
	}
	if w.foreignPD, err = w.dev.AllocPD(); err != nil {
		return err
	}
	all := ib.AccessLocalWrite | ib.AccessRemoteRead | ib.AccessRemoteWrite | ib.AccessRemoteAtomic
	if w.foreignMR, err = w.foreignPD.RegMR(make([]byte, 64), all); err != nil {
		return err
	}
	p.run.foreign[p.ID] = hello{addr: w.foreignMR.Addr(), rkey: w.foreignMR.RKey()}
	if w.channel, err = w.dev.CreateCompChannel(); err != nil {
		return err
	}
	// Room for all that may be under way, and the scratch queue pairs.
	links := w.weather.perPair * (p.Processes - 1)
	room := 4*links*(w.weather.depth+w.weather.receives) + 256
	attr := verbs.CQInitAttr{CQE: room, Channel: w.channel, Timestamps: p.Rand.IntN(2) == 0}
	if w.send, err = w.dev.CreateCQ(attr); err != nil {
		return err
	}
	if w.recv = w.send; !w.weather.oneCQ {
		if w.recv, err = w.dev.CreateCQ(attr); err != nil {
			return err
		}
	}
	if w.weather.srq {
		if err := w.shareReceives(links); err != nil {
			return err
		}
	}
	return nil
}

// serve makes what is there beside connections of pairs: unreliable ones, datagrams, and the
// connection manager.
func (w *peer) serve() (err error) {
	p := w.p
	if w.weather.unreliable > 0 && p.run.cfg.Provider == "soft" && p.run.cfg.Shim == "" {
		w.unreliables = map[int]*unreliable{}
		for i := range p.Processes {
			if i == p.ID {
				continue
			}
			if w.unreliables[i], err = w.newUnreliable(i); err != nil {
				return err
			}
		}
	}
	if w.weather.datagrams > 0 {
		if err := w.newDatagrams(); err != nil {
			return err
		}
	}
	if w.weather.managed {
		if w.agent, err = newAgent(p); err != nil {
			return err
		}
	}
	if w.agent != nil {
		w.lookUps = map[uint32][]byte{}
		for _, s := range []uint64{service, lookUpService} {
			if err := w.agent.core.Listen(s, backlogs); err != nil {
				return err
			}
		}
	}
	return nil
}

// finished reports whether all is done: this process' own connections, and those of the
// processes that call it.
func (w *peer) finished() bool {
	for _, c := range w.clients {
		if !c.done {
			return false
		}
	}
	for _, caller := range w.p.run.procs[:w.p.ID] {
		if !caller.over {
			return false
		}
	}
	return len(w.ends) == 0 && (w.agent == nil || w.agent.core.Connections() == 0)
}

// step does what there is to do, and reports whether there was anything.
func (w *peer) step() bool {
	did := false
	for {
		from, msg, ok := w.p.Receive()
		if !ok {
			break
		}
		did = true
		w.letter(from, msg)
	}
	for w.agent != nil {
		e, ok := w.agent.next()
		if !ok {
			break
		}
		did = true
		w.event(&e)
	}
	for _, id := range w.calls {
		did = w.call(id, w.clients[id]) || did
	}
	did = w.poll(w.send) || did
	if w.recv != w.send {
		did = w.poll(w.recv) || did
	}
	for _, id := range append([]linkID(nil), w.order...) {
		if e := w.ends[id]; e != nil {
			did = w.pump(e) || did
		}
	}
	if w.agent != nil && !w.p.Calm() && w.p.Rand.IntN(300) == 0 {
		w.lookUp()
	}
	if n := w.weather.unreliable; n > 0 && !w.p.Calm() && w.p.Rand.IntN(n) == 0 {
		w.converse((w.p.ID + 1 + w.p.Rand.IntN(w.p.Processes-1)) % w.p.Processes)
	}
	if n := w.weather.datagrams; n > 0 && !w.p.Calm() && w.p.Rand.IntN(n) == 0 {
		w.sendDatagram()
	}
	if n := w.weather.abuse; n > 0 && w.p.Rand.IntN(n) == 0 {
		w.abuse()
		w.grasp()
	}
	if w.srq != nil && w.p.Rand.IntN(200) == 0 {
		w.limitReceives()
	}
	if s, ok := w.p.guard.dev.(*paced.Shim); ok && w.p.Rand.IntN(50) == 0 {
		w.p.ward.rests(s, units.Time(w.p.Rand.IntN(100))*units.Microsecond)
	}
	if n := w.weather.fills; n > 0 && !w.p.Calm() && w.fills.IntN(n) == 0 {
		w.fill()
	}
	if w.p.Rand.IntN(8) > 0 {
		return did
	}
	if e, err := w.dev.AsyncEvent(context.Background(), 0); err == nil {
		did = true
		w.happened(&e)
	}
	return did
}

// happened handles an asynchronous event.
func (w *peer) happened(e *verbs.AsyncEvent) {
	if e.Type == ib.EventCQErr && e.CQ != nil && (e.CQ == w.send || e.CQ == w.recv) {
		w.p.Failf("a completion queue with room for all that may be under way has overrun")
	}
	if e.Type == ib.EventSQDrained && e.QP != nil {
		w.resume(w.byQPN[e.QP.Num()])
	}
}

// rest waits for something to do.
func (w *peer) rest(d time.Duration) error {
	if !w.weather.events {
		w.p.Sleep(d)
		return nil
	}
	solicited := w.p.Rand.IntN(4) == 0
	for _, c := range []verbs.CQ{w.send, w.recv} {
		if err := c.ReqNotify(solicited); err != nil {
			return err
		}
	}
	if w.poll(w.send) || w.recv != w.send && w.poll(w.recv) {
		return nil
	}
	_, err := w.channel.Wait(context.Background(), d)
	if errors.Is(err, verbs.ErrTimeout) {
		// What has come at this very time may have woken it as well.
		at := w.p.Now()
		_, err = w.channel.Wait(context.Background(), 0)
		if errors.Is(err, verbs.ErrTimeout) && w.p.run.observer != nil { // the NIC model interrupts later
			w.slept(at, solicited)
			return nil
		}
	}
	if err != nil && !errors.Is(err, verbs.ErrTimeout) {
		return err
	}
	return nil
}

// slept holds what has come by the end of a wait in which no event came, at that time, against rule
// 25. A poll that finds nothing takes time, so that of two queues one is looked at.
func (w *peer) slept(at units.Time, solicited bool) {
	first, second := w.send, w.recv
	if w.p.Rand.IntN(2) == 0 {
		first, second = second, first
	}
	w.urgent = 0
	if w.poll(first) && (!solicited || w.urgent > 0) && w.p.Now() == at { // the process may stand still meanwhile
		w.p.Failf("rule 25: completions have come, %d of them urgent, and the queue is armed, for urgent ones only: %v, and no event comes", w.urgent, solicited)
	}
	if second != first {
		w.poll(second)
	}
}

// call makes a client's connection.
func (w *peer) call(id linkID, c *client) bool {
	now := w.p.Now()
	if c.done || w.ends[id] != nil && w.ends[id] != c.asked || now < c.retryAt {
		return false
	}
	if c.asked != nil {
		// No answer: try again with another queue pair. The connection manager has its own
		// patience.
		if c.asked.connection != 0 {
			c.retryAt = now + 10*units.Millisecond
			return false
		}
		w.over(c.asked)
	}
	c.nonce, c.calm = w.p.Rand.Uint64(), w.p.Calm()
	c.tries++
	e, err := w.newEnd(id, c.nonce, 0, nil)
	if err != nil {
		w.p.Failf("connection %v: %v", id, err)
		return true
	}
	c.asked = e
	c.retryAt = now + 2*units.Millisecond<<min(c.tries, 6)
	if w.agent == nil {
		w.p.Send(id.server, connectMsg{id, c.nonce, e.hello})
		return true
	}
	r := cm.Request{
		Path: cm.Path{Local: w.p.Address(w.p.ID), Remote: w.p.Address(id.server)}, ServiceID: service,
		Endpoint: cm.Endpoint{
			QPN: e.hello.qpn, StartingPSN: units.PSN(e.hello.psn), ResponderResources: w.weather.rdAtomic, InitiatorDepth: w.weather.rdAtomic, RNRRetryCount: 7,
		},
		PathMTU: w.weather.mtu, RetryCount: 7, HopLimit: 64,
	}
	r.Private = make([]byte, roce.IPCMBytes, roce.REQPrivateBytes)
	ip := roce.IPCM{SrcPort: uint16(0xc000 | id.k), Src: r.Path.Local, Dst: r.Path.Remote}
	ip.Put(r.Private)
	r.Private = append(r.Private, e.hello.put(e.nonce, id.k)...)
	if e.connection, err = w.agent.core.Connect(now, r); err != nil {
		w.p.Failf("connection %v: %v", id, err)
	}
	w.agent.drain()
	return true
}

// parameters are those of the connections.
func (w *peer) parameters() (verbs.RCParams, rdmacm.Params) {
	p := verbs.DefaultRC()
	p.PathMTU, p.Timeout, p.MinRNRTimer = w.weather.mtu, w.weather.timeout, w.weather.minRNR
	p.MaxRdAtomic, p.MaxDestRdAtomic = w.weather.rdAtomic, w.weather.rdAtomic
	p.FlowLabel = w.p.Rand.Uint32N(3)
	if !w.p.Calm() && w.p.Rand.IntN(4) == 0 { // it gives up early
		p.RetryCnt, p.RNRRetry = uint8(w.p.Rand.IntN(8)), uint8(w.p.Rand.IntN(8))
	}
	m := rdmacm.DefaultParams()
	m.MinRNRTimer, m.Timeout = p.MinRNRTimer, p.Timeout
	return p, m
}

// letter handles a message of another peer.
func (w *peer) letter(from int, msg any) {
	switch m := msg.(type) {
	case connectMsg:
		if old := w.ends[m.id]; old != nil {
			if old.nonce == m.nonce {
				return
			}
			w.over(old)
		}
		e, err := w.newEnd(m.id, m.nonce, 1, &m.hello)
		if err == nil {
			err = w.connect(e, m.hello)
		}
		if err != nil {
			w.p.Failf("connection %v: %v", m.id, err)
			return
		}
		w.p.Send(from, acceptMsg{m.id, m.nonce, e.hello})
		e.start(m.hello)
	case acceptMsg:
		c, e := w.clients[m.id], w.ends[m.id]
		if e == nil || c.asked != e || e.nonce != m.nonce || e.broken {
			return // it was given up
		}
		if err := w.connect(e, m.hello); err != nil {
			w.p.Failf("connection %v: %v", m.id, err)
			return
		}
		c.asked = nil
		e.start(m.hello)
	case finishedMsg:
		if e := w.ends[m.id]; e != nil && e.nonce == m.nonce {
			e.otherFinished = true
		}
	case brokenMsg:
		if e := w.ends[m.id]; e != nil && e.nonce == m.nonce {
			e.excused = true
			w.breakOff(e)
		}
	}
}

func (w *peer) connect(e *end, to hello) error {
	p, _ := w.parameters()
	e.impatient = p.RNRRetry < 7
	other := e.link.id.client + e.link.id.server - w.p.ID
	return verbs.ConnectRC(e.qp, verbs.Endpoint{GID: w.p.Address(w.p.ID), QPN: e.hello.qpn, PSN: e.hello.psn},
		verbs.Endpoint{GID: w.p.Address(other), QPN: to.qpn, PSN: to.psn}, p)
}

// event handles an event of the connection manager.
func (w *peer) event(ev *cm.Event) {
	defer w.agent.drain()
	if w.lookedUp(ev) {
		return
	}
	var e *end
	for _, id := range w.order {
		if w.ends[id].connection == ev.ID {
			e = w.ends[id]
		}
	}
	switch ev.Type {
	case cm.EventRequest:
		w.requested(ev)
	case cm.EventReply:
		w.replied(ev, e)
	case cm.EventRejected, cm.EventUnreachable, cm.EventDisconnected:
		if e == nil {
			return
		}
		e.parted = true
		if e.finished && ev.Type == cm.EventDisconnected {
			return // the other end has finished, too, and its message is on its way
		}
		e.excused = true
		if e.started {
			w.breakOff(e)
		} else {
			w.over(e)
		}
	}
}

// requested answers a client's request for a connection.
func (w *peer) requested(ev *cm.Event) {
	core, now := w.agent.core, w.p.Now()
	if bytes.HasPrefix(ev.Private, forgedMark) {
		if w.p.Rand.IntN(2) == 0 { // else it takes too long
			_ = core.Reject(now, ev.ID, roce.RejConsumer, []byte{1}, []byte{2})
		}
		return
	}
	remote, nonce, k := parseHello(ev.Private[roce.IPCMBytes:])
	client := -1
	for i := range w.p.Processes {
		if w.p.Address(i) == ev.Parameters.Path.Remote {
			client = i
		}
	}
	id := linkID{client, w.p.ID, k}
	if client < 0 || client >= w.p.ID || k >= w.weather.perPair {
		w.p.Failf("a connection request of %v for connection %d, which nobody makes", ev.Parameters.Path.Remote, k)
		return
	}
	if old := w.ends[id]; old != nil {
		w.over(old)
	}
	e, err := w.newEnd(id, nonce, 1, nil)
	if err != nil {
		w.p.Failf("connection %v: %v", id, err)
		return
	}
	e.connection = ev.ID
	if err := e.agreed(ev, &w.weather); err != nil {
		w.p.Failf("connection %v: %v", id, err)
	}
	mine := cm.Endpoint{
		QPN: e.hello.qpn, StartingPSN: units.PSN(e.hello.psn), ResponderResources: w.weather.rdAtomic, InitiatorDepth: w.weather.rdAtomic, RNRRetryCount: 7,
		Private: e.hello.put(nonce, k),
	}
	if err = w.agent.hold(ev.ID); err == nil {
		var par cm.Parameters
		if par, err = core.Offer(ev.ID, mine); err == nil {
			_, params := w.parameters()
			err = rdmacm.Connect(e.qp, 0, par, params)
		}
	}
	if err == nil {
		_, err = core.Accept(now, ev.ID, mine)
	}
	if err != nil {
		w.over(e)
		return
	}
	e.start(remote)
}

// replied goes on with a connection that the server has accepted; e is nil if its end is gone.
func (w *peer) replied(ev *cm.Event, e *end) {
	core, now := w.agent.core, w.p.Now()
	if e == nil || e.broken {
		_ = core.Reject(now, ev.ID, roce.RejConsumer, nil, nil)
		return
	}
	remote, nonce, _ := parseHello(ev.Private)
	e.link.answered(ev.Parameters.RemoteQPN)
	if err := e.agreed(ev, &w.weather); err != nil {
		w.p.Failf("connection %v: %v", e.link.id, err)
	}
	if nonce != e.nonce {
		w.p.Failf("connection %v: the reply is another request's", e.link.id)
		return
	}
	_, params := w.parameters()
	if err := rdmacm.Connect(e.qp, 0, ev.Parameters, params); err != nil {
		w.p.Failf("connection %v: %v", e.link.id, err)
		return
	}
	if err := core.Ready(now, ev.ID, nil); err != nil {
		w.over(e)
		return
	}
	w.clients[e.link.id].asked = nil
	e.start(remote)
}

// poll takes completions, and reports whether there were any.
func (w *peer) poll(cq verbs.CQ) bool {
	wc := w.wc
	n, err := cq.Poll(wc)
	if err != nil {
		w.p.Failf("poll: %v", err)
		return false
	}
	for i := range wc[:n] {
		if wc[i].Status != ib.WCSuccess || wc[i].Flags&verbs.WCSolicited != 0 {
			w.urgent++
		}
		if e := w.byQPN[wc[i].QPN]; e != nil {
			e.completion(w, &wc[i])
		} else if w.datagrams.qp != nil && w.datagrams.qp.Num() == wc[i].QPN {
			w.datagramCompleted(&wc[i])
		} else {
			for other, u := range w.unreliables {
				if u.qp.Num() == wc[i].QPN {
					w.unreliableCompleted(u, other, &wc[i])
				}
			}
		}
	}
	return n > 0
}

// close frees all.
func (w *peer) close() error {
	w.scratch.free()
	for _, q := range w.spares {
		if err := q.Close(); err != nil {
			return err
		}
	}
	for _, free := range []func() error{w.spareMR.Close, w.foreignMR.Close, w.foreignPD.Close} {
		if err := free(); err != nil {
			return err
		}
	}
	for i := range w.p.Processes {
		if u := w.unreliables[i]; u != nil {
			if err := u.free(); err != nil {
				return err
			}
		}
	}
	if w.datagrams.qp != nil {
		if err := w.datagrams.free(); err != nil {
			return err
		}
	}
	if w.srq != nil {
		if err := w.srq.free(); err != nil {
			return err
		}
	}
	if w.recv != w.send {
		if err := w.recv.Close(); err != nil {
			return err
		}
	}
	if err := w.send.Close(); err != nil {
		return err
	}
	if err := w.channel.Close(); err != nil {
		return err
	}
	if err := w.pd.Close(); err != nil {
		return fmt.Errorf("the protection domain: %w", err)
	}
	return nil
}
