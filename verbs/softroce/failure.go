package softroce

import (
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// SetPort implements verbs.Failer: while the port is down no packet passes. It comes up when its
// interface is up, too.
func (d *device) SetPort(up bool) {
	d.changing.Lock()
	defer d.changing.Unlock()
	d.mu.Lock()
	was := d.port
	d.mu.Unlock()
	next := was
	next.down = !up
	next.active = next.up && up && !next.gone
	d.become(&was, &next)
}

// FailQP implements verbs.Failer.
func (d *device) FailQP(num uint32) bool {
	d.mu.Lock()
	defer d.flush()
	return !d.closed && d.core.FailQP(d.now(), num)
}

// FailCall implements verbs.CallFailer.
func (d *device) FailCall(f verbs.CallFailure) error {
	if err := f.Validate(); err != nil {
		return err
	}
	d.mu.Lock()
	known := d.core.QP(f.QP) != nil
	d.mu.Unlock()
	if !known {
		return verbs.Errorf("fail_call", d.name, verbs.ErrInvalid, "there is no queue pair %#x", f.QP)
	}
	d.chosen.Add(f)
	return nil
}

// breaker implements chosen.Owner. Its callers hold the set's lock, which none takes within the device's.
type breaker struct{ *device }

func (b breaker) Break(qpn uint32) {
	b.mu.Lock()
	if q := b.core.QP(qpn); q != nil {
		_ = q.Modify(b.now(), verbs.QPAttr{State: ib.Err}, verbs.AttrState) // every state may become ERR
	}
	b.flush()
}

func (b breaker) Broken(qpn uint32) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.core.QP(qpn)
	return q != nil && q.State() == ib.Err
}

// uses reports whether a queue pair completes here.
func (c *completionQueue) uses(qpn uint32) bool {
	c.dev.mu.Lock()
	defer c.dev.mu.Unlock()
	q := c.dev.core.QP(qpn)
	return q != nil && q.CompletesOn(c.core)
}

// Die implements verbs.Failer.
func (d *device) Die() {
	d.changing.Lock()
	defer d.changing.Unlock()
	d.mu.Lock()
	was := d.port
	d.died = true
	d.mu.Unlock()
	if was.gone {
		return
	}
	next := was
	next.gone, next.active = true, false
	d.end(&was, &next)
}

// FailLink implements verbs.LinkFailer.
func (d *device) FailLink(f verbs.LinkFailure) error {
	s := d.opt.Shape
	if f.Rate != 0 {
		s.Rate = f.Rate
	}
	if f.Delay != 0 {
		s.Delay = f.Delay
	}
	if f.Loss != 0 {
		s.Loss = f.Loss
	}
	if err := ofShape.Check(&s); err != nil {
		return verbs.Errorf("fail_link", d.name, verbs.ErrInvalid, "%v", err)
	}
	d.mu.Lock()
	defer d.flush()
	d.loses.sent, d.loses.received = f.Silent, f.Silent && !f.OneWay
	if d.shaper == nil {
		d.shaper = d.newShaper(s)
	} else {
		d.shaper.Shape = s
	}
	return nil
}

// loses says which packets a link that fails loses. The device's lock guards it.
type loses struct {
	sent, received       bool
	lostSent, lostArrive uint64 // packets
}

// losesSent takes note of a batch that is about to leave, and reports whether the port or its link
// loses it. The caller holds the lock.
func (d *device) losesSent() bool {
	if !d.port.down && !d.loses.sent {
		return false
	}
	for i := range d.batch.messages {
		d.loses.lostSent += uint64(d.batch.messages[i].segments)
	}
	return true
}

// losesReceived is losesSent for so many packets that have come.
func (d *device) losesReceived(packets int) bool {
	if !d.port.down && !d.loses.received {
		return false
	}
	d.loses.lostArrive += uint64(packets)
	return true
}
