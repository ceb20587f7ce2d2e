package mlx5

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/connectx"
	"github.com/sluice-rdma/sluice/verbs/softroce"
)

// end is one side of the model: what its program has posted and not yet got back.
type end struct {
	x        *pair
	peer     *end
	buffer   verbs.SGE // of receives
	sends    []posted  // in order
	recvs    []uint64
	messages []uint32 // immediate data that comes, in order
	rung     int      // of sends
	failed   bool     // in ERR
	nextID   uint64
	tail     uint32 // blocks that have completed
	events   int
}

// posted is a request of the model.
type posted struct {
	id       uint64
	signaled bool
	message  bool
	end      uint32 // of its blocks
}

// Any order of posts, doorbells, scans, polls, arms, errors and resets gives each request
// and each receive its CQE, in order, once, with its status; and each arm at most one
// event.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Each choice by itself would shrink better, and seldom be long.
		rng := rand.NewChaCha8([32]byte(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "seed")))
		c := make(choices, rapid.IntRange(1, 800).Draw(t, "choices"))
		_, _ = rng.Read(c)
		w, err := softroce.NewWorld(des.New(), 2, softroce.DefaultWorld())
		if err != nil {
			t.Fatal(err)
		}
		if err := verbs.Run(w.Device(0), func() error { return model(&c, w) }); err != nil {
			t.Fatal(err)
		}
	})
}

// choices steer the run. They are drawn before the run, which has a goroutine of its
// own.
type choices []byte

// below returns a number from 0 to n-1.
func (c *choices) below(n int) int {
	if len(*c) == 0 {
		return 0
	}
	b := (*c)[0]
	*c = (*c)[1:]
	return int(b) % n
}

func (c *choices) bool() bool { return c.below(2) == 1 }

// failure is a failed model's panic.
type failure string

// modelReporter ends the model at the first error.
type modelReporter struct{}

func (modelReporter) Helper()                   {}
func (modelReporter) Error(args ...any)         { panic(failure(fmt.Sprint(args...))) }
func (modelReporter) Fatal(args ...any)         { panic(failure(fmt.Sprint(args...))) }
func (modelReporter) Errorf(f string, a ...any) { panic(failure(fmt.Sprintf(f, a...))) }
func (modelReporter) Fatalf(f string, a ...any) { panic(failure(fmt.Sprintf(f, a...))) }

func model(c *choices, w *softroce.World) (err error) {
	defer func() {
		switch f := recover().(type) {
		case nil:
		case failure:
			err = errors.New(string(f))
		default:
			panic(f)
		}
	}()
	t := modelReporter{}
	l := &lab{t: t}
	vectors := c.bool()
	entries := 32 << c.below(3)
	var ends [2]*end
	for i := range l.devs {
		l.devs[i] = w.Device(i)
		p := newProgram(t, l.devs[i], vectors)
		l.p[i] = p
		q := p.newCQ(entries, 64<<c.below(2))
		addr, mr := p.reg(4096, anyAccess)
		ends[i] = &end{x: p.newQP(pairConfig{typ: ib.RC, blocks: 8, recvs: 8, stride: 64}, q, q), buffer: sge(mr, addr, 200)}
	}
	ends[0].peer, ends[1].peer = ends[1], ends[0]
	l.connect(ends[0].x, ends[1].x)
	settle := func() {
		for _, e := range ends {
			e.ring()
		}
		l.scan()
		for _, e := range ends {
			e.poll(t)
		}
	}
	for len(*c) > 0 {
		e := ends[c.below(2)]
		switch c.below(12) {
		case 0, 1, 2:
			if len(e.recvs) < e.x.recvs-1 {
				e.nextID++
				e.x.recv(e.nextID, e.buffer)
				e.recvs = append(e.recvs, e.nextID)
			}
		case 3, 4, 5:
			e.request(c)
		case 6:
			e.ring()
		case 7:
			for range c.below(40) {
				l.p[c.below(2)].e.Scan()
			}
		case 8:
			e.poll(t)
		case 9:
			q := e.x.sendCQ
			if q.events > e.events { // take the event first
				q.sn++
				e.events = q.events
			}
			e.poll(t)
			q.arm(c.bool())
		case 10:
			settle()
			for i, e := range ends {
				for _, r := range e.sends {
					if r.signaled {
						t.Fatalf("end %d: request %+v gave no CQE", i, r)
					}
				}
				if len(e.messages) > 0 && !e.failed {
					t.Fatalf("end %d: messages %v have not come", i, e.messages)
				}
			}
		case 11:
			settle()
			if !e.failed && !e.peer.failed && c.bool() {
				e.failed = true
				e.x.toState(ib.Err)
				break
			}
			for _, e := range ends {
				e.x.toState(ib.Reset)
				for e.x.sendCQ.peek(e.x.sendCQ.ci) != nil { // mlx5_cq_clean
					e.x.sendCQ.poll()
				}
				e.x.reset()
				*e = end{x: e.x, peer: e.peer, buffer: e.buffer, nextID: e.nextID, events: e.events}
			}
			l.connect(ends[0].x, ends[1].x)
		}
		for i, e := range ends {
			if q := e.x.sendCQ; q.events > e.events+1 || q.failed > 0 || e.x.failed > 0 {
				t.Fatalf("end %d: %d events for an arm, errors of the CQ %d, of the queue pair %d", i, q.events-e.events, q.failed, e.x.failed)
			}
		}
	}
	for _, p := range l.p {
		if n := p.mem.strayed.Load(); n > 0 {
			t.Fatalf("%d accesses outside", n)
		}
	}
	return nil
}

// request writes a request to the ring if there is room, and a receive for it if it takes
// one.
func (e *end) request(c *choices) {
	e.nextID++
	w := wr{id: e.nextID, opcode: []uint8{connectx.OpNOP, connectx.OpSendImm}[c.below(2)], imm: uint32(e.nextID)}
	r := posted{id: w.id, message: w.opcode == connectx.OpSendImm}
	// A ring of requests that give no CQE would be full for ever.
	if r.signaled = c.bool() || e.x.cur-e.tail >= 2; r.signaled {
		w.flags |= signal
	}
	if c.bool() {
		w.flags |= connectx.Solicited
	}
	if c.bool() {
		w.inline = make([]byte, 1+c.below(200))
		if w.opcode == connectx.OpNOP {
			w.inline = nil
		}
	}
	b := e.x.encode(&w)
	if e.x.cur+uint32(len(b)+63)/64-e.tail > uint32(e.x.blocks) {
		return
	}
	if e.peer.failed && !e.failed {
		return // it would be retried for long
	}
	if r.message && !e.failed {
		if len(e.peer.messages) >= len(e.peer.recvs) {
			return
		}
		e.peer.messages = append(e.peer.messages, w.imm)
	}
	e.x.write(w.id, b)
	r.end = e.x.cur
	e.sends = append(e.sends, r)
}

func (e *end) ring() {
	if e.rung != len(e.sends) {
		e.rung = len(e.sends)
		e.x.ring()
	}
}

// poll takes the CQEs and compares them with what is due.
func (e *end) poll(t reporter) {
	for w, ok := e.x.sendCQ.poll(); ok; w, ok = e.x.sendCQ.poll() {
		flushed := w.status == 5
		if (flushed || w.status != 0) && !e.failed {
			// The peer has failed, or has what the model did not see coming.
			if !e.peer.failed {
				t.Fatalf("status %#x", w.status)
			}
			e.failed = true
		}
		switch w.opcode {
		case connectx.CQEReq, connectx.CQEReqErr:
			for len(e.sends) > 0 && e.sends[0].id != w.id {
				if r := e.sends[0]; r.signaled {
					t.Fatalf("request %+v was passed over by %+v", r, w)
				}
				e.drop()
			}
			if len(e.sends) == 0 {
				t.Fatalf("a CQE of no request: %+v", w)
			}
			if !e.sends[0].signaled && w.opcode == connectx.CQEReq {
				t.Fatalf("%+v was not signaled", w)
			}
			e.drop()
		default:
			if len(e.recvs) == 0 || e.recvs[0] != w.id {
				t.Fatalf("receive %+v, expected %v", w, e.recvs)
			}
			e.recvs = e.recvs[1:]
			if w.opcode == connectx.CQERespErr {
				continue
			}
			if len(e.messages) == 0 || e.messages[0] != w.imm {
				t.Fatalf("message %d, expected %v", w.imm, e.messages)
			}
			e.messages = e.messages[1:]
		}
	}
}

// drop takes the oldest request.
func (e *end) drop() {
	e.tail = e.sends[0].end
	e.sends = e.sends[1:]
	e.rung--
}
