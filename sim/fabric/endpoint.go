package fabric

import (
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
)

// Endpoint is the device at a host's port: a NIC. It is called with the lane that runs
// its host. In a divided network it touches its own host's state and that lane only.
type Endpoint interface {
	// Arrive is called when the last bit of a packet has arrived. The endpoint
	// owns h from then on, and frees it or sends it on. f is valid, and the
	// endpoint's, during the call.
	Arrive(x *Lane, now units.Time, h Handle, f *Frame)
	// Pause is called when the switch has changed which priorities the host may
	// send: those whose bit is set in paused it may not. What is on the wire is
	// not affected. Transmit does not enforce it.
	Pause(x *Lane, now units.Time, paused uint8)
}

// Waker is an Endpoint whose own events are alarms of the network, so that it works
// in a divided network, too. There, an event that an endpoint schedules with the
// engine is not an event of its host: it ends a window.
type Waker interface {
	Endpoint
	// Wake is called at the time of an alarm (Network.SetAlarm). An alarm that was
	// set more than once may go off at the later times, too. At one instant arrivals
	// and pauses go first, then the events of handlers that were registered with the
	// engine before the endpoint was attached, then alarms by their number.
	Wake(x *Lane, now units.Time, alarm uint32)
}

// hostAlarms is the number of alarms a host has.
const hostAlarms = 4

// alarmed is a host's alarms in an undivided network, where they are the engine's.
type alarmed struct {
	waker Waker
	lane  *Lane
	id    des.NodeID
	src   uint32 // 0 without a waker
}

// hostAlarm is a host's alarms in a divided network: a line of the cache.
type hostAlarm struct {
	due   [hostAlarms]units.Time
	waker Waker // nil without
	_     [16]byte
}

// Attach puts an endpoint at a host's port. Packets for a host without one are
// counted as delivered and freed.
func (n *Network) Attach(host int, ep Endpoint) {
	n.ends[host] = ep
	waker, _ := ep.(Waker)
	if d := n.division; d != nil {
		d.alarms[host].waker = waker
		return
	}
	a := &n.alarmed[host]
	a.waker, a.lane = waker, &n.lanes[0]
	if waker != nil && a.src == 0 {
		a.id, a.src = n.eng.AddHandler(a), n.eng.NewSources(1)
	}
}

// Handle implements des.Handler.
func (a *alarmed) Handle(ev des.Event) { a.waker.Wake(a.lane, ev.At, ev.Kind) }

// SetAlarm wakes the Waker at a host at a time, the host's now or later, by an alarm from
// 0 to 3. The earliest of the times set for an alarm counts until the alarm has fired.
func (n *Network) SetAlarm(host int, alarm uint32, at units.Time) {
	d := n.division
	if d == nil {
		a := &n.alarmed[host]
		n.eng.Post(at, a.src, alarm, a.id, alarm, 0)
		return
	}
	due := &d.alarms[host].due[alarm]
	*due = min(*due, at)
	if !d.within {
		node, x := n.inlets[n.hosts[host].port].node, &n.lanes[0]
		d.next[node] = min(d.next[node], at)
		x.dueAt(node, at)
	}
}

// HostEvents are events of a host's own under one of its alarms: they happen in the order
// in which they were scheduled for an instant, one each time that the alarm goes off.
type HostEvents struct {
	net   *Network
	host  int
	alarm uint32
	own   des.Own
}

// HostEvents returns those of a host under an alarm, which nothing else may set.
func (n *Network) HostEvents(host int, alarm uint32) HostEvents {
	return HostEvents{net: n, host: host, alarm: alarm}
}

// Schedule adds an event, at the host's now or later.
func (e *HostEvents) Schedule(at units.Time, kind uint32, arg uint64) {
	e.own.Schedule(at, kind, arg)
	e.net.SetAlarm(e.host, e.alarm, at)
}

// Take returns an event of now, when the alarm goes off, if there is one.
func (e *HostEvents) Take(now units.Time) (ev des.Event, ok bool) {
	if ok = e.own.Next() == now; ok {
		ev = e.own.Take()
	}
	if next := e.own.Next(); e.net.division != nil && next != units.Never {
		e.net.SetAlarm(e.host, e.alarm, next)
	}
	return ev, ok
}

// OnSettle has f called, on the engine's goroutine, when a lane has something to
// settle between hosts (Lane.Settle).
func (n *Network) OnSettle(f func()) { n.settle = f }

// Concurrent reports whether other lanes may be at work: within a window of a divided
// network.
func (x *Lane) Concurrent() bool { return x.divided && x.n.division.within }

// Settle calls OnSettle's function: at once, or in a window of a divided network after
// the window.
func (x *Lane) Settle() {
	if x.n.settle != nil && !x.Concurrent() {
		x.n.settle()
	}
}
