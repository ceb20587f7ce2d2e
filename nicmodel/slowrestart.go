package nicmodel

import (
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// Restarts count what slow restart did for a queue pair, by the kernel's names. What these count is known by
// the kernel's one line on each (commit d7fab916374c); when cards do it is an estimate.
type Restarts struct {
	Used  uint64 // losses for which it was used (roce_slow_restart)
	CNPs  uint64 // notifications that it sent as a responder, for gaps (roce_slow_restart_cnps)
	Trans uint64 // how often it lowered a rate (roce_slow_restart_trans)
}

// restart has slow restart steer an engine that knows it, in a NIC that has it, and reports whether it has.
func (o *offload) restart(now units.Time, q *qp, s *steering) bool {
	e, ok := s.Engine().(cc.Restarted)
	if !ok || !o.Config.Transport.SlowRestart {
		return false
	}
	c, lowered := e.SlowRestart(now)
	q.restarts.Used++
	if lowered {
		q.restarts.Trans++
	}
	o.steer(q, s, c)
	return true
}

// notifiesOf reports whether slow restart answers what a queue pair has received with a notification: the packet
// for which it owes a NAK of a gap.
func (t *transport) notifiesOf(q *qp, eff *rc.Effects) bool {
	return eff.Drop == rc.DropSequence && eff.Do&rc.DoRespond != 0 && q.cong.LossCNPs && t.Config.Transport.SlowRestart
}

// Restarts returns what slow restart did for a queue pair.
func (p *pairs) Restarts(num uint32) Restarts { return p.find(num).restarts }
