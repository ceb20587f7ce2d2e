package enginetest

import (
	"sort"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// Link is one queue that drains at Rate, shared by flows that always have data.
// The way from each sender to the queue takes a quarter of the base round trip.
// Each packet is acknowledged. A packet's time on the link must be below three
// quarters of the base round trip.
type Link struct {
	Rate units.Rate
	Env  cc.Env
	// Extra is added to every round trip behind the queue, as a congested
	// reverse path would.
	Extra units.Time
	// Blind switches report nothing.
	Blind bool

	Flows []*Flow

	now     units.Time
	free    units.Time // when the link has sent what it started
	txBytes units.Bytes
	pipe    fifo // sent and not yet started on the link
	acks    fifo // started, acknowledgement on its way
	stack   telemetry.Stack
}

// Flow is one sender on a Link.
type Flow struct {
	Engine cc.Engine
	Stop   units.Time // zero: never
	// Acked is the payload bytes acknowledged so far.
	Acked units.Bytes
	// LastRTT is of the latest acknowledgement.
	LastRTT units.Time

	sent    units.Bytes
	next    units.Time // earliest next send that pacing allows
	scaler  cc.UpdateScaler
	control cc.Control
}

type packet struct {
	flow   *Flow
	at     units.Time // arrival at the queue, or of the acknowledgement
	sentAt units.Time
	delay  units.Time // in the queue
	hop    telemetry.Hop
}

// fifo holds packets in the order of their times.
type fifo struct {
	q    []packet
	head int
}

func (f *fifo) empty() bool   { return f.head == len(f.q) }
func (f *fifo) peek() *packet { return &f.q[f.head] }
func (f *fifo) push(p packet) { f.q = append(f.q, p) }
func (f *fifo) drop() {
	f.head++
	if f.head > 1024 && 2*f.head > len(f.q) {
		f.q = f.q[:copy(f.q, f.q[f.head:])]
		f.head = 0
	}
}

// Add puts a flow on the link that starts at start.
func (l *Link) Add(e cc.Engine, start units.Time) *Flow {
	f := &Flow{Engine: e, next: start, control: e.Control()}
	l.Flows = append(l.Flows, f)
	return f
}

// resume puts a flow on the link that starts at once, with bytes already sent
// and acknowledged elsewhere, and takes the link to the instant now.
func (l *Link) resume(e cc.Engine, now units.Time, bytes units.Bytes) *Flow {
	l.now = now
	f := l.Add(e, now)
	f.sent, f.Acked = bytes, bytes
	return f
}

// Queue returns the bytes that wait at the queue, the packet under
// transmission not counted.
func (l *Link) Queue() units.Bytes {
	waiting := l.pipe.q[l.pipe.head:]
	n := sort.Search(len(waiting), func(i int) bool { return waiting[i].at > l.now })
	return units.Bytes(n) * l.Env.MTU
}

// Delay returns how long a packet that arrived now would wait.
func (l *Link) Delay() units.Time {
	return l.Rate.Serialize(l.Queue()) + max(0, l.free-l.now)
}

// Sent returns the bytes that the link has carried so far.
func (l *Link) Sent() units.Bytes { return l.txBytes }

// Run advances the link to the instant until.
func (l *Link) Run(until units.Time) {
	for {
		// Earliest of: a flow may send, the link may start, an
		// acknowledgement arrives; ties in reverse order.
		at, what := units.Never, 0
		var sender *Flow
		for _, f := range l.Flows {
			if t := max(f.next, l.now); t < at && f.maySend(l.Env.MTU, t) {
				at, what, sender = t, 1, f
			}
		}
		if !l.pipe.empty() {
			if t := max(l.free, l.pipe.peek().at); t <= at {
				at, what = t, 2
			}
		}
		if !l.acks.empty() && l.acks.peek().at <= at {
			at, what = l.acks.peek().at, 3
		}
		if at > until || what == 0 {
			l.now = until
			return
		}
		l.now = at
		switch what {
		case 1:
			l.send(sender)
		case 2:
			l.transmit()
		case 3:
			l.acknowledge()
		}
	}
}

func (f *Flow) maySend(mtu units.Bytes, at units.Time) bool {
	if f.Stop > 0 && at >= f.Stop {
		return false
	}
	outstanding := f.sent - f.Acked
	return outstanding == 0 || outstanding+mtu <= f.control.Window
}

func (l *Link) send(f *Flow) {
	f.sent += l.Env.MTU
	f.next = l.now + min(f.control.Rate, l.Env.LineRate).Serialize(l.Env.MTU)
	l.pipe.push(packet{flow: f, at: l.now + l.Env.BaseRTT/4, sentAt: l.now})
}

func (l *Link) transmit() {
	p := *l.pipe.peek()
	l.pipe.drop()
	p.delay = l.now - p.at
	p.hop = telemetry.Hop{TxBytes: l.txBytes, QLen: l.Queue(), Time: l.now, Rate: l.Rate}
	l.txBytes += l.Env.MTU
	service := l.Rate.Serialize(l.Env.MTU)
	l.free = l.now + service
	p.at = p.sentAt + p.delay + l.Env.BaseRTT + l.Extra
	l.acks.push(p)
}

func (l *Link) acknowledge() {
	p := *l.acks.peek()
	l.acks.drop()
	f := p.flow
	f.Acked += l.Env.MTU
	f.LastRTT = l.now - p.sentAt
	l.stack.N = 0
	l.stack.Push(p.hop)
	a := cc.Ack{
		Now: l.now, SentAt: p.sentAt,
		RTT: f.LastRTT, NetRTT: f.LastRTT - l.Env.LineRate.Serialize(l.Env.MTU),
		Bytes: l.Env.MTU, Packets: 1,
		Acked: f.Acked, Sent: f.sent,
		Scale: f.scaler.Scale(l.now, l.Env.BaseRTT),
	}
	if !l.Blind {
		a.MaxHopDelay, a.HasMaxDelay = p.delay, true
		a.Path = &l.stack
	}
	f.control = f.Engine.OnAck(&a)
	// A faster rate takes hold at once.
	f.next = min(f.next, l.now+min(f.control.Rate, l.Env.LineRate).Serialize(l.Env.MTU))
}

// Now returns the instant that the link has reached.
func (l *Link) Now() units.Time { return l.now }
