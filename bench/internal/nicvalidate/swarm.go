package nicvalidate

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// swarm is rdma_bench's rc-swarm: machines that all read from or write to each other.
// Thread t of a machine has some queue pairs to thread t of each other machine, and
// posts each request to a random one of them. A thread keeps a fixed number of
// requests outstanding and waits for the oldest. It takes time to post and to poll (threads.go).
type swarm struct {
	op       ib.WROpcode
	payload  int
	machines int
	threads  int
	window   int
	each     int // queue pairs of a thread to a machine
	link     fabric.Link
}

// Warm-up and length of a swarm: long enough for 64 requests of each thread to be posted, and for what that was more than
// goes on in balance.
const (
	swarmWarmUp = 100 * time.Microsecond
	swarmRun    = 50 * time.Microsecond
)

// parseSwarm reads "11 machines, 14 threads, window 32, 9 queue pairs each".
func parseSwarm(at string) (*swarm, error) {
	s := &swarm{payload: 32, link: ports("connectib")}
	if _, err := fmt.Sscanf(at, "%d machines, %d threads, window %d, %d each", &s.machines, &s.threads, &s.window, &s.each); err != nil {
		return nil, noPoint(at)
	}
	return s, nil
}

// run returns requests a microsecond and machine.
func (s *swarm) run(nic string) (float64, error) {
	cfg, err := preset(nic)
	if err != nil {
		return 0, err
	}
	return s.runOn(cfg)
}

func (s *swarm) runOn(cfg nicmodel.Config) (float64, error) {
	hosts, err := newHosts(s.machines, false, s.link, cfg)
	if err != nil {
		return 0, err
	}
	all := make([][]*swarmThread, len(hosts))
	for m, h := range hosts {
		on := newThreads(h, s.threads)
		for t := range s.threads {
			all[m] = append(all[m], &swarmThread{
				s: s, host: h, on: on, id: uint64(t), slots: make([]slot, s.window), r: rand.New(rand.NewPCG(uint64(m), uint64(t))),
			})
		}
		h.polls = func(units.Time) { swarmPoll(all[m]) }
	}
	for i, a := range hosts {
		for j := i + 1; j < len(hosts); j++ {
			for t := range s.threads {
				for range s.each {
					if err := link(all[i][t], all[j][t], a, hosts[j]); err != nil {
						return 0, err
					}
				}
			}
		}
	}
	for _, threads := range all {
		for _, t := range threads {
			for range s.window {
				t.on.post(int(t.id), t.post)
			}
		}
	}
	count := func() (n int, err error) {
		for _, threads := range all {
			for _, t := range threads {
				n += t.done
				if t.err != nil {
					return 0, t.err
				}
			}
		}
		return n, nil
	}
	verbs.Sleep(hosts[0].dev, swarmWarmUp)
	before, err := count()
	if err != nil {
		return 0, err
	}
	verbs.Sleep(hosts[0].dev, swarmRun)
	after, err := count()
	return float64(after-before) / float64(swarmRun.Microseconds()) / float64(s.machines), err
}

// link connects two threads by a queue pair more.
func link(a, b *swarmThread, ha, hb *host) error {
	depth := min(a.s.window, queueDepth)
	inline := 0
	if a.s.op == ib.WRRDMAWrite {
		inline = a.s.payload
	}
	qa, qb, err := connect(ha, hb, depth, 1, inline, ibMTU)
	if err != nil {
		return err
	}
	a.qps = append(a.qps, swarmQP{qa, hb})
	b.qps = append(b.qps, swarmQP{qb, ha})
	return nil
}

type swarmQP struct {
	qp   verbs.QP
	peer *host
}

// swarmThread has a ring of requests, from the oldest to the next to be posted.
type swarmThread struct {
	s            *swarm
	host         *host
	on           *threads
	id           uint64
	qps          []swarmQP
	slots        []slot
	oldest, next int
	r            *rand.Rand
	wr           [1]verbs.SendWR
	done         int
	err          error
}

type slot struct{ posted, over bool }

// over notes a completion. The oldest requests that are over make room for others.
func (t *swarmThread) over(i uint32) {
	t.slots[i].over = true
	t.done++
	for t.slots[t.oldest].posted && t.slots[t.oldest].over {
		t.slots[t.oldest] = slot{}
		t.oldest = (t.oldest + 1) % len(t.slots)
		t.on.post(int(t.id), t.post)
	}
}

// post takes the place of a request that is over.
func (t *swarmThread) post() {
	q := t.qps[t.r.IntN(len(t.qps))]
	// Threads are apart in memory, and requests anywhere in what is theirs.
	at := (t.id*64 + t.r.Uint64N(64)) * 64
	wr := &t.wr[0]
	*wr = verbs.SendWR{
		WRID: t.id<<32 | uint64(t.next), Opcode: t.s.op, Flags: verbs.SendSignaled,
		RemoteAddr: q.peer.mr.Addr() + at, RKey: q.peer.mr.RKey(),
	}
	if t.s.op == ib.WRRDMAWrite {
		wr.Flags |= verbs.SendInline
		wr.Inline = t.host.buf[:t.s.payload]
	} else {
		wr.SGL = []verbs.SGE{verbs.SGEOf(t.host.mr, int(at), t.s.payload)}
	}
	if _, err := q.qp.PostSend(t.wr[:]); err != nil && t.err == nil {
		t.err = err
	}
	t.slots[t.next] = slot{posted: true}
	t.next = (t.next + 1) % len(t.slots)
}

func swarmPoll(threads []*swarmThread) {
	var wcs [32]verbs.WC
	for {
		n, err := threads[0].host.cq.Poll(wcs[:])
		if err != nil && threads[0].err == nil {
			threads[0].err = err
		}
		if err != nil || n == 0 {
			return
		}
		for _, wc := range wcs[:n] {
			t := threads[wc.WRID>>32]
			if wc.Status != ib.WCSuccess {
				t.err = &verbs.StatusError{WC: wc}
				return
			}
			t.on.poll(int(t.id), func() { t.over(uint32(wc.WRID)) })
		}
	}
}

func swarmRows() []Measurement {
	row := func(id, how string, op ib.WROpcode) Measurement {
		return Measurement{Row: id, Preset: "connectib", How: how, Figure: func(at string) (float64, error) {
			s, err := parseSwarm(at)
			if err != nil {
				return 0, err
			}
			s.op = op
			return s.run("connectib")
		}}
	}
	return []Measurement{
		row("KS1", "thread t of each machine has so many queue pairs to thread t of each other one and takes one at random; 32 B; all have completions; a thread waits for its oldest request", ib.WRRDMARead),
		row("KS2", "as KS1, the data inline", ib.WRRDMAWrite),
		row("KS3", "as KS1; 384 are outstanding", ib.WRRDMARead), row("KS4", "as KS1", ib.WRRDMARead),
	}
}
