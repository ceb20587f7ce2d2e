package storm

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net/netip"

	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/cm"
)

// agent is the connection manager of a process's device, in simulated time.
type agent struct {
	p      *Process
	mads   verbs.MADDevice
	core   *manager
	events []cm.Event
	ended  map[uint32]cm.EventType // connections whose end was reported
	src    des.Source
	id     des.NodeID
	wakeAt units.Time
	gone   bool
	wait   backlog       // at service
	sent   []cm.Outgoing // since the last message came
}

// portMTU is the ports' own.
const portMTU = 1024

// randomBytes makes a Rand a source of bytes.
type randomBytes struct{ *rand.Rand }

func (r randomBytes) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return len(b), nil
}

// firstRead keeps the first bytes that were read.
type firstRead struct {
	io.Reader
	first []byte
}

func (r *firstRead) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	if r.first == nil {
		r.first = bytes.Clone(b[:n])
	}
	return n, err
}

// newAgent returns the agent of a process, nil if its device has no management
// datagrams.
func newAgent(p *Process) (*agent, error) {
	mads, ok := p.dev.(verbs.MADDevice)
	if !ok {
		return nil, nil
	}
	c := cm.DefaultConfig()
	random := &firstRead{Reader: randomBytes{p.Rand}}
	c.CAGUID, c.Rand, c.MTU = p.dev.Attr().NodeGUID, random, portMTU
	// A 16 ms answer, a millisecond on the way: storms are short.
	c.LocalTimeout, c.RemoteTimeout, c.PacketLifetime, c.AckDelay, c.ServiceTimeout = 12, 12, 8, 8, 14
	core, err := cm.New(c)
	if err != nil {
		return nil, err
	}
	e := p.run.engine
	a := &agent{p: p, mads: mads, core: newManager(p, core, c, random.first), ended: map[uint32]cm.EventType{}, src: e.NewSource(), wakeAt: units.Never}
	a.id = e.AddHandler(a)
	mads.HandleMAD(a.receive)
	p.onCrash = append(p.onCrash, a.stop)
	return a, nil
}

func (a *agent) stop() {
	a.gone = true
	a.mads.HandleMAD(nil)
}

func (a *agent) receive(local netip.Addr, src netip.AddrPort, srcQPN uint32, mad []byte) {
	if a.gone || srcQPN != roce.GSIQP {
		return
	}
	a.wait.remove(func(id uint32) bool { return a.core.State(id) != cm.REQReceived })
	var req roce.REQ
	path := cm.Path{Local: local, Remote: src.Addr()}
	m, err := roce.ParseMAD(mad)
	asks := err == nil && m.Attribute() == roce.AttrREQ && req.Decode(m) == nil
	had := len(a.events)
	a.sent = a.sent[:0]
	a.core.Receive(a.p.Now(), path, mad)
	a.drain()
	err = a.wait.receive(asks && bytes.HasPrefix(req.Private, floodMark), a.events[had:])
	if err == nil && asks && bytes.HasPrefix(req.Private, impossible) {
		err = refusedBy(path, refusal(path, portMTU, &req), a.sent)
	}
	if err != nil {
		a.p.Failf("%v", err)
	}
}

// hold has a request wait no more: the program takes it.
func (a *agent) hold(id uint32) error {
	a.wait.remove(func(w uint32) bool { return w == id })
	return a.core.Hold(a.p.Now(), id)
}

// Handle implements des.Handler: a timer of the connection manager is due.
func (a *agent) Handle(ev des.Event) {
	if a.gone || ev.At != a.wakeAt {
		return
	}
	a.wakeAt = units.Never
	a.core.Expire(a.p.Now())
	a.drain()
}

// drain sends what the connection manager has to send, and keeps its events for the
// program.
func (a *agent) drain() {
	var o cm.Outgoing
	for a.core.NextMAD(&o) {
		a.sent = append(a.sent, o)
		// What can't be sent is as good as lost.
		_ = a.mads.SendMAD(verbs.AddressVector{GID: o.Path.Remote, HopLimit: 64}, roce.GSIQP, o.MAD[:])
	}
	var e cm.Event
	for a.core.NextEvent(&e) {
		if e.Type.Ends() {
			if before, twice := a.ended[e.ID]; twice {
				a.p.Failf("connection %#x ends twice: %v, then %v", e.ID, before, e.Type)
			}
			a.ended[e.ID] = e.Type
		}
		if e.Type == cm.EventDisconnected && bytes.HasPrefix(e.Private, forgedMark) {
			a.p.Failf("rule 6: connection %#x is ended by a DREQ that names another queue pair", e.ID)
		}
		if e.Type == cm.EventRequest && (bytes.HasPrefix(e.Private, impossible) || e.ServiceID != service) {
			a.p.Failf("rule 21: connection %#x is made of a request that must make none, to service %#x", e.ID, e.ServiceID)
		}
		a.events = append(a.events, e)
	}
	a.core.twin.quiet()
	if at := a.core.Deadline(); at < a.wakeAt {
		a.wakeAt = at
		a.p.run.engine.Schedule(max(at, a.p.Now()), &a.src, a.id, 0, 0)
	}
}

// next returns the next event.
func (a *agent) next() (e cm.Event, ok bool) {
	if len(a.events) == 0 {
		return e, false
	}
	e, a.events = a.events[0], a.events[1:]
	return e, true
}
