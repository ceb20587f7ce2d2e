package bench

import (
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
)

// thread posts and polls on a host where that takes time. It sleeps until a
// completion, a timer or the application wakes it, waits for the core, does all
// pending work in one turn, and sleeps again. A host without a thread does all work
// at the instant at which it becomes due.
type thread struct {
	core   *des.Core
	turnAt units.Time // of the turn that is coming, or Never
	done   units.Time // when the last turn was, or will be, over
	posts  []*flow    // that have something to post
}

// Kinds of a host's own events.
const (
	evWake = iota // the shim has something to do
	evTurn        // the thread runs
	evOwn         // the host does something for a workload, by itself
)

// newThread returns the thread of the host of that name, nil if it does everything at
// once. When other work comes depends on seed and host only, so systems with the same
// load have the same.
func newThread(s *simulation, name string) (*thread, error) {
	c := s.sys.Host.Config()
	if c.Instant() {
		return nil, nil
	}
	core, err := des.NewCore(c, des.NewStream(s.seed, "host/"+name))
	if err != nil {
		return nil, err
	}
	return &thread{core: core, turnAt: units.Never}, nil
}

// wakeUp has the thread run as soon as it can.
func (h *host) wakeUp(now units.Time) {
	t := h.thread
	if t.turnAt != units.Never {
		return // it is going to
	}
	if now < t.done {
		now = t.done // it runs, and looks again before it sleeps
	} else {
		now += t.core.Config().Wakeup
	}
	t.turnAt = t.core.Free(now)
	h.events.Schedule(t.turnAt, evTurn, 0)
}

// turn is the event: the thread runs.
func (h *host) turn(now units.Time) {
	t := h.thread
	t.turnAt = units.Never
	for i := 0; i < len(t.posts); i++ {
		f := t.posts[i]
		t.posts[i] = nil
		h.busy = true
		err := f.postMore(now)
		h.busy = false
		if err == nil && f.kept == nil && f.outstanding == 0 && now >= f.Stop {
			err = h.ended(f, now) // its time was over before the thread ran
		}
		if err != nil {
			h.fail(now, err)
			return
		}
	}
	t.posts = t.posts[:0]
	h.poll(now)
	t.done = h.dev.NowPrecise()
}

// postsMore has a flow post what it can: the thread, when it runs.
func (f *flow) postsMore(now units.Time) error {
	h := f.poster
	if h.thread == nil || h.busy {
		return f.postMore(now)
	}
	h.thread.posts = append(h.thread.posts, f)
	h.wakeUp(now)
	return nil
}

// postMore posts what the flow can.
func (f *flow) postMore(now units.Time) error {
	if f.kept == nil {
		return f.post(now)
	}
	if f.kept.by.closed {
		return nil
	}
	return f.kept.post()
}
