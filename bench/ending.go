package bench

import (
	"cmp"
	"slices"

	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/units"
)

// ending is what a host has to say to the simulation: that a flow of its own has ended,
// or what went wrong.
type ending struct {
	at   units.Time
	host int
	flow *flow
	err  error
}

// endings are those of a lane of the network since the last window.
type endings struct {
	all []ending
	_   [64]byte // two workers share no cache line
}

// atEnd is what the poster of a flow that has ended knew of it then.
type atEnd struct {
	over bool
	events
	delivered nicmodel.Delivered // where the data arrive at the poster
}

// ended takes down the flow's end at its poster, and says that it has ended.
func (h *host) ended(f *flow, now units.Time) error {
	last := atEnd{over: true, events: f.ofPoster()}
	if f.sink == h.nic {
		last.delivered = f.arrived()
	}
	f.last = last
	h.bind(f.qp.Num(), nil)
	if err := f.qp.Close(); err != nil {
		return err
	}
	h.say(ending{at: now, flow: f})
	return nil
}

// over ends a flow, whatever carries it.
func (f *flow) over(now units.Time) error {
	if f.light != nil {
		return f.light.fleet.sim.finished(f, now)
	}
	return f.poster.ended(f, now)
}

// fail says what went wrong.
func (h *host) fail(now units.Time, err error) { h.say(ending{at: now, err: err}) }

func (h *host) say(e ending) {
	e.host = h.nic.Host()
	x := h.nic.Lane()
	list := &h.sim.endings[x.Index()]
	list.all = append(list.all, e)
	x.Settle()
}

// settle hears what hosts have to say: at once, or in a divided network after the window,
// in the order in which an undivided one has it.
func (s *simulation) settle() {
	all := s.ended[:0]
	for i := range s.endings {
		list := &s.endings[i]
		all = append(all, list.all...)
		clear(list.all)
		list.all = list.all[:0]
	}
	slices.SortStableFunc(all, func(a, b ending) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.host, b.host)) })
	s.ended = all
	for i := range all {
		e := &all[i]
		if e.err == nil {
			e.err = s.finished(e.flow, e.at)
		}
		if e.err != nil {
			s.failAt(e.at, e.err)
		}
	}
	clear(all)
}
