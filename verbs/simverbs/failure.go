package simverbs

import (
	"maps"
	"slices"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// SetPort implements verbs.Failer. What queue pairs send is for the link at the port to lose.
func (d *Device) SetPort(up bool) {
	if d.gone || d.down != up {
		return
	}
	d.down = !up
	e := verbs.AsyncEvent{Type: ib.EventPortErr, Port: 1}
	if up {
		e.Type = ib.EventPortActive
	}
	d.raise(e)
}

// Die implements verbs.Failer.
func (d *Device) Die() {
	if d.gone {
		return
	}
	d.gone = true
	for _, num := range slices.Sorted(maps.Keys(d.qps)) {
		if d.nic.State(num) != ib.Reset {
			d.nic.Fail(d.nic.Now(), num)
		}
	}
	d.raise(verbs.AsyncEvent{Type: ib.EventDeviceFatal, Port: 1})
}

// FailQP implements verbs.Failer.
func (d *Device) FailQP(num uint32) bool {
	q := d.qps[num]
	if q == nil {
		return false
	}
	if s := d.nic.State(q.num); s != ib.Reset && s != ib.Err {
		d.nic.Fail(d.nic.Now(), q.num)
		d.raise(verbs.AsyncEvent{Type: ib.EventQPFatal, QP: q})
	}
	return true
}

// ChangeGIDs raises the event that addresses have changed, as a driver does when one is added or taken away. The
// device has the same as before.
func (d *Device) ChangeGIDs() {
	if !d.gone {
		d.raise(verbs.AsyncEvent{Type: ib.EventGIDChange, Port: 1})
	}
}

// FailCall implements verbs.CallFailer.
func (d *Device) FailCall(f verbs.CallFailure) error {
	if err := f.Validate(); err != nil {
		return err
	}
	if d.qps[f.QP] == nil {
		return verbs.Errorf("fail_call", d.name, verbs.ErrInvalid, "there is no queue pair %#x", f.QP)
	}
	d.chosen.Add(f)
	return nil
}

// breaker implements chosen.Owner.
type breaker struct{ *Device }

func (b breaker) Break(qpn uint32)       { b.nic.Fail(b.nic.Now(), qpn) }
func (b breaker) Broken(qpn uint32) bool { return b.qps[qpn] != nil && b.nic.State(qpn) == ib.Err }

// QPMade returns the queue pair that was made as the given one, 1 for the first; nil if there
// is none.
func (d *Device) QPMade(made int) *QP {
	for _, q := range d.qps {
		if int(q.made) == made {
			return q
		}
	}
	return nil
}

// OnFailure calls completion with each completion other than a flush that is polled and failed, and event with
// each asynchronous event that is raised. What completion is given is valid during the call.
func (d *Device) OnFailure(completion func(wc *verbs.WC), event func(e verbs.AsyncEvent)) {
	d.onFailed, d.onRaised = completion, event
}

// usable returns the error of a call that makes something, if the device is closed or gone.
func (d *Device) usable(op string) error {
	switch {
	case d.closed:
		return verbs.Errorf(op, d.name, verbs.ErrClosed, "")
	case d.gone:
		return verbs.Errorf(op, d.name, verbs.ErrNoDevice, "")
	}
	return nil
}
