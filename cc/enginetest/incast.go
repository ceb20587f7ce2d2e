package enginetest

import (
	"container/heap"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/units"
)

// Incast is one receiving host and one sending host for each flow, for schemes
// whose receivers take part. The switch's port to the receiver drains at Rate, the
// most urgent class first. Packets beyond Buffer are lost, and not sent again. A
// packet takes a quarter of the base round trip to the port, and a quarter from its
// first bit there to the receiver. Its acknowledgement, and grants, take half of
// the base round trip back.
type Incast struct {
	Rate     units.Rate
	Env      cc.Env // of all hosts
	Buffer   units.Bytes
	Receiver cc.Receiver
	Flows    []*GrantedFlow

	// MaxQueue is the port's longest queue, in payload bytes. Lost counts packets,
	// Overtaken the packets that arrived before an earlier one of their flow, and
	// Grants the receiver's grants.
	MaxQueue                units.Bytes
	Lost, Overtaken, Grants int
	// LoseGrant, if set, reports whether a grant gets lost.
	LoseGrant func(n int) bool
	// OnGrant, if set, sees each grant as it is given.
	OnGrant func(now units.Time, flow int, g cc.Grant)

	events incastEvents
	seq    uint64
	now    units.Time
	queues [9][]incastPacket // by class
	queued units.Bytes
	busy   bool
	alarm  units.Time
}

// GrantedFlow is one sender of an Incast.
type GrantedFlow struct {
	Engine cc.Granted
	Start  units.Time
	Size   units.Bytes // 0: endless
	// Unknown hides the size from the receiver.
	Unknown bool

	Sent, Arrived, Acked units.Bytes
	Done                 units.Time // when the last byte arrived; 0 before

	control cc.Control
	next    units.Time // when its port is free
	waking  bool
}

type incastPacket struct {
	flow         int
	bytes, begin units.Bytes
	sentAt       units.Time
	class        uint8
}

type incastEvent struct {
	at   units.Time
	seq  uint64
	kind int
	p    incastPacket
	g    cc.Grant
}

const (
	startFlow = iota
	wakeSender
	reachPort
	portFree
	reachReceiver
	reachSender
	grantArrives
	receiverTimer
)

type incastEvents []incastEvent

func (e incastEvents) Len() int { return len(e) }
func (e incastEvents) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e incastEvents) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *incastEvents) Push(x any)   { *e = append(*e, x.(incastEvent)) }
func (e *incastEvents) Pop() any {
	x := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return x
}

func (l *Incast) schedule(e incastEvent) {
	l.seq++
	e.seq = l.seq
	heap.Push(&l.events, e)
}

// Run advances to the instant until. The first call starts the flows.
func (l *Incast) Run(until units.Time) {
	if l.seq == 0 {
		l.alarm = units.Never
		for i, f := range l.Flows {
			f.control = f.Engine.Control()
			l.schedule(incastEvent{at: f.Start, kind: startFlow, p: incastPacket{flow: i}})
		}
	}
	for len(l.events) > 0 && l.events[0].at <= until {
		e := heap.Pop(&l.events).(incastEvent)
		l.now = e.at
		l.handle(&e)
		l.drain()
	}
	l.now = until
}

func (l *Incast) handle(e *incastEvent) {
	f := l.Flows[e.p.flow]
	switch e.kind {
	case startFlow:
		l.send(e.p.flow, f)
	case wakeSender:
		f.waking = false
		l.send(e.p.flow, f)
	case reachPort:
		if l.Buffer > 0 && l.queued+e.p.bytes > l.Buffer {
			l.Lost++
			return
		}
		l.queues[e.p.class] = append(l.queues[e.p.class], e.p)
		l.queued += e.p.bytes
		l.MaxQueue = max(l.MaxQueue, l.queued)
		if !l.busy {
			l.transmit()
		}
	case portFree:
		l.busy = false
		l.transmit()
	case reachReceiver:
		l.receive(e, f)
	case reachSender:
		f.Acked += e.p.bytes
		f.control = f.Engine.OnAck(&cc.Ack{
			Now: l.now, SentAt: e.p.sentAt, RTT: l.now - e.p.sentAt, NetRTT: l.now - e.p.sentAt - l.Env.LineRate.Serialize(e.p.bytes),
			Bytes: e.p.bytes, Packets: 1, Acked: f.Acked, Sent: f.Sent, Scale: 1,
		})
		l.send(e.p.flow, f)
	case grantArrives:
		f.control = f.Engine.OnGrant(l.now, f.Sent, e.g)
		l.send(e.p.flow, f)
	case receiverTimer:
		if e.at == l.alarm {
			l.alarm = units.Never
			l.Receiver.OnTimer(l.now)
		}
	}
}

// drain sends what the receiver has to say, and sets its timer.
func (l *Incast) drain() {
	for {
		flow, g, ok := l.Receiver.Next()
		if !ok {
			break
		}
		l.Grants++
		if l.OnGrant != nil {
			l.OnGrant(l.now, int(flow), g)
		}
		if l.LoseGrant == nil || !l.LoseGrant(l.Grants) {
			l.schedule(incastEvent{at: l.now + l.Env.BaseRTT/2, kind: grantArrives, p: incastPacket{flow: int(flow)}, g: g})
		}
	}
	if at := l.Receiver.Deadline(); at < l.alarm {
		l.alarm = max(at, l.now)
		l.schedule(incastEvent{at: l.alarm, kind: receiverTimer})
	}
}

func (l *Incast) send(flow int, f *GrantedFlow) {
	for {
		n := l.Env.MTU
		if f.Size > 0 {
			n = min(n, f.Size-f.Sent)
		}
		out := f.Sent - f.Acked
		if n == 0 || f.control.Window == 0 || out > 0 && out+n > f.control.Window {
			return
		}
		if f.next > l.now {
			if !f.waking {
				f.waking = true
				l.schedule(incastEvent{at: f.next, kind: wakeSender, p: incastPacket{flow: flow}})
			}
			return
		}
		p := incastPacket{flow: flow, bytes: n, begin: f.Sent, sentAt: l.now, class: f.control.Class}
		f.Sent += n
		f.next = l.now + min(f.control.Rate, l.Env.LineRate).Serialize(n)
		l.schedule(incastEvent{at: l.now + l.Env.BaseRTT/4, kind: reachPort, p: p})
	}
}

func (l *Incast) transmit() {
	for class := len(l.queues) - 1; class >= 0; class-- {
		q := l.queues[class]
		if len(q) == 0 {
			continue
		}
		p := q[0]
		l.queues[class] = q[1:]
		l.queued -= p.bytes
		l.busy = true
		l.schedule(incastEvent{at: l.now + l.Rate.Serialize(p.bytes), kind: portFree})
		l.schedule(incastEvent{at: l.now + l.Env.BaseRTT/4, kind: reachReceiver, p: p})
		return
	}
}

// receive takes a packet in: one that has overtaken another is placed all the same.
func (l *Incast) receive(e *incastEvent, f *GrantedFlow) {
	size := f.Size
	if f.Unknown {
		size = 0
	}
	if f.Arrived == 0 {
		l.Receiver.OnStart(l.now, uint32(e.p.flow), size)
	}
	if e.p.begin != f.Arrived {
		l.Overtaken++
	}
	f.Arrived += e.p.bytes
	l.Receiver.OnData(&cc.Data{
		Now: l.now, Flow: uint32(e.p.flow), Size: size, Bytes: e.p.bytes, Arrived: f.Arrived, SentAt: e.p.sentAt,
	})
	l.schedule(incastEvent{at: l.now + l.Env.BaseRTT/2, kind: reachSender, p: e.p})
	if f.Size > 0 && f.Arrived == f.Size {
		f.Done = l.now
		l.drain()
		l.Receiver.OnEnd(l.now, uint32(e.p.flow))
	}
}
