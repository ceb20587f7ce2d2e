package overlay

import (
	"fmt"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/match"
)

// QP is a reliable connection of a Device, for a layer's Conn to embed. Besides
// verbs.QP it implements all interfaces of the queue pair below.
type QP[Q Conn, V any] struct {
	below
	Sends *CQ[Q, V]
	dev   *Device[Q, V]
	conn  Q

	sigAll bool
	state
}

// state is a QP's state. The layer's lock guards it.
type state struct {
	// Queue holds the posts since RTS, if the layer matches.
	Queue *match.Queue
	// What Modify was given last.
	AV      verbs.AddressVector
	Port    int
	DestQPN uint32
	MTU     ib.MTU

	live       bool // it has begun
	failed     bool // what is posted comes back flushed
	registered bool
	id         uint32     // as registered
	connection Connection // as registered
}

// common returns the part that all QPs share.
func (s *state) common() *state { return s }

// Failed reports whether a completion has failed, so that posted requests complete as
// flushed. The lock is held.
func (s *state) Failed() bool { return s.failed }

type pd[Q Conn, V any] struct {
	verbs.PD
	dev *Device[Q, V]
}

// AllocPD implements verbs.Device.
func (d *Device[Q, V]) AllocPD() (verbs.PD, error) {
	p, err := d.Device.AllocPD()
	if err != nil {
		return nil, err
	}
	return &pd[Q, V]{p, d}, nil
}

// Unwrap returns the protection domain of the device below.
func (p *pd[Q, V]) Unwrap() verbs.PD { return p.PD }

// AllocMW implements verbs.WindowPD.
func (p *pd[Q, V]) AllocMW(t ib.MWType) (verbs.MW, error) { return verbs.AllocMW(p.PD, t) }

// CreateQP implements verbs.PD.
func (p *pd[Q, V]) CreateQP(a verbs.QPInitAttr) (verbs.QP, error) {
	d := p.dev
	sends, err := d.below(&a.SendCQ)
	if err != nil {
		return nil, err
	}
	if _, err := d.below(&a.RecvCQ); err != nil {
		return nil, err
	}
	qp, err := p.PD.CreateQP(a)
	if err != nil {
		return nil, err
	}
	if a.Type != ib.RC || sends == nil {
		return qp, nil // no acknowledgements
	}
	q := &QP[Q, V]{
		below: belowOf(qp, d.Device), Sends: sends, dev: d, sigAll: a.SigAll,
		state: state{Queue: match.New(a.Cap.MaxSendWR), Port: 1, MTU: 1024},
	}
	q.conn = d.layer.Cover(q, a)
	d.layer.Mu.Lock()
	defer d.layer.Mu.Unlock()
	d.inner[qp] = q.conn
	sends.insert(q.num, &q.state, q.conn)
	return q.conn, nil
}

// below puts the CQ of the device below in the place of one here, which it returns.
func (d *Device[Q, V]) below(c *verbs.CQ) (*CQ[Q, V], error) {
	if *c == nil {
		return nil, nil
	}
	own, ok := (*c).(*CQ[Q, V])
	if !ok || own.dev != d {
		return nil, verbs.Errorf("create_qp", d.Name(), verbs.ErrInvalid, "SendCQ and RecvCQ must be made by this device")
	}
	*c = own.CQ
	return own, nil
}

// PostSend implements verbs.QP.
func (q *QP[Q, V]) PostSend(wrs []verbs.SendWR) (int, error) {
	l := &q.dev.layer
	l.Mu.Lock()
	matches := q.live && !q.failed && l.Matches
	if matches { // before they can leave
		for i := range wrs {
			w := &wrs[i]
			q.Queue.Post(w.WRID, w.Opcode, uint32(w.Length()), q.sigAll || w.Flags&verbs.SendSignaled != 0)
		}
	}
	l.Mu.Unlock()
	n, err := q.QP.PostSend(wrs)
	if n < len(wrs) && matches {
		l.Mu.Lock()
		q.Queue.Unpost(len(wrs) - n)
		l.Mu.Unlock()
	}
	return n, err
}

// Modify implements verbs.QP. On the transition at which the layer begins, it registers
// the connection with the program; on the transition to RESET it removes it.
func (q *QP[Q, V]) Modify(a verbs.QPAttr, mask verbs.QPAttrMask) error {
	l := &q.dev.layer
	state := mask&verbs.AttrState != 0
	l.Mu.Lock()
	q.note(&a, mask)
	begins := state && q.conn.Begins(&a, mask)
	if begins {
		if err := q.begin(); err != nil {
			l.Mu.Unlock()
			return verbs.Errorf("modify_qp", q.object(), err, "%s", l.Refusal)
		}
	}
	if state && a.State == ib.RTS && mask&verbs.AttrSQPSN != 0 {
		q.Queue.Reset(units.MakePSN(a.SQPSN), q.MTU)
	}
	l.Mu.Unlock()
	err := q.QP.Modify(a, mask)
	if !state || err == nil && a.State != ib.Reset && a.State != ib.Err || err != nil && !begins {
		return err
	}
	l.Mu.Lock()
	defer l.Mu.Unlock()
	if err == nil && a.State == ib.Err {
		q.failed = true
		return nil
	}
	if e := q.end(); err == nil {
		err = e
	}
	return err
}

// note keeps the attributes that say what packets look like.
func (s *state) note(a *verbs.QPAttr, mask verbs.QPAttrMask) {
	if mask&verbs.AttrAV != 0 {
		s.AV = a.AV
	}
	if mask&verbs.AttrDestQPN != 0 {
		s.DestQPN = a.DestQPN
	}
	if mask&verbs.AttrPort != 0 {
		s.Port = a.Port
	}
	if mask&verbs.AttrPathMTU != 0 && a.PathMTU > 0 {
		s.MTU = a.PathMTU
	}
}

// begin begins the connection, again if need be. The lock is held.
func (q *QP[Q, V]) begin() error {
	if err := q.end(); err != nil {
		return err
	}
	q.failed = false
	q.Queue.Reset(0, q.MTU)
	err := q.conn.Start()
	q.live = err == nil
	return err
}

// Register gives the connection an id, for Start, and calls register to add it to
// the program.
func (q *QP[Q, V]) Register(register func(id uint32, c Connection) error) error {
	f := &q.dev.flows
	id, ok := f.add(q.conn)
	if !ok {
		return fmt.Errorf("the device has %d connections, and no more can be told apart", 1<<f.bits)
	}
	c := Connection{Peer: q.AV.GID.Unmap().WithZone(""), PeerQPN: q.DestQPN, LocalQPN: q.num}
	if err := register(id, c); err != nil {
		f.remove(id)
		return err
	}
	q.id, q.connection, q.registered = id, c, true
	return nil
}

// end ends what has begun. The lock is held.
func (q *QP[Q, V]) end() error {
	if !q.live {
		return nil
	}
	q.live = false
	q.conn.End()
	if !q.registered {
		return nil
	}
	q.registered = false
	q.dev.strange += q.Queue.Strange()
	q.Queue.Reset(0, q.MTU)
	q.dev.flows.remove(q.id)
	return q.dev.layer.Program.Unregister(q.id, q.connection)
}

// Close implements verbs.QP.
func (q *QP[Q, V]) Close() error {
	if err := q.QP.Close(); err != nil {
		return err
	}
	q.dev.layer.Mu.Lock()
	defer q.dev.layer.Mu.Unlock()
	delete(q.dev.inner, q.QP)
	q.Sends.drop(q.num, &q.state)
	return q.end()
}
