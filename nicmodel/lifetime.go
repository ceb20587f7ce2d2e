package nicmodel

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/nicmodel/internal/frames"
	"github.com/sluice-rdma/sluice/nicmodel/internal/icm"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/ratelimiter"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// CreateQP makes a queue pair in state RESET and returns its number.
func (n *NIC) CreateQP(cfg QPConfig) (uint32, error) {
	if cfg.Type == 0 {
		cfg.Type = ib.RC
	}
	switch {
	case cfg.Type != ib.RC && cfg.Type != ib.UC && cfg.Type != ib.UD:
		return 0, fmt.Errorf("a queue pair of type %v: RC, UC or UD", cfg.Type)
	case cfg.GSI && (cfg.Type != ib.UD || n.pairs.gsi != nil):
		return 0, errors.New("queue pair 1 is of type UD, and there is one")
	case cfg.SendDepth < 1 || cfg.SendDepth > n.chip.Config.MaxQPWR:
		return 0, fmt.Errorf("a send queue of %d requests: 1 to %d", cfg.SendDepth, n.chip.Config.MaxQPWR)
	case cfg.SRQ == nil && (cfg.RecvDepth < 0 || cfg.RecvDepth > n.chip.Config.MaxQPWR):
		return 0, fmt.Errorf("a receive queue of %d requests: 0 to %d", cfg.RecvDepth, n.chip.Config.MaxQPWR)
	case cfg.SGEs < 1 || cfg.SGEs > n.chip.Config.MaxSGE:
		return 0, fmt.Errorf("%d pieces a request: 1 to %d", cfg.SGEs, n.chip.Config.MaxSGE)
	}
	q := &qp{cfg: cfg, recv: cfg.SRQ, timerAt: units.Never}
	if q.recv == nil {
		recv, err := n.receives.create(max(cfg.RecvDepth, 1), cfg.SGEs)
		if err != nil {
			return 0, err
		}
		q.recv = recv
	}
	// The transport numbers its slots in the same way, so slot and place are the same.
	q.sq = make([]sendWQE, 1<<bits.Len(uint(cfg.SendDepth-1)))
	if cfg.Type == ib.UD {
		q.to = make([]address, len(q.sq))
	}
	q.sqAddr = n.regions.Reserve(uint64(len(q.sq)) * pcie.CacheLine)
	if n.pairs.stampSends {
		q.departures = make([]departure, len(q.sq))
	}
	n.pairs.add(q)
	q.elements = icm.ElementTable + n.chip.Tables + uint64(q.num>>qpGenerationBits)<<(16+elementBits)
	n.queues.all[cfg.SendCQ].users++
	n.queues.all[cfg.RecvCQ].users++
	q.recv.users++
	n.contexts.add(q)
	return q.num, nil
}

// DestroyQP frees a queue pair. Its outstanding requests end without completions,
// and packets on their way to it meet no queue pair. In a divided network its number is
// free only after Recycle.
func (n *NIC) DestroyQP(num uint32) { n.destroy(n.pairs.find(num)) }

// closing is a queue pair, or the key of a region, that is destroyed at a time.
type closing struct {
	at  units.Time
	qp  *qp // nil for a region
	key uint32
}

// CloseQP is DestroyQP at a time, in the order of these times. The number is free at
// once. It is for the end of a connection that has to be told of its end: until then it
// answers what comes to it.
func (n *NIC) CloseQP(num uint32, at units.Time) {
	if at <= n.chip.Now() {
		n.DestroyQP(num)
		n.Recycle(num)
		return
	}
	q := n.pairs.find(num)
	n.pairs.late = append(n.pairs.late, q)
	n.pairs.all[num>>qpGenerationBits-1] = nil
	n.pairs.recycle(num)
	n.closeAt(closing{at: at, qp: q})
}

// CloseMR is DeregMR at a time, in the order of the times of this and of CloseQP.
func (n *NIC) CloseMR(key uint32, at units.Time) { n.closeAt(closing{at: at, key: key}) }

func (n *NIC) closeAt(c closing) {
	n.closing = append(n.closing, c)
	n.chip.Net.SetAlarm(n.chip.Host, chip.AlarmClose, c.at)
}

// close destroys what is to be closed by now.
func (n *NIC) close(now units.Time) {
	for len(n.closing) > 0 && n.closing[0].at <= now {
		if c := &n.closing[0]; c.qp != nil {
			n.destroy(c.qp)
		} else {
			n.DeregMR(c.key)
		}
		n.closing = slices.Delete(n.closing, 0, 1)
	}
	if n.chip.Divided && len(n.closing) > 0 {
		n.chip.Net.SetAlarm(n.chip.Host, chip.AlarmClose, n.closing[0].at)
	}
}

func (n *NIC) destroy(q *qp) {
	n.reset(q)
	n.queues.all[q.cfg.SendCQ].users--
	n.queues.all[q.cfg.RecvCQ].users--
	q.recv.users--
	n.contexts.drop(q)
	if q.cfg.SRQ == nil {
		n.receives.destroy(q.recv)
	}
	n.pairs.remove(q)
}

// reset takes a queue pair back to RESET. Its completions that were not polled are
// dropped.
func (n *NIC) reset(q *qp) {
	n.completions.drop(q.cfg.SendCQ, q.num)
	n.completions.drop(q.cfg.RecvCQ, q.num)
	n.scheduler.remove(n.chip.Now(), q)
	q.dropEcho(&n.chip)
	n.receives.dropParked(n.chip.Now(), q)
	if q.rc != nil {
		// The receive that a broken-off message holds goes back to a shared queue.
		var eff rc.Effects
		q.rc.ToError(&eff)
		var r rc.RecvCompletion
		for q.rc.PollRecv(&r) {
			q.recv.free(r.Slot)
		}
	} else if q.cfg.SRQ == nil {
		q.recv.queue, _ = rc.NewRecvQueue(len(q.recv.wqes)) // the depth was good before
	}
	if q.cfg.SRQ == nil {
		q.recv.forget()
	}
	n.regions.UnbindAll(q.num)
	q.resets = (q.resets + 1) & 0x7f
	q.responding, q.locked, q.echo = 0, 0, frames.Echo{}
	q.steering, q.pull, q.next = steering{}, nil, nil
	q.path = 0
	q.rc, q.state = nil, ib.Reset
	n.transport.countRequests(n.chip.Now(), q, int(int32(q.reaped-q.handed)))
	n.elements.forget(n.chip.Now(), q)
	q.timerAt = units.Never
	q.notifications, q.restarts = notifications{}, Restarts{}
}

// Reset takes a queue pair back to RESET, with all that it had to do.
func (n *NIC) Reset(num uint32) { n.reset(n.pairs.find(num)) }

// ReadyToReceive takes a queue pair to RTR. The NIC fills in type, send depth and receive
// queue of cfg. Datagrams have no peer to notify. Only a reliable connection has an
// engine or telemetry, since acknowledgements carry it.
func (n *NIC) ReadyToReceive(num uint32, peer Peer, cong Congestion, cfg rc.Config) error {
	q := n.pairs.find(num)
	if q.cfg.Type != ib.RC && (cong.Engine != nil || cong.ReadEngine != nil || cong.Telemetry != telemetry.None) {
		return fmt.Errorf("an engine or telemetry for a queue pair of type %v, where nothing comes back", q.cfg.Type)
	}
	if q.cfg.Type == ib.UD && cong.CNPInterval != 0 {
		return errors.New("congestion notifications from a queue pair of datagrams, which has no peer to send them to: leave CNPInterval 0")
	}
	cfg.Type, cfg.SendDepth, cfg.Recv, cfg.SharedRecv = q.cfg.Type, q.cfg.SendDepth, q.recv.queue, q.cfg.SRQ != nil
	n.chip.Config.Transport.Set(&cfg)
	t, err := rc.New(cfg)
	if err != nil {
		return err
	}
	if peer.Host < 0 || peer.Host >= n.chip.Net.Topology().Hosts() {
		return fmt.Errorf("host %d does not exist: the network has %d", peer.Host, n.chip.Net.Topology().Hosts())
	}
	q.rc, q.rcCfg, q.peer, q.cong, q.mtu, q.state = t, cfg, peer, cong, cfg.MTU, ib.RTR
	q.class = uint8(n.chip.Config.Egress.Class(peer.Priority))
	n.mac.requestRoom[q.class].expect(int(cfg.MTU))
	n.mac.responseRoom[q.class].expect(int(cfg.MTU))
	if q.recv.fetched && (q.cfg.RecvDepth > 0 || q.cfg.SRQ != nil) {
		n.receives.readRecord(n.chip.Now(), q.recv)
	}
	return nil
}

// ReadyToSend takes a queue pair from RTR to RTS.
func (n *NIC) ReadyToSend(num uint32, cfg rc.SendConfig) error {
	q := n.pairs.find(num)
	if q.cong.ReadEngine != nil && !q.rcCfg.Credits {
		cfg.ReadPackets = ReadPackets(units.Bytes(q.mtu))
	}
	if q.cfg.Type == ib.RC {
		n.chip.Config.Transport.SetSend(&cfg, num>>qpGenerationBits)
	}
	if err := q.rc.ReadyToSend(cfg); err != nil {
		return err
	}
	q.maxReads = cfg.MaxRdAtomic
	held := cc.Control{Rate: ratelimiter.Unpaced, Window: cc.Unlimited}
	if limit := q.Control().Rate; limit != 0 { // it was set before
		held.Rate = limit
	}
	q.Hold(held)
	q.next = &q.steering
	if q.cong.Engine != nil || q.cong.ReadEngine != nil {
		n.scheduler.unlimit(q)
	}
	if q.cong.Engine != nil {
		q.Start(q.cong.Engine, n.chip.Line, units.Bytes(q.mtu), q.cong.BaseRTT)
	}
	if q.cong.ReadEngine != nil {
		q.pull = &pull{ReadTimes: NewReadTimes(cfg.MaxRdAtomic)}
		q.pull.Start(q.cong.ReadEngine, n.chip.Line, units.Bytes(q.mtu), q.cong.BaseRTT)
	}
	if err := n.scheduler.add(q); err != nil {
		return err
	}
	q.state = ib.RTS
	return nil
}

// Fail takes a queue pair to the error state, which flushes its requests.
func (n *NIC) Fail(now units.Time, num uint32) {
	q := n.pairs.find(num)
	if q.rc == nil {
		// Not connected yet. A transport in error flushes its receives too.
		q.rc, _ = rc.New(rc.Config{MTU: 256, SendDepth: q.cfg.SendDepth, Recv: q.recv.queue, SharedRecv: q.cfg.SRQ != nil})
	}
	var eff rc.Effects
	q.rc.ToError(&eff)
	n.transport.carryOut(now, q, &eff, arrival{})
	if q.waiting > 0 {
		n.elements.hand(now, q)
	}
}

// Flush completes what has been posted to a queue pair in the error state.
func (n *NIC) Flush(now units.Time, num uint32) {
	if q := n.pairs.find(num); q.rc != nil && (q.rc.State() == ib.Err || q.rc.State() == ib.SQE) {
		n.transport.reap(now, q)
	}
}
