package reduced

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// Config holds for all NICs of a Fleet.
type Config struct {
	// MTU is the payload of a full packet: a path MTU of InfiniBand, or for comparison
	// with other simulators anything from 64 to 65535.
	MTU units.Bytes
	// AckEvery is the most packets that one acknowledgement covers, at least 1. The
	// last packet of a message is always acknowledged.
	AckEvery int
	// Priority is the priority of data packets whose engine chooses none.
	Priority uint8
	// Classes says that engines choose priorities (cc.Control.Class).
	Classes bool
	// Receiver, if not nil, makes what decides at a host what is sent to it, with
	// the line rate of its port. Then all flows' engines are cc.Granted.
	Receiver func(host int, line units.Rate) (cc.Receiver, error)
	// Timeout and RetryCount are as in rc.SendConfig.
	Timeout, RetryCount uint8
	// Transport configures the flows' recovery from losses.
	Transport nicmodel.TransportConfig
	// MaxRdAtomic is the most requests of READs that a flow has under way, from 1 to 255; 0 where
	// there are no READs.
	MaxRdAtomic int
	// SendDepth bounds the messages that a flow has posted, at least 1.
	SendDepth int
	// Start is the time after a flow's start at which the NIC knows of it, at least
	// 0.
	Start units.Time
	// Fetch, if not nil, returns how long an idle NIC takes from its choice of a packet
	// until the packet is ready for the wire, by the payload in bytes. The result is at
	// least 0, and depends on the payload alone.
	Fetch func(payload int) units.Time
	// TxPackets is the number of packets a NIC chooses before the wire has taken them; a
	// flow that joins the queue waits for them. 0 means only the one on the wire.
	TxPackets int
	// Wire is the time from a packet's choice to its first bit on the wire, where round
	// trips are to begin then, at least 0. It is a part of fabric.Config.HostSend.
	Wire units.Time
	// Completion is from the arrival of the last acknowledgement to the host's
	// knowledge of it.
	Completion units.Time
}

func (c *Config) validate(net *fabric.Network) error {
	switch {
	case c.MTU < 64 || c.MTU > 65535:
		return fmt.Errorf("reduced: MTU is %d: set 64 to 65535", c.MTU)
	case c.AckEvery < 1:
		return fmt.Errorf("reduced: AckEvery is %d: set 1 or more", c.AckEvery)
	case int(c.Priority) >= net.Priorities():
		return fmt.Errorf("reduced: Priority is %d: set 0 to %d", c.Priority, net.Priorities()-1)
	case c.MaxRdAtomic < 0 || c.MaxRdAtomic > 255:
		return fmt.Errorf("reduced: MaxRdAtomic is %d: set 1 to 255, or 0 without READs", c.MaxRdAtomic)
	case c.SendDepth < 1:
		return fmt.Errorf("reduced: SendDepth is %d: set 1 or more", c.SendDepth)
	case c.Completion < 0 || c.Wire < 0 || c.Start < 0 || c.TxPackets < 0:
		return fmt.Errorf("reduced: Completion is %v, Wire %v, Start %v and TxPackets %d: set 0 or more", c.Completion, c.Wire, c.Start, c.TxPackets)
	case net.Topology().Hosts() > 1<<24:
		return fmt.Errorf("reduced: there are %d hosts, and 2^24 at most", net.Topology().Hosts())
	}
	return nil
}

// Fleet is the NICs of all hosts of a network. It belongs to the goroutine of its
// engine.
type Fleet struct {
	engine *des.Engine
	net    *fabric.Network
	cfg    Config
	linger units.Time // see nic.closing
	nics   []nic
	lanes  []lane
	ended  []ending // scratch of settleAll

	messages messages
	onDone   func(*Done)
	onAck    func(lane int, id uint64, a *cc.Ack)
}

// lane holds the state of the NICs that run on a lane of the network.
type lane struct {
	*fabric.Lane
	fleet   *Fleet
	stats   Stats
	ended   []ending
	learned []Message

	// Scratch of the packet being handled.
	header rc.Header
	desc   rc.Descriptor
	eff    rc.Effects
	ack    cc.Ack
	data   cc.Data
	_      [64]byte // two workers share no cache line
}

// ending is a flow whose end is not yet reported to its receiver and the user.
type ending struct {
	Done
	src, dst int32
	receiver uint32 // of READs it is the responder, a sender
	read     bool
}

// A packet's Notes have what a NIC knows of it and the fabric does not. They have the
// time of its first bit on the wire, or of that of the packet it answers. For an
// acknowledgement they also have the largest hop delay of the forward path, and these
// flags of the packets that it answers; for a grant the limit, for a READ's request the
// offset in the message. Note is the receiver or
// sender that the packet is for: its slot and generation.
const (
	metCE uint8 = 1 << iota
	metEIN
	hasDelay
	metCircuit // the newest of them

	metBits = 8 // the flags' in Notes[1]
)

// Stats counts what the NICs of a fleet did.
type Stats struct {
	TxPackets, RxPackets uint64 // acknowledgements and grants included
	Grants               uint64 // given
	Stale                uint64 // packets that arrived for a flow that had ended
	Payload              units.Bytes
}

// New puts a NIC at every host of a network, divided or not.
func New(e *des.Engine, net *fabric.Network, cfg Config) (*Fleet, error) {
	if err := cfg.validate(net); err != nil {
		return nil, err
	}
	f := &Fleet{engine: e, net: net, cfg: cfg, linger: net.Lookahead(), nics: make([]nic, net.Topology().Hosts())}
	f.lanes = make([]lane, net.Lanes())
	for i := range f.lanes {
		f.lanes[i].Lane, f.lanes[i].fleet = net.Lane(i), f
	}
	net.OnSettle(f.settleAll)
	if cfg.Receiver == nil { // which has a timer for when a flow has ended
		f.linger = net.BetweenHosts()
		if d := net.Division(); d != nil {
			d.Alternate()
		}
	}
	f.register()
	for host := range f.nics {
		n := &f.nics[host]
		*n = nic{fleet: f, host: int32(host), line: net.LineRate(host), wireAt: units.Never, timerAt: units.Never, startAt: units.Never, recvAt: units.Never}
		if cfg.Classes {
			n.classes = new(classTurns)
		}
		if cfg.Receiver != nil {
			var err error
			if n.recv, err = cfg.Receiver(host, n.line); err != nil {
				return nil, err
			}
		}
		net.Attach(host, n)
	}
	return f, nil
}

// Stats returns the counters of all NICs together.
func (f *Fleet) Stats() Stats {
	var s Stats
	for i := range f.lanes {
		x := &f.lanes[i].stats
		s.TxPackets += x.TxPackets
		s.RxPackets += x.RxPackets
		s.Grants += x.Grants
		s.Stale += x.Stale
		s.Payload += x.Payload
	}
	return s
}

// Cuts returns the number of times that senders' engines lowered a rate or a window.
func (f *Fleet) Cuts() uint64 {
	n := uint64(0)
	for i := range f.nics {
		n += f.nics[i].cuts
	}
	return n
}

// OnDone calls fn when a flow has ended, or in a divided network after the window, in
// the same order. The Done is valid during the call. fn may start flows.
func (f *Fleet) OnDone(fn func(*Done)) { f.onDone = fn }

// OnAck calls fn with each acknowledgement that an engine is given, before the
// engine: for measurement. a is valid during the call. In a divided network calls
// come from all workers, each with its lane and the flows of some hosts, and those of
// different hosts in no order of time.
func (f *Fleet) OnAck(fn func(lane int, id uint64, a *cc.Ack)) { f.onAck = fn }

// Flow is a transfer to write from a host to another's memory, or to read.
type Flow struct {
	ID       uint64 // the caller's
	Src, Dst int    // hosts: the data go from Src to Dst
	// Read has Dst read the data by READs, and the engine at work there. Not with Notify,
	// nor with Config.Receiver.
	Read bool
	// Size is the bytes of the flow; 0 is without end, until Stop. One that starts no
	// earlier than that ends at once.
	Size units.Bytes
	// Message is the bytes of a Write or a READ, above 0 and at most 2^31; the last of a
	// flow may have fewer.
	Message units.Bytes
	Stop    units.Time
	// FlowHash is the entropy of its path.
	FlowHash   uint32
	Congestion nicmodel.Congestion
	// Class is one more than the priority of its data, where the engine chooses none; 0
	// is Config.Priority.
	Class uint8
	// Kept makes it a connection: it has no Size and no Stop, sends what Post posts, in
	// messages of up to Message, and stays until Close. Notify says that the receiver is
	// to learn of each message, whose last packet then carries immediate data.
	Kept, Notify bool
}

// Done says how a flow ended.
type Done struct {
	ID        uint64
	At        units.Time // when the host knows of it, later than the engine's Now by Config.Completion
	Status    ib.WCStatus
	Delivered nicmodel.Delivered
	Counters  *rc.Counters // of the sender
	CNPs      uint64       // congestion notification packets that it was sent
}

// Ref names a flow that has not ended.
type Ref struct {
	src, dst         int32 // of READs the requester's host, and the responder's
	sender, receiver uint32
	read             bool
}

// postAhead is the least amount that a flow keeps posted; four messages if that is more.
const postAhead = 256 * units.KiB

// check says what is wrong with a flow.
func (f *Fleet) check(flow *Flow) error {
	if flow.Src == flow.Dst || uint(flow.Src) >= uint(len(f.nics)) || uint(flow.Dst) >= uint(len(f.nics)) {
		return fmt.Errorf("reduced: a flow from host %d to host %d of %d: name two different ones", flow.Src, flow.Dst, len(f.nics))
	}
	if !f.net.Joined(flow.Src, flow.Dst) {
		return fmt.Errorf("reduced: a flow from host %d to host %d, which are of planes that share no link: name two of one plane", flow.Src, flow.Dst)
	}
	if flow.Message <= 0 || flow.Message > units.GiB*2 || flow.Size < 0 {
		return fmt.Errorf("reduced: a flow of %v in messages of %v: set 0 or more, in messages above 0 and up to 2GiB", flow.Size, flow.Message)
	}
	if _, granted := flow.Congestion.Engine.(cc.Granted); granted != (f.cfg.Receiver != nil) {
		return fmt.Errorf("reduced: flow %d: receivers that grant and engines that wait for grants need each other: set both Config.Receiver and Congestion.Engine to the scheme's", flow.ID)
	}
	if int(flow.Class) > f.net.Priorities() {
		return fmt.Errorf("reduced: a flow with a Class of %d: set 0 to %d", flow.Class, f.net.Priorities())
	}
	if flow.Kept && (flow.Size > 0 || f.messages.on == nil) {
		return fmt.Errorf("reduced: flow %d is Kept, of %v: set no Size, and call OnMessage before", flow.ID, flow.Size)
	}
	if flow.Read && (flow.Notify || f.cfg.Receiver != nil || f.cfg.MaxRdAtomic == 0) {
		return fmt.Errorf("reduced: flow %d of READs: set Config.MaxRdAtomic, and neither Notify nor Config.Receiver", flow.ID)
	}
	if p := flow.Congestion.AckPriority; int(p) >= f.net.Priorities() {
		return fmt.Errorf("reduced: a flow with an AckPriority of %d: set 0 to %d", p, f.net.Priorities()-1)
	}
	return nil
}

// depth is the number of messages a flow keeps posted.
func (f *Fleet) depth(flow *Flow) int {
	if flow.Kept {
		return f.cfg.SendDepth
	}
	depth := min(max(4, int((postAhead+flow.Message-1)/flow.Message)), f.cfg.SendDepth)
	if flow.Size > 0 {
		depth = min(depth, int((flow.Size+flow.Message-1)/flow.Message))
	}
	return depth
}

// transports makes the two ends of the flow of that number.
func (f *Fleet) transports(number uint32, depth int, recv *rc.RecvQueue) (tx, rx *rc.QP, err error) {
	ends := [...]rc.Config{{MTU: f.cfg.MTU, SendDepth: depth}, {MTU: f.cfg.MTU, SendDepth: 1, Access: ib.AccessRemoteWrite, Recv: recv}}
	send := rc.SendConfig{Timeout: f.cfg.Timeout, RetryCount: f.cfg.RetryCount, AckReqEvery: f.cfg.AckEvery}
	f.cfg.Transport.SetSend(&send, number)
	for i := range ends {
		f.cfg.Transport.Set(&ends[i])
	}
	if tx, err = rc.New(ends[0]); err != nil {
		return nil, nil, err
	}
	if err := tx.ReadyToSend(send); err != nil {
		return nil, nil, err
	}
	rx, err = rc.New(ends[1])
	return tx, rx, err
}

// Start starts a flow at the engine's Now.
func (f *Fleet) Start(flow *Flow) (Ref, error) { return f.StartAt(f.engine.Now(), flow) }

// StartAt starts a flow at a time, the engine's Now or later. It takes the flow's
// memory at once.
func (f *Fleet) StartAt(at units.Time, flow *Flow) (Ref, error) {
	now := f.engine.Now()
	if at < now {
		return Ref{}, fmt.Errorf("reduced: a flow starts at %v, before now, %v", at, now)
	}
	if err := f.check(flow); err != nil {
		return Ref{}, err
	}
	s, ref, err := f.connect(now, flow)
	if err != nil {
		return Ref{}, err
	}
	src := &f.nics[ref.src]
	s.paceFrom, s.next = at+f.cfg.Start, at+f.cfg.Start
	if f.cfg.Fetch != nil {
		first := flow.Message
		if flow.Size > 0 {
			first = min(first, flow.Size)
		}
		s.fetch = f.cfg.Fetch(s.payload(first, f.cfg.MTU))
	}
	if flow.Congestion.Engine != nil {
		s.steering = &cc.Driver{}
		s.steering.Start(flow.Congestion.Engine, src.line, f.cfg.MTU, flow.Congestion.BaseRTT)
		s.priority = f.priority(s.steering.Control(), s.own)
	}
	if at > now || flow.Size == 0 && !flow.Kept && flow.Stop <= at { // which ends as it begins, but not before this returns
		src.later(start{at: at, sender: ref.sender})
	} else {
		src.begin(&f.lanes[0], now, slotOf(ref.sender), s)
		src.turn(&f.lanes[0], now)
	}
	return ref, nil
}

// payload is that of the first packet of a message of that size.
func (s *sender) payload(size, mtu units.Bytes) int {
	if s.read != nil {
		return 0
	}
	return int(min(size, mtu))
}

// newEnd makes a sender at a host for a flow to another one.
func (f *Fleet) newEnd(now units.Time, flow *Flow, host, dst int) (*sender, uint32) {
	n := &f.nics[host]
	s, ref := n.newSender(now)
	*s = sender{
		gen: s.gen, id: flow.ID, dst: int32(dst), hash: flow.FlowHash, telemetry: flow.Congestion.Telemetry, message: flow.Message, own: f.cfg.Priority,
	}
	if flow.Class > 0 {
		s.own = flow.Class - 1
	}
	if s.priority = s.own; s.own != f.cfg.Priority {
		n.mix()
	}
	if flow.Congestion.ECT {
		s.packetFlags = fabric.ECT
	}
	return s, ref
}

// connect makes the two ends of a flow, and returns the one that posts.
func (f *Fleet) connect(now units.Time, flow *Flow) (*sender, Ref, error) {
	depth := f.depth(flow)
	if flow.Read {
		tx, rx, err := f.endsOfRead(uint32(flow.ID), depth, flow.Congestion.Engine != nil)
		if err != nil {
			return nil, Ref{}, err
		}
		responder, to := f.newEnd(now, flow, flow.Src, flow.Dst)
		s, from := f.newEnd(now, flow, flow.Dst, flow.Src)
		responder.qp, responder.answers, responder.peer, responder.ackPriority = rx, true, from, flow.Congestion.AckPriority
		if f.cfg.Fetch != nil {
			responder.fetch = f.cfg.Fetch(int(min(flow.Message, f.cfg.MTU)))
		}
		s.qp, s.peer, s.read = tx, to, &reading{ReadTimes: nicmodel.NewReadTimes(f.cfg.MaxRdAtomic), cnpInterval: flow.Congestion.CNPInterval}
		s.size, s.stop, s.depth, s.kept = flow.Size, flow.Stop, int32(depth), flow.Kept
		return s, Ref{src: int32(flow.Dst), dst: int32(flow.Src), sender: from, receiver: to, read: true}, nil
	}
	var recv *rc.RecvQueue
	if flow.Notify {
		var err error
		if recv, err = rc.NewRecvQueue(depth); err != nil {
			return nil, Ref{}, err
		}
		for range depth {
			_, _ = recv.Post(rc.Recv{})
		}
	}
	tx, rx, err := f.transports(uint32(flow.ID), depth, recv)
	if err != nil {
		return nil, Ref{}, err
	}
	s, from := f.newEnd(now, flow, flow.Src, flow.Dst)
	r, to := f.nics[flow.Dst].newReceiver(now)
	*r = receiver{
		qp: rx, recv: recv, id: flow.ID, gen: r.gen, peer: from, src: int32(flow.Src), hash: flow.FlowHash, size: flow.Size,
		telemetry: flow.Congestion.Telemetry, ackPriority: flow.Congestion.AckPriority, cnpInterval: flow.Congestion.CNPInterval,
	}
	s.qp, s.peer = tx, to
	s.size, s.stop, s.depth, s.kept, s.notify = flow.Size, flow.Stop, int32(depth), flow.Kept, flow.Notify
	return s, Ref{src: int32(flow.Src), dst: int32(flow.Dst), sender: from, receiver: to}, nil
}

// Delivered returns what has arrived of a flow that has not ended.
func (f *Fleet) Delivered(r Ref) nicmodel.Delivered {
	if r.read {
		if s := f.nics[r.src].sender(r.sender); s != nil {
			return s.read.delivered
		}
		return nicmodel.Delivered{}
	}
	if x := f.nics[r.dst].receiver(r.receiver); x != nil {
		return x.delivered
	}
	return nicmodel.Delivered{}
}

// Steer applies the present Control of a flow's engine, without an event of the
// engine. It is for callers that steer it from outside. Steer ignores a flow that has
// ended.
func (f *Fleet) Steer(r Ref) {
	n := &f.nics[r.src]
	s := n.sender(r.sender)
	if s == nil || s.steering == nil {
		return
	}
	now, slot := f.engine.Now(), slotOf(r.sender)
	n.steer(now, slot, s, s.steering.Engine().Control())
	n.offer(now, slot, s)
	n.turn(&f.lanes[0], now)
}

// Counters returns the sender's counters of a flow that has not ended, or nil.
func (f *Fleet) Counters(r Ref) *rc.Counters {
	if s := f.nics[r.src].sender(r.sender); s != nil {
		return s.qp.Counters()
	}
	return nil
}

// settleAll reports ended flows to receivers and the user, those of a window in the
// order of an undivided network.
func (f *Fleet) settleAll() {
	all := f.ended[:0]
	for i := range f.lanes {
		x := &f.lanes[i]
		if len(x.learned) > 0 {
			f.announce(x)
		}
		all = append(all, x.ended...)
		clear(x.ended)
		x.ended = x.ended[:0]
	}
	slices.SortStableFunc(all, func(a, b ending) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.src, b.src)) })
	f.ended = all
	for i := range all {
		f.settle(&all[i])
	}
	clear(all)
}

// settle takes down the other half of a flow that has ended, and says that it
// has.
func (f *Fleet) settle(e *ending) {
	to := &f.nics[e.dst]
	if e.read {
		to.closing = append(to.closing, closing{e.At - f.cfg.Completion + f.linger, e.receiver, true})
	} else if r := to.receiver(e.receiver); r != nil {
		e.Delivered = r.delivered
		at := e.At - f.cfg.Completion + f.linger
		to.closing = append(to.closing, closing{at, e.receiver, false})
		if r.begun && !r.over {
			to.alarm(at)
		}
	}
	if f.onDone != nil {
		f.onDone(&e.Done)
	}
}
