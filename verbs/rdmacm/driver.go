package rdmacm

import (
	"crypto/rand"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/cm"
)

// Timeouts of the messages: a second to answer and 33 ms for a packet's life, where
// Linux takes 4.3 s and 1.07 s. Within either both sides repeat what was lost; a
// Linux application that needs longer says so by an MRA.
const (
	answerTimeout  = 18
	packetLifetime = 13
)

// driver runs the connection manager of one device in real time. There is one for
// each device that has listeners or connections.
type driver struct {
	dev  verbs.Device
	mads verbs.MADDevice

	mu        sync.Mutex
	core      *cm.Manager
	timer     *time.Timer
	users     int // listeners and calls of Dial under way
	listeners map[uint64]*Listener
	conns     map[uint32]*Conn
	retired   chan struct{} // closed when the device no longer has this driver
	lost      bool
}

var drivers struct {
	sync.Mutex
	by map[verbs.Device]*driver
}

// Supported reports whether Listen and Dial are for a device: whether it, or the
// device that it wraps, can send management datagrams or has a Manager.
func Supported(dev verbs.Device) bool {
	_, ok := verbs.Bottom(dev).(verbs.MADDevice)
	return ok || managerOf(verbs.Bottom(dev)) != nil
}

// driverOf returns the device's driver, which the caller has to release.
func driverOf(op string, dev verbs.Device) (*driver, error) {
	dev = verbs.Bottom(dev)
	mads, ok := dev.(verbs.MADDevice)
	if !ok {
		return nil, verbs.Errorf(op, dev.Name(), verbs.ErrNotSupported, "it can't send management datagrams; exchange queue pair numbers by other means and use verbs.ConnectRC")
	}
	drivers.Lock()
	defer drivers.Unlock()
	if d := drivers.by[dev]; d != nil {
		d.mu.Lock()
		d.users++
		d.mu.Unlock()
		return d, nil
	}
	attr, err := dev.Port(port)
	if err != nil {
		return nil, err
	}
	cfg := cm.DefaultConfig()
	cfg.CAGUID, cfg.Rand, cfg.MTU = dev.Attr().NodeGUID, rand.Reader, attr.ActiveMTU
	cfg.LocalTimeout, cfg.RemoteTimeout, cfg.PacketLifetime = answerTimeout, answerTimeout, packetLifetime
	core, err := cm.New(cfg)
	if err != nil {
		return nil, verbs.Errorf(op, dev.Name(), err, "")
	}
	d := &driver{dev: dev, mads: mads, core: core, users: 1, listeners: map[uint64]*Listener{}, conns: map[uint32]*Conn{}, retired: make(chan struct{})}
	d.timer = time.AfterFunc(time.Hour, d.expire)
	d.timer.Stop()
	mads.HandleMAD(d.receive)
	if drivers.by == nil {
		drivers.by = map[verbs.Device]*driver{}
	}
	drivers.by[dev] = d
	if l, ok := dev.(verbs.LostDevice); ok && l.Gone() != nil {
		go d.outlive(l.Gone())
	}
	return d, nil
}

// outlive ends all that waits when the device is gone.
func (d *driver) outlive(gone <-chan struct{}) {
	select {
	case <-gone:
	case <-d.retired:
		return
	}
	err := d.lostError("connection")
	d.mu.Lock()
	d.lost = true
	conns := slices.Collect(maps.Values(d.conns))
	for _, l := range d.listeners {
		l.lose(d.lostError("accept"))
	}
	d.mu.Unlock()
	for _, c := range conns {
		c.end(err)()
	}
}

func (d *driver) lostError(op string) error {
	return verbs.Errorf(op, d.dev.Name(), verbs.ErrNoDevice, "its network interface is gone")
}

// isLost reports whether the device is gone, with the lock held.
func (d *driver) isLost() bool {
	l, ok := d.dev.(verbs.LostDevice)
	if ok && !d.lost {
		select {
		case <-l.Gone():
			d.lost = true
		default:
		}
	}
	return d.lost
}

// release removes a user. After the last one, the driver releases the device once
// no connection is left, not even in TimeWait.
func (d *driver) release() {
	d.mu.Lock()
	d.users--
	d.mu.Unlock()
	d.retire()
}

func (d *driver) retire() {
	drivers.Lock()
	defer drivers.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.users > 0 || d.core.Connections() > 0 || drivers.by[d.dev] != d {
		return
	}
	delete(drivers.by, d.dev)
	d.timer.Stop()
	d.mads.HandleMAD(nil)
	close(d.retired)
}

// now is the present, for a caller who holds the lock.
func (d *driver) now() units.Time { return d.core.Now(units.Long(d.dev.Now())) }

// receive takes a datagram from the device.
func (d *driver) receive(local netip.Addr, src netip.AddrPort, srcQPN uint32, mad []byte) {
	if srcQPN != roce.GSIQP {
		return // not from the other side's connection manager but from some program
	}
	d.mu.Lock()
	d.core.Receive(d.now(), Path{Local: local, Remote: src.Addr()}, mad)
	d.unlock()
}

// expire runs when the timer is due.
func (d *driver) expire() {
	d.mu.Lock()
	d.core.Expire(d.now())
	d.unlock()
}

// unlock carries out what the connection manager has put out, part of it without
// the lock.
func (d *driver) unlock() {
	var out []cm.Outgoing
	var o cm.Outgoing
	for d.core.NextMAD(&o) {
		out = append(out, o)
	}
	var late []func()
	var e cm.Event
	idle := false
	for d.core.NextEvent(&e) {
		if f := d.event(e); f != nil {
			late = append(late, f)
		}
		idle = idle || e.Type == cm.EventTimeWaitExit && d.core.Connections() == 0 && d.users == 0
	}
	now := d.now() // which may set back what Deadline returns
	if at := d.core.Deadline(); at != units.Never {
		d.timer.Reset(max(0, at-now).Duration() + time.Microsecond)
	} else {
		d.timer.Stop()
	}
	d.mu.Unlock()
	for i := range out {
		d.send(&out[i])
	}
	for _, f := range late {
		f()
	}
	if idle {
		d.retire()
	}
}

// send sends a datagram. What can't be sent is as good as lost: it comes again.
func (d *driver) send(o *cm.Outgoing) {
	i, _, err := gidIndex(d.dev, func(a netip.Addr) bool { return a == o.Path.Local })
	if err == nil {
		_ = d.mads.SendMAD(verbs.AddressVector{GID: o.Path.Remote, SGIDIndex: i, HopLimit: hopLimit}, roce.GSIQP, o.MAD[:])
	}
}

const hopLimit = 64

// event delivers an event, with the lock held. It returns what to do without the
// lock.
func (d *driver) event(e cm.Event) func() {
	if e.Type == cm.EventRequest {
		l := d.listeners[e.ServiceID]
		if l == nil || !l.offer(d, e) {
			_ = d.core.Reject(d.now(), e.ID, roce.RejInvalidServiceID, nil, nil)
			// The REJ is in the manager's queue: go round once more.
			return func() { d.mu.Lock(); d.unlock() }
		}
		return nil
	}
	c := d.conns[e.ID]
	if c == nil {
		if e.Type == cm.EventUnreachable {
			for _, l := range d.listeners {
				l.dropped(e.ID)
			}
		}
		return nil
	}
	switch e.Type {
	case cm.EventReply, cm.EventEstablished:
		c.progress <- e // it has room for each
	case cm.EventRejected:
		return c.end(&RejectError{Reason: e.Reason, Info: e.Info, Private: e.Private})
	case cm.EventUnreachable:
		return c.end(verbs.Errorf("connect", c.remote.String(), verbs.ErrTimeout, "no answer to the connection request"))
	case cm.EventDisconnected:
		return c.end(ErrDisconnected)
	case cm.EventTimeWaitExit:
		delete(d.conns, e.ID)
	}
	return nil
}

// toError moves a queue pair to the error state, so that what is posted comes
// back.
func toError(qp verbs.QP) {
	_ = qp.Modify(verbs.QPAttr{State: ib.Err}, verbs.AttrState)
}
