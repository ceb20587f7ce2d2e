package nicvalidate

import (
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
)

// What a thread takes of its processor, of sources that are recalled and not checked; estimates for all other hosts:
// a post of one request with its doorbell 150 ns, of which most is the store to the NIC (HERD, SIGCOMM 2014, on a Xeon E5-2680),
// and a completion that it polls 62 ns (Zambre et al., "Breaking Band", ICPP 2019, on a ThunderX2,
// where a post takes 175 ns).
const (
	postTime = 150 * units.Nanosecond
	pollTime = 62 * units.Nanosecond
)

// threads are those of a machine. Each has a processor to itself and does one thing after another: what it has
// decided to post before what has completed. A request reaches the NIC at the end of its post, a completion counts at
// the end of its poll.
type threads struct {
	engine           *des.Engine
	src              des.Source
	id               des.NodeID
	all              []thread
	posting, polling units.Time
}

type thread struct {
	posts, polls []func()
	doing        func() // nil if it spins
}

func newThreads(h *host, n int) *threads {
	t := &threads{engine: h.engine, src: h.engine.NewSource(), all: make([]thread, n), posting: postTime, polling: pollTime}
	t.id = h.engine.AddHandler(t)
	return t
}

// post has a thread do a post, after those before.
func (t *threads) post(i int, f func()) {
	t.all[i].posts = append(t.all[i].posts, f)
	t.next(i)
}

// poll has a thread take note of a completion, after those before.
func (t *threads) poll(i int, f func()) {
	t.all[i].polls = append(t.all[i].polls, f)
	t.next(i)
}

// next has an idle thread begin what is next.
func (t *threads) next(i int) {
	x := &t.all[i]
	if x.doing != nil {
		return
	}
	queue, cost := &x.posts, t.posting
	if len(x.posts) == 0 {
		queue, cost = &x.polls, t.polling
	}
	if len(*queue) == 0 {
		return
	}
	x.doing, *queue = (*queue)[0], (*queue)[1:]
	t.engine.Schedule(t.engine.Now()+cost, &t.src, t.id, 0, uint64(i))
}

// Handle implements des.Handler: a thread has done something.
func (t *threads) Handle(ev des.Event) {
	i := int(ev.Arg)
	f := t.all[i].doing
	t.all[i].doing = nil
	f()
	t.next(i)
}
