package nicvalidate

import (
	"fmt"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// blindLoad is a test of how many requests a second come over: of machines of which the first
// posts to the second, or all to all. Threads take time to post (threads.go), a doorbell each request, and to poll.
type blindLoad struct {
	service  ib.QPType
	op       ib.WROpcode
	payload  int
	inline   bool
	machines int
	queues   int  // queue pairs of a machine, spread over all machines if there are more than two
	threads  int  // of a machine, which share its queue pairs out
	window   int  // requests outstanding a queue pair
	signal   int  // requests a completion, of which the last has it
	rounds   bool // a thread waits until all of its requests are over
	both     bool // all post to all
	mtu      ib.MTU
	direct   bool
	link     fabric.Link
	nics     []nicmodel.Config
}

// Requests longer than largest are counted from one completion to another; of each queue
// pair warmUps requests warm up and counted are counted.
const (
	largest     = 4096
	warmUps     = 16
	counted     = 48
	mostOfALoad = 100 * time.Millisecond
	// In a load by rounds each thread warms up and is counted for at least this many
	// rounds, however long they are.
	warmRounds    = 1
	countedRounds = 3
	// manyRequests are as many under way as the length of a flood is enough for.
	manyRequests = 1 << 14
)

// run returns requests a microsecond, of all machines' mean, or of both directions' sum
// where there are two machines.
func (l *blindLoad) run() (float64, error) {
	if l.window < l.signal {
		return 0, fmt.Errorf("%d requests outstanding with a completion in %d: none would come", l.window, l.signal)
	}
	hosts, err := newHosts(l.machines, l.direct, l.link, l.nics...)
	if err != nil {
		return 0, err
	}
	ends := make([]*loadEnd, len(hosts))
	for i, h := range hosts {
		ends[i] = newLoadEnd(l, h)
	}
	each := l.queues
	if l.machines > 2 {
		each /= l.machines // those to itself are unused
	}
	for i, a := range ends {
		for _, b := range ends[i+1:] {
			for range each {
				if err := l.connect(a, b); err != nil {
					return 0, err
				}
			}
		}
	}
	for i, e := range ends {
		if i == 0 || l.both {
			e.begin()
		}
	}
	rate, err := l.measure(hosts[0], ends)
	for _, e := range ends {
		if e.err != nil {
			return 0, e.err
		}
	}
	if l.machines > 2 {
		rate /= float64(l.machines)
	}
	return rate, err
}

func (l *blindLoad) measure(clock *host, ends []*loadEnd) (float64, error) {
	count := func() (n int) {
		for _, e := range ends {
			n += e.done
		}
		return n
	}
	if l.rounds { // from the end of a round to that of another
		least := units.FromDuration(warmUp)
		return l.between(clock, ends[0], count,
			func(n int, t units.Time) bool { return n >= warmRounds && t >= least },
			func(n int, t units.Time) bool { return n >= countedRounds && t >= units.FromDuration(flooded) })
	}
	if l.payload <= largest {
		longer := time.Duration(max(1, l.queues*l.window/manyRequests))
		verbs.Sleep(clock.dev, longer*warmUp)
		before := count()
		verbs.Sleep(clock.dev, longer*flooded)
		return float64(count()-before) / float64((longer * flooded).Microseconds()), nil
	}
	// Between two completions of one queue pair, as those of the others come in turns; beyond those of the first window, which
	// wait until all of it has been posted, and over several more, as completions are polled in bursts.
	return l.between(clock, ends[0], count, func(n int, _ units.Time) bool { return n >= warmUps+l.first() }, func(n int, _ units.Time) bool { return n >= counted+4*l.first() })
}

// between counts from one call of an end's counted to another: from the first that is warm, by how many there have been
// and the time, to the first that is enough, by how many there have been since then, and the time.
func (l *blindLoad) between(clock *host, end *loadEnd, count func() int, warm, enough func(n int, t units.Time) bool) (float64, error) {
	var from, until units.Time
	var before, after, calls int
	end.counted = func(now units.Time) {
		switch calls++; {
		case until > 0:
		case from == 0:
			if warm(calls, now) {
				from, before, calls = now, count(), 0
			}
		case enough(calls, now-from):
			until, after = now, count()
		}
	}
	for range mostOfALoad / (100 * time.Microsecond) {
		if verbs.Sleep(clock.dev, 100*time.Microsecond); until > 0 || end.err != nil {
			break
		}
	}
	if until == 0 { // what came over in all of that time
		from, until, before, after = 0, units.FromDuration(mostOfALoad), 0, count()
	}
	return float64(after-before) / (until - from).Microseconds(), nil
}

// connect makes a queue pair between two machines, which both may post to.
func (l *blindLoad) connect(a, b *loadEnd) (err error) {
	inline, receives := 0, 0
	if l.inline {
		inline = l.payload
	}
	if l.op == ib.WRSend {
		receives = l.messages()
	}
	var qa, qb verbs.QP
	if l.service == ib.UC {
		qa, qb, err = connectUC(a.host, b.host, l.window, inline, l.mtu)
	} else {
		qa, qb, err = connect(a.host, b.host, l.window, receives, inline, l.mtu)
	}
	if err != nil {
		return err
	}
	a.add(qa, b.host)
	if err := l.receive(b, qb, receives); err != nil || !l.both {
		return err
	}
	b.add(qb, a.host)
	return l.receive(a, qa, receives)
}

// receive posts receives for the load's messages.
func (l *blindLoad) receive(e *loadEnd, qp verbs.QP, receives int) error {
	for range receives {
		if _, err := qp.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{verbs.SGEOf(e.host.mr, 0, l.payload)}}}); err != nil {
			return err
		}
	}
	return nil
}

// messages returns no fewer than come over on a queue pair: for the counted completions, and for those under
// way.
func (l *blindLoad) messages() int { return 2 * ((warmUps+counted+5*l.first())*l.signal + l.window) }

// first is the number of completions a queue pair's first window has.
func (l *blindLoad) first() int { return l.window / l.signal }

// loadEnd is a machine of a load.
type loadEnd struct {
	l       *blindLoad
	host    *host
	flows   []loadFlow
	pending []int // of each thread's round: completions to come
	wr      [1]verbs.SendWR
	wcs     []verbs.WC
	done    int
	counted func(now units.Time) // called with each completion of the first queue pair, or with each round of the first thread
	threads *threads
	err     error // the first
}

type loadFlow struct {
	qp     verbs.QP
	peer   *host
	at     int // in the peer's memory and in its own
	thread int
	out    int
	since  int // requests since one with a completion
}

func newLoadEnd(l *blindLoad, h *host) *loadEnd {
	e := &loadEnd{l: l, host: h, pending: make([]int, l.threads), wcs: make([]verbs.WC, 64), threads: newThreads(h, l.threads)}
	h.polls = e.poll
	return e
}

func (e *loadEnd) add(qp verbs.QP, peer *host) {
	stride := max(line, (e.l.payload+line-1)/line*line)
	at := len(e.flows) * stride % bufferBytes
	if at+stride > bufferBytes {
		at = 0
	}
	e.flows = append(e.flows, loadFlow{qp: qp, peer: peer, at: at, thread: len(e.flows) % e.l.threads})
}

func (e *loadEnd) begin() {
	for i := range e.flows {
		e.fill(i)
	}
}

// fill posts what a queue pair's window has room for.
func (e *loadEnd) fill(i int) {
	f := &e.flows[i]
	for f.out < e.l.window {
		f.out++
		var flags verbs.SendFlags
		if f.since++; f.since == e.l.signal {
			flags |= verbs.SendSignaled
			f.since = 0
			e.pending[f.thread]++
		}
		e.threads.post(f.thread, func() { e.post(uint64(i), f, flags) })
	}
}

func (e *loadEnd) post(id uint64, f *loadFlow, flags verbs.SendFlags) {
	if e.err != nil {
		return
	}
	wr := &e.wr[0]
	*wr = verbs.SendWR{WRID: id, Flags: flags, Opcode: e.l.op, RemoteAddr: f.peer.mr.Addr() + uint64(f.at), RKey: f.peer.mr.RKey()}
	if e.l.inline {
		wr.Flags |= verbs.SendInline
		wr.Inline = e.host.buf[:e.l.payload]
	} else {
		wr.SGL = []verbs.SGE{verbs.SGEOf(e.host.mr, f.at, e.l.payload)}
	}
	if _, err := f.qp.PostSend(e.wr[:]); err != nil {
		e.err = err
	}
}

func (e *loadEnd) poll(units.Time) {
	for e.err == nil {
		n, err := e.host.cq.Poll(e.wcs)
		if err != nil || n == 0 {
			e.err = err
			return
		}
		for i := range e.wcs[:n] {
			if wc := e.wcs[i]; wc.Status != ib.WCSuccess {
				e.err = &verbs.StatusError{WC: wc}
				return
			}
			flow := int(e.wcs[i].WRID)
			e.threads.poll(e.flows[flow].thread, func() { e.over(flow, e.host.engine.Now()) })
		}
	}
}

// over counts a completion, and posts what it makes room for.
func (e *loadEnd) over(i int, now units.Time) {
	f := &e.flows[i]
	f.out -= e.l.signal
	e.done += e.l.signal
	e.pending[f.thread]--
	if !e.l.rounds {
		if i == 0 && e.counted != nil {
			e.counted(now)
		}
		e.fill(i)
		return
	}
	if e.pending[f.thread] == 0 {
		if f.thread == 0 && e.counted != nil {
			e.counted(now)
		}
		for k := f.thread; k < len(e.flows); k += e.l.threads {
			e.fill(k)
		}
	}
}
