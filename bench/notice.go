package bench

import (
	"cmp"
	"slices"

	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/scenario/workload"
	"github.com/sluice-rdma/sluice/units"
)

// notice is a host's message to the simulation.
type notice struct {
	at   units.Time
	host int
	kind noticeKind
	flow *flow // of flowEnded, flowBusy and flowIdle
	err  error // of hostFailed
	by   *driven
	task workload.Task // of taskBegun and taskEnded
}

type noticeKind uint8

const (
	hostFailed noticeKind = iota
	flowEnded             // a flow of the host's own
	flowBusy              // a connection has something under way from now on
	flowIdle              // it has nothing any more
	taskBegun
	taskEnded
	hostActed // for a workload of several hosts
)

// notices are those of a lane of the network since the last window.
type notices struct {
	all []notice
	_   [64]byte // two workers share no cache line
}

// atEnd is the knowledge of the poster of a flow when the flow ended.
type atEnd struct {
	over bool
	events
	delivered nicmodel.Delivered // where the data arrive at the poster
}

// ended takes down the flow's end at its poster, and says that it has ended.
func (h *host) ended(f *flow, now units.Time) error {
	if err := h.leave(f); err != nil {
		return err
	}
	h.say(notice{at: now, kind: flowEnded, flow: f})
	return nil
}

// leave takes down the flow's end at its poster.
func (h *host) leave(f *flow) error {
	last := atEnd{over: true, events: f.ofPoster()}
	if f.sink == h.nic {
		last.delivered = f.arrived()
	}
	f.last = last
	h.bind(f.qp.Num(), nil)
	return f.qp.Close()
}

// close ends a connection between windows, whatever carries it.
func (s *simulation) close(f *flow, now units.Time) error {
	if f.light == nil {
		if err := f.poster.leave(f); err != nil {
			return err
		}
	}
	return s.finished(f, now)
}

// fail says what went wrong.
func (h *host) fail(now units.Time, err error) { h.say(notice{at: now, kind: hostFailed, err: err}) }

func (h *host) say(n notice) {
	n.host = h.nic.Host()
	x := h.nic.Lane()
	list := &h.sim.notices[x.Index()]
	list.all = append(list.all, n)
	x.Settle()
}

// settle hears what hosts have to say: at once, or in a divided network after the window,
// in the order in which an undivided one has it.
func (s *simulation) settle() {
	s.nics.Settle()
	s.packets.Settle()
	all := s.heard[:0]
	for i := range s.notices {
		list := &s.notices[i]
		all = append(all, list.all...)
		clear(list.all)
		list.all = list.all[:0]
	}
	slices.SortStableFunc(all, func(a, b notice) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.host, b.host)) })
	s.heard = nil // hearing one may make others say something
	for i := range all {
		if err := s.hear(&all[i]); err != nil {
			s.failAt(all[i].at, err)
		}
	}
	clear(all)
	s.heard = all
}

// hear handles a host's message.
func (s *simulation) hear(n *notice) error {
	switch n.kind {
	case hostFailed:
		return n.err
	case flowEnded:
		return s.finished(n.flow, n.at)
	case flowBusy, flowIdle:
		s.busy(n.flow, n.at, n.kind == flowBusy)
	case taskBegun:
		if s.measure != nil {
			s.measure.taskBegun(&n.task, n.at)
		}
	case taskEnded:
		if s.measure != nil {
			s.measure.taskEnded(&n.task, n.at)
		}
		if s.onTask != nil {
			s.onTask(&n.task, n.at)
		}
	case hostActed:
		return n.by.hasActed(n.at)
	}
	return nil
}
