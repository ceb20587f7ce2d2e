package core_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/completions"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced/internal/core"
)

// groupLimit is more than a queue pair's own.
const groupLimit = 3 * limit

// heard is an engine that keeps what it is told, and says what it is to say.
type heard struct {
	control        cc.Control
	acks           []cc.Ack
	cnps, timeouts int
}

func (h *heard) OnAck(a *cc.Ack) cc.Control {
	h.acks = append(h.acks, *a)
	return h.control
}
func (h *heard) OnLoss(units.Time) cc.Control { return h.control }
func (h *heard) OnCNP(units.Time) cc.Control {
	h.cnps++
	return h.control
}
func (h *heard) OnTimeout(units.Time) cc.Control {
	h.timeouts++
	return h.control
}
func (h *heard) Control() cc.Control { return h.control }

// flock is a group, with a provider that completes what it is told to.
type flock struct {
	t       reporter
	core    *core.Core
	group   core.Group
	engine  heard
	members []*member
	now     units.Time
	ids     uint64
	sample  core.Sample
}

type reporter interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
	Errorf(string, ...any)
}

type member struct {
	core.QP
	place  core.Member
	flight []posted
	sent   units.Bytes
	owed   int // requests that have not completed
	sends  completions.Queue
}

func newFlock(t reporter, control cc.Control, members int) *flock {
	f := &flock{t: t, engine: heard{control: control}}
	var err error
	if f.core, err = core.New(core.Config{Batch: 4, BaseRTT: 20 * units.Microsecond}, nil); err != nil {
		t.Fatal(err)
	}
	if err := f.core.AddGroup(&f.group, line); err != nil {
		t.Fatal(err)
	}
	f.group.Start(0, &f.engine, segment, groupLimit)
	for range members {
		f.add(1, 0)
	}
	return f
}

func (f *flock) add(weight, class int) *member {
	m := &member{}
	i := len(f.members)
	if err := f.core.Add(&m.QP, &core.QPConfig{
		Number: uint32(i), Index: i, Cap: verbs.QPCap{MaxSendWR: 8, MaxSendSGE: 1}, Segment: segment, Depth: depth, Limit: limit, Line: line, MTU: 1024,
	}); err != nil {
		f.t.Fatal(err)
	}
	f.members = append(f.members, m)
	f.join(i, weight, class)
	return m
}

// join puts a queue pair that was cleared or is new in the group.
func (f *flock) join(i, weight, class int) {
	m := f.members[i]
	f.ids++
	m.Name(f.ids << 32)
	m.Join(&m.place, &f.group, weight, class, 0)
	m.Start(f.now, nil, line, limit, 0)
	m.SetTimeout(8) // a millisecond
	m.Resume(f.now)
}

func (f *flock) post(m *member, op ib.WROpcode, length uint32) {
	if m.Room() == 0 {
		return
	}
	f.ids++
	wr := verbs.SendWR{WRID: f.ids, Opcode: op, Flags: verbs.SendSignaled, SGL: []verbs.SGE{{Length: length}}}
	if err := m.Check(&wr); err != nil || !m.Accept(&wr) {
		f.t.Fatalf("a request was refused: %v", err)
	}
	m.owed++
	if m.State() == ib.Err {
		f.finish(m)
		return
	}
	m.Offer(f.now)
	f.send()
}

// send posts what is due, and holds it to the group's rate and window.
func (f *flock) send() {
	for f.core.Due(f.now) > 0 {
		var b core.Batch
		for i, ok := f.core.Next(0, &b); ok; i, ok = f.core.Next(i, &b) {
			m := f.members[b.QP.Index()]
			for _, wr := range b.WRs {
				n := units.Bytes(wr.Length())
				m.flight = append(m.flight, posted{wrid: wr.WRID, bytes: uint32(n)})
				m.sent += n
				if out, _ := f.out(); n > 0 && out > n && (out > f.group.Control().Window || out > groupLimit) {
					f.t.Fatalf("%d bytes are out, and the window is %d", out, f.group.Control().Window)
				}
			}
			if _, failed := f.core.Posted(f.now, &b, len(b.WRs), core.Refusal{}); failed {
				f.t.Fatalf("the queue pair failed")
			}
		}
	}
}

// out is the payload of a member that the provider has, and the number of segments that have some.
func (m *member) out() (sum units.Bytes, segments int) {
	for _, s := range m.flight {
		sum += units.Bytes(s.bytes)
		if s.bytes > 0 {
			segments++
		}
	}
	return sum, segments
}

// out is that of all members.
func (f *flock) out() (sum units.Bytes, segments int) {
	for _, m := range f.members {
		bytes, n := m.out()
		sum, segments = sum+bytes, segments+n
	}
	return sum, segments
}

func (f *flock) complete(m *member, status ib.WCStatus) {
	s := m.flight[0]
	m.flight = m.flight[1:]
	wc := verbs.WC{WRID: s.wrid, Status: status}
	if _, ok := m.Complete(&wc, &f.sample.Segment); !ok {
		f.t.Fatalf("the core does not know segment %#x", s.wrid)
	}
	if status == ib.WCSuccess {
		f.core.Measure(f.now, &m.QP, &wc, &f.sample)
	} else {
		m.Fail(f.now)
	}
	f.finish(m)
	m.File(f.now)
	f.send()
}

func (f *flock) finish(m *member) {
	for m.Finish(&m.sends) != nil {
		m.owed--
	}
	var wc [8]verbs.WC
	for m.sends.Pop(wc[:]) > 0 {
	}
}

// work completes what is out and lets time pass, until the time is over or nothing is left to do.
func (f *flock) work(until units.Time) {
	for f.now < until {
		for _, m := range f.members {
			if len(m.flight) > 0 {
				f.complete(m, ib.WCSuccess)
			}
		}
		at := f.core.NextDue()
		if f.core.InFlight() > 0 {
			at = min(at, f.now+units.Microsecond)
		}
		if at == units.Never {
			return
		}
		f.now = min(max(at, f.now), until)
		f.send()
	}
}

// keep keeps members busy with Writes of a megabyte until the time is over.
func (f *flock) keep(until units.Time, busy ...*member) {
	for f.now < until {
		for _, m := range busy {
			for m.Room() > 0 {
				f.post(m, ib.WRRDMAWrite, 1<<20)
			}
		}
		f.work(min(f.now+20*units.Microsecond, until))
	}
}

// A group has the rate of one flow, whatever its members post.
func TestGroupRate(t *testing.T) {
	for _, n := range []int{1, 3, 40} {
		f := newFlock(t, cc.Control{Rate: 10 * units.Gbps, Window: cc.Unlimited}, n)
		f.keep(10*units.Millisecond, f.members...)
		sum := units.Bytes(0)
		for _, m := range f.members {
			sum += m.sent
		}
		want := (10 * units.Gbps).BytesIn(10 * units.Millisecond)
		if sum < want*99/100 || sum > want+2*segment {
			t.Errorf("%d members sent %v in 10 ms at 10 Gbps, expected %v", n, sum, want)
		}
	}
}

// A rate that one member is capped to is its group's.
func TestGroupCap(t *testing.T) {
	f := newFlock(t, cc.Control{Rate: 10 * units.Gbps, Window: cc.Unlimited}, 4)
	f.members[2].Cap(units.Gbps)
	f.keep(10*units.Millisecond, f.members...)
	sum := units.Bytes(0)
	for _, m := range f.members {
		sum += m.sent
	}
	want := units.Gbps.BytesIn(10 * units.Millisecond)
	if sum < want*99/100 || sum > want+2*segment {
		t.Errorf("4 members sent %v in 10 ms at 1 Gbps, expected %v", sum, want)
	}
}

// Members share by weight, in bytes, also where one sends messages that are not cut, and
// what an idle one leaves goes to the others at once.
func TestGroupWeights(t *testing.T) {
	f := newFlock(t, cc.Control{Rate: 20 * units.Gbps, Window: cc.Unlimited}, 0)
	a, b, c := f.add(1, 0), f.add(2, 0), f.add(5, 0)
	f.keep(20*units.Millisecond, a, b, c)
	for _, x := range []struct {
		m    *member
		want units.Bytes
	}{{b, 2 * a.sent}, {c, 5 * a.sent}} {
		if d := x.m.sent - x.want; d < -12*segment || d > 12*segment {
			t.Errorf("sent %v, expected %v by weight", x.m.sent, x.want)
		}
	}
	f.work(units.Second)
	sent := a.sent
	from := f.now
	f.keep(from+5*units.Millisecond, a)
	if got, want := a.sent-sent, (20 * units.Gbps).BytesIn(5*units.Millisecond); got < want*99/100 {
		t.Errorf("alone it sent %v in 5 ms, expected %v", got, want)
	}
}

// A higher class goes first and leaves a hundredth to those that wait; what it does not use
// is theirs.
func TestGroupClasses(t *testing.T) {
	f := newFlock(t, cc.Control{Rate: 20 * units.Gbps, Window: cc.Unlimited}, 0)
	low, mid, high := f.add(1, 0), f.add(1, 1), f.add(1, 3)
	f.keep(50*units.Millisecond, low, mid, high)
	for _, m := range []*member{low, mid} {
		if share := float64(m.sent) / float64(high.sent); share < 0.008 || share > 0.012 {
			t.Errorf("a lower class has %.4f of what the highest sent, expected 0.01", share)
		}
	}
	f.work(units.Second)
	sent := low.sent
	f.keep(f.now+5*units.Millisecond, low)
	if low.sent-sent < (20*units.Gbps).BytesIn(5*units.Millisecond)*99/100 {
		t.Errorf("the lower class did not get what the higher ones left")
	}
}

// A small request of a higher class waits for one segment's time, and not for what lower
// ones have queued.
func TestGroupUrgent(t *testing.T) {
	f := newFlock(t, cc.Control{Rate: units.Gbps, Window: cc.Unlimited}, 20)
	f.keep(5*units.Millisecond, f.members...)
	m := f.add(1, 2)
	at := f.now
	f.post(m, ib.WRRDMAWrite, 64)
	for m.sent == 0 {
		f.now = max(f.core.NextDue(), f.now)
		f.send()
		for _, x := range f.members {
			for len(x.flight) > 0 && m.sent == 0 {
				f.complete(x, ib.WCSuccess)
			}
		}
	}
	if waited := f.now - at; waited > units.Gbps.Serialize(segment) {
		t.Errorf("it waited %v, expected at most %v", waited, units.Gbps.Serialize(segment))
	}
}

// Small requests that go before a long segment cost the group their own bytes of its rate.
func TestGroupRateOfUnequals(t *testing.T) {
	f := newFlock(t, cc.Control{Rate: 10 * units.Gbps, Window: cc.Unlimited}, 1)
	bulk, urgent := f.members[0], f.add(1, 1)
	for f.now < 10*units.Millisecond {
		f.post(urgent, ib.WRRDMAWrite, 64)
		f.keep(f.now+20*units.Microsecond, bulk)
	}
	if sum, want := bulk.sent+urgent.sent, (10 * units.Gbps).BytesIn(f.now); sum < want*99/100 || sum > want+2*segment {
		t.Errorf("both sent %v in %v, expected %v", sum, f.now, want)
	}
}

// What a queue pair had with the provider when it was reset no longer holds others back.
func TestGroupResetOpensTheWindow(t *testing.T) {
	f := newFlock(t, cc.Control{Rate: line, Window: segment}, 2)
	a, b := f.members[0], f.members[1]
	f.post(a, ib.WRRDMAWrite, uint32(segment))
	f.post(b, ib.WRRDMAWrite, uint32(segment))
	if a.sent != segment || b.sent != 0 {
		t.Fatalf("%v and %v left, expected one segment by the window", a.sent, b.sent)
	}
	a.Clear(f.now, &a.sends)
	a.flight = nil
	a.Leave()
	f.send()
	if b.sent != segment {
		t.Errorf("the other queue pair still waits")
	}
}

// A segment that the window holds back when it is due leaves as soon as the window opens: it
// costs no pace.
func TestGroupWindowCostsNoPace(t *testing.T) {
	f := newFlock(t, cc.Control{Rate: units.Gbps, Window: cc.Unlimited}, 2)
	a, b := f.members[0], f.members[1]
	for _, m := range []*member{a, b, a} {
		f.post(m, ib.WRRDMAWrite, uint32(segment))
	}
	gap := units.Gbps.Serialize(segment)
	f.now = gap
	f.send() // b's
	f.engine.control.Window = 1
	f.complete(a, ib.WCSuccess)
	f.now = 2*gap + gap/4
	f.send()
	if a.sent != segment || b.sent != segment {
		t.Fatalf("%v and %v left, expected a segment of each", a.sent, b.sent)
	}
	f.complete(b, ib.WCSuccess)
	if a.sent != 2*segment {
		t.Errorf("the third segment is due at %v, and waits at %v", f.core.NextDue(), f.now)
	}
}

// The engine hears of a timeout that several members see once, and of notifications once in
// 50 us; it learns the bytes of all.
func TestGroupSignals(t *testing.T) {
	f := newFlock(t, cc.Control{Rate: line, Window: cc.Unlimited}, 8)
	for _, m := range f.members {
		f.post(m, ib.WRRDMAWrite, uint32(segment))
	}
	f.now += 2 * units.Millisecond // past each one's timer
	for i, m := range f.members {
		f.now += units.Microsecond
		f.complete(m, ib.WCSuccess)
		if i == 3 { // one that begins anew meanwhile, and is a sample
			f.post(m, ib.WRRDMAWrite, uint32(segment))
			f.now += units.Microsecond
			f.complete(m, ib.WCSuccess)
		}
	}
	if f.engine.timeouts != 1 || len(f.engine.acks) != 1 {
		t.Errorf("the engine heard of %d timeouts and %d acknowledgements, expected one of each", f.engine.timeouts, len(f.engine.acks))
	}
	f.engine.acks = nil
	fresh := uint64(0)
	f.sample.CountsCNPs = true
	for i := range 10 {
		for _, m := range f.members {
			f.post(m, ib.WRRDMAWrite, uint32(segment))
		}
		f.now += 10 * units.Microsecond
		for _, m := range f.members {
			f.sample.CNPs = uint64(3 * (i + 1))
			f.complete(m, ib.WCSuccess)
			fresh += f.sample.FreshCNPs
		}
	}
	if f.engine.cnps != 2 || fresh != 6 {
		t.Errorf("the engine heard %d times of %d notifications in 90 us, expected 2 times of 3", f.engine.cnps, fresh)
	}
	a := f.engine.acks[len(f.engine.acks)-1]
	if want := units.Bytes(8+1+80) * segment; a.Sent != want || a.Acked != want {
		t.Errorf("the last acknowledgement says %d acknowledged of %d sent, expected %d of each", a.Acked, a.Sent, want)
	}
}

// Whatever members post, fail, leave and join: the window and each queue pair's own bound
// hold, no segment leaves before the rate allows, and nothing is left behind.
func TestGroupProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		control := func() cc.Control {
			return cc.Control{
				Rate:   rapid.SampledFrom([]units.Rate{units.Gbps, 7 * units.Gbps, line}).Draw(t, "rate"),
				Window: rapid.SampledFrom([]units.Bytes{1, segment, 3*segment + 1, cc.Unlimited}).Draw(t, "window"),
			}
		}
		f := newFlock(t, control(), rapid.IntRange(1, 5).Draw(t, "members"))
		check := func() {
			out, _ := f.out()
			if got := f.group.Outstanding(); got != out {
				t.Fatalf("the group counts %d bytes, %d are out", got, out)
			}
			for _, m := range f.members {
				if bytes, n := m.out(); bytes > limit && n > 1 {
					t.Fatalf("%d bytes of a queue pair are out, its bound is %d", bytes, limit)
				}
			}
		}
		pick := func() *member { return f.members[rapid.IntRange(0, len(f.members)-1).Draw(t, "member")] }
		t.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) { check() },
			"post": func(t *rapid.T) {
				op := rapid.SampledFrom([]ib.WROpcode{ib.WRRDMAWrite, ib.WRRDMARead, ib.WRSend}).Draw(t, "opcode")
				f.post(pick(), op, rapid.SampledFrom([]uint32{0, 1, uint32(segment), 9*uint32(segment) - 1}).Draw(t, "bytes"))
			},
			"complete": func(*rapid.T) {
				if m := pick(); len(m.flight) > 0 {
					f.complete(m, ib.WCSuccess)
				}
			},
			"fail": func(t *rapid.T) {
				if m := pick(); len(m.flight) > 0 && rapid.IntRange(0, 9).Draw(t, "whether") == 0 {
					f.complete(m, ib.WCRemAccessErr)
				}
			},
			"steer": func(*rapid.T) { f.engine.control = control() },
			"share": func(t *rapid.T) {
				pick().place.SetShare(rapid.IntRange(1, 3).Draw(t, "weight"), rapid.IntRange(0, core.Classes-1).Draw(t, "class"))
			},
			"stop": func(*rapid.T) {
				m := pick()
				if m.State() != ib.RTS {
					return
				}
				m.Stop(f.now, ib.SQD)
				f.send()
				m.Resume(f.now)
				f.send()
			},
			"renew": func(t *rapid.T) {
				i := rapid.IntRange(0, len(f.members)-1).Draw(t, "index")
				m := f.members[i]
				m.Clear(f.now, &m.sends)
				m.flight, m.owed = nil, 0
				f.send()
				if g := m.Leave(); g != nil { // the last one: the group goes on here
					t.Log("empty")
				}
				f.join(i, 1+i%3, i%core.Classes)
				f.send()
			},
			"time": func(t *rapid.T) {
				f.now += units.Time(rapid.Int64Range(0, int64(100*units.Microsecond)).Draw(t, "time"))
				f.send()
			},
			"days": func(*rapid.T) {
				origin := f.core.Long(f.now)
				f.now = f.core.Now(origin.Add(1 << 60))
				f.send()
			},
		})
		for range 10_000 {
			f.work(f.now + units.Millisecond)
			left := 0
			for _, m := range f.members {
				for m.State() == ib.Err && len(m.flight) > 0 {
					f.complete(m, ib.WCWRFlushErr)
				}
				left += m.owed
			}
			if left == 0 {
				break
			}
		}
		for i, m := range f.members {
			if m.owed > 0 {
				t.Fatalf("%d requests of queue pair %d never ended", m.owed, i)
			}
		}
		if f.group.Outstanding() != 0 || f.core.Filed() != 0 || f.core.InFlight() != 0 {
			t.Fatalf("%d bytes are out, %d segments filed", f.group.Outstanding(), f.core.Filed())
		}
	})
}
