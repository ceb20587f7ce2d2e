package bench

import (
	"errors"
	"fmt"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/scenario/workload"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/simverbs"
)

// flow is a flow under way.
type flow struct {
	workload.Flow
	pair                       // what carries it between staged NICs
	light           *lightFlow // between reduced ones, or nil
	posted, done    units.Bytes
	sendAt          units.Time         // of the next message, with send times
	outstanding     int                // messages
	index           int                // in simulation.active
	delivered       nicmodel.Delivered // as of the last look
	atWarmup        nicmodel.Delivered
	before          events // the warm-up's end
	startedInWindow bool
	kept            *kept // nil if the flow posts its messages back to back
	quiet           quiet // what it has posted without asking for a completion since it last did
	localAt         place // where its messages lie at the poster
	remoteAt        place // and at the peer
	tally           flowTally
	directed        directed // by the oracle, if there is one
	last            atEnd
}

// pair is a queue pair at each end; the poster's is paced. A Read is posted by the
// data's destination.
type pair struct {
	poster, peer  *host
	qp, peerQP    verbs.QP
	local, remote verbs.MR
	sink          *nicmodel.NIC // where the data arrive, and by which queue pair
	sinkQPN       uint32
}

// arrived returns the delivered part of a flow.
func (f *flow) arrived() nicmodel.Delivered {
	if f.light != nil {
		return f.light.arrived()
	}
	if f.last.over && f.sink == f.poster.nic {
		return f.last.delivered
	}
	return f.sink.Delivered(f.sinkQPN)
}

// events counts a flow's retransmitted packets, timeouts, those among them of adaptive
// retransmission, and congestion notification packets.
type events struct {
	retrans, timeouts, adaptive, cnps uint64
	restarts                          nicmodel.Restarts // of staged NICs, without the receivers' part
}

func (f *flow) events() events {
	if f.light != nil {
		return f.light.counted()
	}
	return f.ofPoster()
}

// addSince adds what was counted since before.
func (e *events) addSince(now, before events) {
	e.retrans += now.retrans - before.retrans
	e.timeouts += now.timeouts - before.timeouts
	e.adaptive += now.adaptive - before.adaptive
	e.cnps += now.cnps - before.cnps
	e.restarts.Used += now.restarts.Used - before.restarts.Used
	e.restarts.Trans += now.restarts.Trans - before.restarts.Trans
}

// resent is what a transport has sent again, and why.
func resent(c *rc.Counters) events {
	return events{retrans: c.RetransmittedPackets, timeouts: c.LocalAckTimeoutErr + c.RoceAdpRetrans, adaptive: c.RoceAdpRetrans}
}

// ofPoster are the events at the end that posts; the other one requests nothing.
func (f *flow) ofPoster() events {
	if f.last.over {
		return f.last.events
	}
	c := f.poster.nic.Counters(f.qp.Num())
	_, cnps := f.poster.nic.Notifications(f.qp.Num())
	e := resent(&c)
	e.cnps, e.restarts = cnps, f.poster.nic.Restarts(f.qp.Num())
	return e
}

// flowHash is the entropy of the path of a flow's data.
func (f *flow) flowHash() uint32 {
	if f.light != nil {
		return f.light.hash
	}
	if f.Operation == workload.Read {
		return f.peer.nic.Peer(f.peerQP.Num()).FlowHash
	}
	return f.poster.nic.Peer(f.qp.Num()).FlowHash
}

// postAhead is the least amount that a flow keeps posted, so that neither shim nor NIC
// runs out of work between a completion and the next post. A flow keeps the largest of
// four messages, postAhead, and, with a shim whose bound follows the link, a message more
// than that bound (see postedAhead).
const postAhead = 256 * units.KiB

// start connects a flow and posts its first messages.
func (s *simulation) start(spec workload.Flow) error {
	f := &flow{Flow: spec}
	if s.fleet != nil {
		return s.fleet.start(f)
	}
	if err := s.connect(f); err != nil {
		return err
	}
	if s.measure != nil {
		s.measure.started(f)
	}
	if err := f.postsMore(s.engine.Now()); err != nil {
		return err
	}
	f.poster.alarm(s.engine.Now())
	return nil
}

// connect makes the queue pairs of a flow.
func (s *simulation) connect(f *flow) error {
	if s.fleet != nil {
		return s.fleet.connect(f)
	}
	spec := &f.Flow
	f.index = len(s.active)
	s.opening = f
	defer func() { s.opening = nil }()
	src, dst := s.hosts[spec.Src], s.hosts[spec.Dst]
	f.poster, f.peer = src, dst
	if spec.Operation == workload.Read {
		f.poster, f.peer = dst, src
	}
	n := &s.sys.NIC
	create := func(x *side, receives int) (verbs.QP, error) {
		cap := verbs.QPCap{MaxSendWR: n.SendDepth, MaxRecvWR: receives, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInlineData: int(s.sys.Verbs.InlineSize)}
		return x.pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: x.cq, RecvCQ: x.cq, Cap: cap})
	}
	var err error
	f.sendAt = max(s.engine.Now(), spec.Start)
	if f.qp, err = create(&f.poster.active, 0); err != nil {
		return err
	}
	receives := 0
	if f.receives() {
		receives = n.SendDepth
	}
	if f.peerQP, err = create(&f.peer.passive, receives); err != nil {
		return err
	}
	if err := f.findMemory(); err != nil {
		return err
	}
	f.sink, f.sinkQPN = f.peer.nic, f.peerQP.Num()
	if spec.Operation == workload.Read {
		f.sink, f.sinkQPN = f.poster.nic, f.qp.Num()
	}
	f.poster.bind(f.qp.Num(), f)
	f.peer.bind(f.peerQP.Num(), f)
	// The model has one device for all functions.
	if len(f.poster.nic.Config().Functions) > 0 {
		if err := errors.Join(f.poster.nic.SetFunction(f.qp.Num(), spec.Function), f.peer.nic.SetFunction(f.peerQP.Num(), spec.Function)); err != nil {
			return err
		}
	}
	priority := n.Priority
	if spec.Class > 0 {
		priority = spec.Class - 1
	}
	params := verbs.RCParams{
		Port: 1, PathMTU: ib.MTU(n.MTU),
		Access:  ib.AccessLocalWrite | ib.AccessRemoteRead | ib.AccessRemoteWrite,
		Timeout: uint8(n.Timeout), RetryCnt: uint8(n.RetryCount), RNRRetry: uint8(n.RNRRetry), MinRNRTimer: 1,
		MaxRdAtomic: uint8(n.MaxRdAtomic), MaxDestRdAtomic: uint8(n.MaxRdAtomic), SL: uint8(priority),
		FlowLabel: uint32(spec.ID) & 0xfffff,
	}
	me, err := endpoint(f.poster.active.dev, f.qp)
	if err != nil {
		return err
	}
	other, err := endpoint(f.peer.passive.dev, f.peerQP)
	if err != nil {
		return err
	}
	if err := verbs.ConnectRC(f.qp, me, other, params); err != nil {
		return err
	}
	if err := verbs.ConnectRC(f.peerQP, other, me, params); err != nil {
		return err
	}
	if f.receives() {
		for range f.depth() {
			if err := f.postRecv(); err != nil {
				return err
			}
		}
	}
	s.active = append(s.active, f)
	s.oracle.changed(s.engine.Now())
	return nil
}

// depth is the largest number of messages under way.
func (f *flow) depth() int {
	most := f.poster.sim.sys.NIC.SendDepth
	switch {
	case f.kept == nil:
		return min(most, postedAhead(f))
	case f.kept.Depth > 0:
		return min(most, f.kept.Depth)
	}
	return most
}

func endpoint(dev verbs.Device, qp verbs.QP) (verbs.Endpoint, error) {
	gid, err := dev.GID(1, 0)
	if err != nil {
		return verbs.Endpoint{}, err
	}
	return verbs.Endpoint{GID: gid, QPN: qp.Num()}, nil
}

// receives reports whether the flow's messages take receives.
func (f *flow) receives() bool { return f.Operation == workload.Send || f.kept.notifies() }

func (f *flow) postRecv() error {
	at := 0
	if f.Operation == workload.Send {
		at = f.remoteAt.take(f.Message)
	}
	_, err := f.peerQP.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{verbs.SGEOf(f.remote, at, int(f.Message))}}})
	return err
}

// broken says that a flow's queue pair has failed, which ends the run.
func (s *simulation) broken(f *flow, status ib.WCStatus) error {
	mend := ""
	if n := &s.sys.NIC; status == ib.WCRetryExcErr {
		mend = fmt.Sprintf(" (%d, with timers of 4.096 us * 2^%d): raise nic.timeout or nic.retry_cnt, or have less lost", n.RetryCount, n.Timeout)
	}
	return fmt.Errorf("flow %d from %s to %s: %w%s", f.ID, s.name(f.Src), s.name(f.Dst), status, mend)
}

// completed handles a completion at either end.
func (h *host) completed(now units.Time, wc *verbs.WC) error {
	f := h.flow(wc.QPN)
	if f == nil || f.qp.Num() != wc.QPN && f.peerQP.Num() != wc.QPN {
		return nil // of a flow that has ended, as its other end knows
	}
	if wc.Status != ib.WCSuccess {
		return h.sim.broken(f, wc.Status)
	}
	if wc.Opcode == ib.WCRecv || wc.Opcode == ib.WCRecvRDMAWithImm {
		if err := f.postRecv(); err != nil {
			return err
		}
		return f.kept.received(now)
	}
	if f.kept != nil {
		if f.outstanding--; f.outstanding == 0 {
			h.say(notice{at: now, kind: flowIdle, flow: f})
		}
		return f.kept.completed(now, int(wc.WRID))
	}
	f.completed(wc.WRID)
	if f.Size > 0 && f.done == f.Size || f.Size == 0 && f.outstanding == 0 && now >= f.Stop {
		return h.ended(f, now)
	}
	return f.post(now)
}

func (s *simulation) name(host int) string { return s.net.Topology().HostName(host) }

// finished takes leave of a flow that ended at now: with reduced NICs that is a little later
// than the engine's, and in a divided network it may be a little earlier.
func (s *simulation) finished(f *flow, now units.Time) error {
	if s.measure != nil {
		s.measure.ended(f, now)
	}
	if s.onDone != nil {
		s.onDone(f, now)
	}
	var err error
	switch {
	case f.light == nil:
		err = f.disconnect(now + s.linger)
	case f.kept != nil:
		err = s.fleet.Close(f.light.ref)
	default:
		// The flow ended when its last acknowledgement came.
		now -= s.fleet.completion
	}
	if err != nil {
		return err
	}
	last := len(s.active) - 1
	s.active[f.index] = s.active[last]
	s.active[f.index].index = f.index
	s.active[last] = nil
	s.active = s.active[:last]
	s.oracle.changed(now)
	if last == 0 && s.allOver() {
		// Not here: the caller is in the middle of something.
		s.engine.Schedule(s.engine.Now(), &s.src, s.lastID, evDone, 0)
	}
	return nil
}

// disconnect takes down what is left of an ended flow: its other end, which can't know of
// that before the least delay of a path between hosts has passed, at a time.
func (f *flow) disconnect(at units.Time) error {
	f.poster.nic.Recycle(f.qp.Num())
	f.peer.bind(f.peerQP.Num(), nil)
	return errors.Join(f.peerQP.(*simverbs.QP).CloseAt(at), f.freeMemory(at))
}
