package mlx5

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/connectx"
)

// An arm gives one event, for a completion after its consumer index, also one that was
// there before it; none before the program has taken the last.
func TestArm(t *testing.T) {
	all(t, func(t *testing.T, l *lab) {
		x, y := l.rc(64, 64)
		q := y.recvCQ
		other := l.p[1].newCQ(16, 64) // never armed
		expect := func(n int, why string) {
			t.Helper()
			l.scan()
			if q.events != n {
				t.Fatalf("%s: %d events, expected %d", why, q.events, n)
			}
		}
		send := func(n int, flags uint8) {
			for range n {
				y.recv(0)
				x.post(wr{opcode: connectx.OpSend, flags: flags})
			}
			l.scan()
		}
		taken := func() { q.sn++ } // ibv_get_cq_event
		drain := func() {
			for _, ok := q.poll(); ok; _, ok = q.poll() {
			}
		}
		send(1, 0)
		expect(0, "without an arm")
		drain()
		q.arm(false)
		expect(0, "nothing to complete")
		send(3, 0)
		expect(1, "three completions")
		drain()
		q.arm(false) // before the event is taken
		send(1, 0)
		expect(1, "armed again with the same sequence number")
		taken()
		q.arm(false) // with one that was not polled
		expect(2, "a completion came before the arm")
		taken()
		drain()
		q.arm(true)
		send(2, 0)
		expect(2, "not solicited")
		send(1, connectx.Solicited)
		expect(3, "solicited")
		taken()
		q.arm(true) // the solicited one was not polled, but there was an event of it
		expect(3, "announced before the arm")
		drain()
		q.arm(true)
		send(2, 0)
		expect(3, "not solicited")
		q.arm(false) // for all after all
		expect(4, "armed for all")
		taken()
		drain()
		for i := range 9 { // the sequence number wraps
			q.arm(false)
			send(1, 0)
			expect(5+i, "once more")
			taken()
			drain()
		}
		q.arm(true)
		y.recv(0)
		y.toState(ib.Err)
		expect(14, "an error is always worth an event")
		if other.events != 0 || x.sendCQ.events != 0 {
			t.Error("an event of a CQ that was not armed")
		}
	})
}

// Moderation holds an event back for a number of completions, or for a time after the
// first of them.
func TestModerate(t *testing.T) {
	const us = time.Microsecond
	all(t, func(t *testing.T, l *lab) {
		x, y := l.rc(64, 64)
		q, p := y.recvCQ, l.p[1]
		step := func(sends int, after time.Duration, events int, wait time.Duration) {
			t.Helper()
			for range sends {
				y.recv(0)
				x.post(wr{opcode: connectx.OpSend})
			}
			p.clock += after
			l.scan()
			due, any := p.e.Due()
			if q.events != events || any != (wait > 0) || any && due != wait {
				t.Fatalf("%d events, due in %v (%v); expected %d and %v", q.events, due, any, events, wait)
			}
		}
		moderate := func(count uint16, period time.Duration) {
			t.Helper()
			if err := q.cq.Moderate(count, period); err != nil {
				t.Fatal(err)
			}
		}
		next := func() {
			q.sn++
			for _, ok := q.poll(); ok; _, ok = q.poll() {
			}
			q.arm(false)
		}
		moderate(4, 0)
		q.arm(false)
		step(3, time.Second, 0, 0)
		step(1, 0, 1, 0)
		next()
		step(0, 0, 1, 0)
		step(3, 0, 1, 0)
		q.sn++
		q.arm(false)
		for range 3 { // that they were polled changes nothing
			q.poll()
		}
		step(1, 0, 2, 0)
		next()
		moderate(0, 10*us)
		step(0, 0, 2, 0)
		step(1, 0, 2, 10*us)
		step(1, 4*us, 2, 6*us) // the first counts
		step(0, 5*us, 2, us)
		step(0, us, 3, 0)
		next()
		moderate(2, 10*us)
		step(1, 0, 3, 10*us)
		step(1, us, 4, 0) // the number comes first
		next()
		step(1, 0, 4, 10*us)
		step(0, 10*us, 5, 0) // the time does
		next()
		moderate(100, 0)
		step(1, 0, 5, 0)
		moderate(0, 0)
		step(0, 0, 6, 0)
	})
}

// Stores of arms and sends overwrite each other; each is noticed by its record.
func TestArmsTogether(t *testing.T) {
	all(t, func(t *testing.T, l *lab) {
		p := l.p[0]
		x, _ := l.rc(64, 64)
		qs := []*queue{x.sendCQ}
		for range 600 {
			qs = append(qs, p.newCQ(4, 64))
		}
		for _, q := range qs {
			q.arm(false)
		}
		x.post(wr{opcode: connectx.OpNOP, flags: signal})
		l.scan()
		for i, q := range qs {
			if want := map[bool]int{true: 1}[i == 0]; q.events != want {
				t.Errorf("CQ %d: %d events, expected %d", i, q.events, want)
			}
		}
	})
}

// A CQ moves to a larger or smaller ring with other entries; what was not polled stays.
func TestResize(t *testing.T) {
	both(t, func(t *testing.T, l *lab) {
		x, _ := l.rc(64, 0)
		q := x.sendCQ
		nop := wr{opcode: connectx.OpNOP, flags: signal}
		id := uint64(0)
		post := func(n int) {
			for range n {
				nop.id = id
				id++
				x.post(nop)
			}
			l.scan()
		}
		next := uint64(0)
		poll := func(n int) {
			t.Helper()
			for range n {
				if w, ok := q.poll(); !ok || w.id != next || w.status != 0 {
					t.Fatalf("CQE %d: %+v, %v", next, w, ok)
				}
				next++
			}
		}
		for _, c := range []struct{ posted, polled, entries, size int }{
			{10, 3, 64, 128}, {20, 20, 16, 64}, {2, 4, 16, 64}, {1, 0, 1024, 128}, {0, 6, 16, 64},
		} {
			post(c.posted)
			poll(c.polled)
			buffer := l.p[0].newRing(c.entries, c.size)
			if err := q.cq.Resize(buffer, c.entries, c.size); err != nil {
				t.Fatal(err)
			}
			q.copyTo(t, buffer, c.entries, c.size)
			post(2)
			poll(2)
		}
		poll(int(id - next))
		if _, ok := q.poll(); ok {
			t.Error("one CQE too many")
		}
		for _, c := range [][2]int{{7, 64}, {16, 32}, {0, 64}, {1 << 23, 64}} {
			if q.cq.Resize(memoryBase, c[0], c[1]) == nil {
				t.Errorf("resized to %v", c)
			}
		}
		for _, c := range []struct{ posted, entries int }{{12, 8}, {4, 64}} { // too many for the new ring, and for the old one
			post(c.posted)
			if err := q.cq.Resize(l.p[0].newRing(c.entries, 64), c.entries, 64); !errors.Is(err, verbs.ErrInvalid) {
				t.Errorf("%d CQEs in a ring of %d: %v", id-next, c.entries, err)
			}
		}
		poll(16)
	})
}

// copyTo does what libmlx5 does after a resize: it moves what was not polled to the new
// ring, one index on, until the entry that says that the device is there.
func (q *queue) copyTo(t *testing.T, buffer uint64, entries, size int) {
	t.Helper()
	i := q.ci
	for ; ; i++ {
		b := q.peek(i)
		if b == nil {
			t.Fatal("no RESIZE_CQ entry")
		}
		if b[q.size-1]>>4 == connectx.CQEResize {
			break
		}
		at := int(i+1) & (entries - 1)
		to := q.p.mem.at(buffer+uint64(at*size), size)
		copy(to[size-64:], b[q.size-64:])
		to[size-1] &^= 1
		if int(i+1)&entries != 0 {
			to[size-1] |= 1
		}
	}
	q.ci++
	q.buffer, q.entries, q.size = buffer, entries, size
}

// CQEs that come together are one session, up to what ends it: an immediate, a solicited
// event, another queue pair, an error. None is lost, also where sessions wrap around.
func TestCompression(t *testing.T) {
	const sends, entries = 40, 64
	sessions := compressed(t, func(t *testing.T, l *lab) {
		x, y := l.rc(64, 64)
		q := l.p[1].newCQ(entries, 64)
		var xs, ys [2]*pair
		for i := range xs {
			xs[i] = l.p[0].newQP(pairConfig{typ: ib.RC, blocks: 64}, x.sendCQ, x.sendCQ)
			ys[i] = l.p[1].newQP(pairConfig{typ: ib.RC, blocks: 1, recvs: 64, stride: 64}, y.sendCQ, q)
			l.connect(xs[i], ys[i])
		}
		a, ma := l.p[0].reg(4096, anyAccess)
		b, mb := l.p[1].reg(4096, anyAccess)
		special := map[int]wr{5: {opcode: connectx.OpSendImm, imm: 7}, 6: {opcode: connectx.OpSendImm, imm: 7}, 7: {opcode: connectx.OpSendImm, imm: 8}, 20: {opcode: connectx.OpSend, flags: connectx.Solicited}}
		expect := func(q *queue, id, bytes int) {
			t.Helper()
			w, ok := q.poll()
			s := special[id]
			if recv := bytes >= 0; !ok || w.id != uint64(id) || w.status != 0 || recv && (w.bytes != uint32(bytes) || w.imm != s.imm || w.se != (s.flags != 0)) {
				t.Fatalf("CQE of %d: %+v, %v", id, w, ok)
			}
		}
		for range 5 {
			for i := range sends {
				ys[0].recv(uint64(i), sge(mb, b, 100))
				w := special[i]
				if w.opcode == 0 {
					w.opcode = connectx.OpSend
				}
				w.id, w.flags, w.sgl = uint64(i), w.flags|signal, []verbs.SGE{sge(ma, a, 1+i)}
				xs[0].post(w)
			}
			ys[1].recv(77, sge(mb, b, 100))
			xs[1].post(wr{id: 77, opcode: connectx.OpSend, flags: signal, sgl: []verbs.SGE{sge(ma, a, 99)}})
			// All arrives before the device looks.
			l.p[0].e.Scan()
			for range 100 {
				verbs.Sleep(l.devs[0], 100*time.Microsecond)
				if _, err := ys[0].recvCQ.cq.cfg.Backend.Poll(nil); err != nil {
					t.Fatal(err)
				}
			}
			l.scan()
			one := 0
			for i := range sends + 1 {
				if b := q.peek(q.ci); b != nil && binary.BigEndian.Uint32(b[32:]) == ys[1].user {
					expect(q, 77, 99)
					one++
					continue
				}
				expect(q, i-one, 1+i-one)
			}
			for one = 0; one < sends; one++ {
				if b := x.sendCQ.peek(x.sendCQ.ci); b != nil && binary.BigEndian.Uint32(b[32:]) == xs[1].user {
					expect(x.sendCQ, 77, -1)
				}
				expect(x.sendCQ, one, -1)
			}
			for _, ok := x.sendCQ.poll(); ok; _, ok = x.sendCQ.poll() {
			}
		}
	})
	if sessions == 0 {
		t.Error("no CQEs were compressed")
	}
}

// A program that does not poll gets an error of its CQ, and none of its CQEs is lost.
func TestOverrun(t *testing.T) {
	all(t, func(t *testing.T, l *lab) {
		q := l.p[0].newCQ(16, 64)
		p := l.p[1].newCQ(16, 64)
		x := l.p[0].newQP(pairConfig{typ: ib.RC, blocks: 32}, q, q)
		l.connect(x, l.p[1].newQP(pairConfig{typ: ib.RC, blocks: 1}, p, p))
		for i := range 17 {
			x.post(wr{id: uint64(i), opcode: connectx.OpNOP, flags: signal})
			l.scan()
			if want := map[bool]int{true: 1}[i == 16]; q.failed != want {
				t.Fatalf("after %d CQEs: %d errors", i+1, q.failed)
			}
		}
		for i := range 16 {
			if w, ok := q.poll(); !ok || w.id != uint64(i) {
				t.Errorf("CQE %d: %+v", i, w)
			}
		}
		if _, ok := q.poll(); ok {
			t.Error("a CQE after the error")
		}
	})
}

// A CQE is the program's with the last byte that is written, whether the program looks at
// the opcode or at the owner bit alone.
func TestOwnerLast(t *testing.T) {
	both(t, func(t *testing.T, l *lab) {
		for _, size := range []int{64, 128} {
			q := l.p[0].newCQ(8, size)
			p := l.p[1].newCQ(8, 64)
			x := l.p[0].newQP(pairConfig{typ: ib.RC, blocks: 32}, q, q)
			l.connect(x, l.p[1].newQP(pairConfig{typ: ib.RC, blocks: 1}, p, p))
			bodies := 0
			l.p[0].mem.wrote = func(addr uint64, n int) {
				if addr < q.buffer || addr >= q.buffer+uint64(8*size) || n == 1 {
					return
				}
				for at := addr; at < addr+uint64(n); at += uint64(size) {
					own := l.p[0].mem.at(at+uint64(size)-1, 1)[0]
					lap := q.cq.produced - 1 // of the batch's last
					for lap%8 != uint32(at-q.buffer)/uint32(size) {
						lap--
					}
					if own>>4 != connectx.CQEInvalid || own&1 == uint8(lap/8)&1 {
						t.Errorf("CQE %d is the program's too soon: %#x", lap, own)
					}
					bodies++
				}
			}
			for i := range 40 {
				nop := wr{opcode: connectx.OpNOP, flags: signal}
				x.post(nop, nop, nop)
				for range 3 {
					if w := l.until(q); w.status != 0 {
						t.Fatalf("round %d: %+v", i, w)
					}
				}
			}
			l.p[0].mem.wrote = nil
			if bodies != 120 {
				t.Errorf("%d CQEs of %d bytes, expected 120", bodies, size)
			}
		}
	})
}

// Receives of an SRQ go to the queue pair whose message came, in the list's order; the
// limit's event comes once.
func TestSRQ(t *testing.T) {
	all(t, func(t *testing.T, l *lab) {
		a, ma := l.p[0].reg(4096, anyAccess)
		b, mb := l.p[1].reg(1<<16, anyAccess)
		fill(l.p[0].mem.at(a, 4096), 3)
		s := l.p[1].newSRQ(16, 64)
		q, r := l.p[0].newCQ(64, 64), l.p[1].newCQ(64, 64)
		var xs, ys []*pair
		for range 3 {
			x := l.p[0].newQP(pairConfig{typ: ib.RC, blocks: 16}, q, q)
			y := l.p[1].newQP(pairConfig{typ: ib.RC, blocks: 16, srq: s}, r, r)
			l.connect(x, y)
			xs, ys = append(xs, x), append(ys, y)
		}
		s.srq.SetLimit(3)
		if s.limits != 1 {
			t.Error("an empty queue is below its limit")
		}
		id := uint64(0)
		fillUp := func() {
			for s.post(id, sge(mb, b+id%64*64, 64)) {
				id++
			}
		}
		fillUp()
		s.srq.SetLimit(3)
		next := uint64(0)
		for i := range 200 {
			k := i * i % 3
			xs[k].post(wr{id: uint64(i), opcode: connectx.OpSend, flags: signal, sgl: []verbs.SGE{sge(ma, a, 1+i%60)}})
			w := l.until(r)
			if w.id != next || w.user != ys[k].user || int(w.bytes) != 1+i%60 || w.status != 0 {
				t.Fatalf("message %d: %+v, expected receive %d of queue pair %d", i, w, next, k)
			}
			if !bytes.Equal(l.p[1].mem.at(b+next%64*64, 1+i%60), l.p[0].mem.at(a, 1+i%60)) {
				t.Fatalf("message %d brought something else", i)
			}
			next++
			l.until(q)
			if left := int(id - next); left < 3 {
				if s.limits != 2+i/13 || s.srq.Limit() != 0 {
					t.Fatalf("message %d: %d limit events", i, s.limits)
				}
				fillUp()
				s.srq.SetLimit(3)
			}
		}
		if err := s.srq.Close(); !errors.Is(err, verbs.ErrBusy) {
			t.Errorf("destroyed in use: %v", err)
		}
		// A list that leads outside the ring.
		for i := range 16 {
			s.wqe(i)[2] = 0xff
		}
		for range 16 { // some were fetched already
			xs[0].post(wr{opcode: connectx.OpSend})
			l.scan()
		}
		if s.failed != 1 {
			t.Errorf("%d errors of the SRQ", s.failed)
		}
		for i := range xs {
			for _, x := range []*pair{xs[i], ys[i]} {
				if err := x.qp.Close(); err != nil {
					t.Error(err)
				}
			}
		}
		if err := errors.Join(s.srq.Close(), q.cq.Close(), r.cq.Close(), l.p[0].page.Remove()); err != nil {
			t.Error(err)
		}
	})
}

// Memory that the program takes away costs it the objects that lie there, and no more.
func TestUnmapped(t *testing.T) {
	for _, c := range []struct {
		name string
		at   func(x, y *pair) uint64
		send func(x, y *pair)
		ok   func(x, y *pair) bool
	}{
		{"send ring", func(x, _ *pair) uint64 { return x.sq }, func(x, _ *pair) { x.p.bell(blueFlame, 1); x.cur = 1 }, func(x, _ *pair) bool { return x.failed == 1 && x.qp.state == ib.Err }},
		{"doorbell record", func(x, _ *pair) uint64 { return x.record }, func(x, _ *pair) { x.p.bell(blueFlame, 1) }, func(x, _ *pair) bool { return x.failed == 1 && x.qp.state == ib.Err }},
		{"receive ring", func(_, y *pair) uint64 { return y.rq }, func(x, _ *pair) { x.post(wr{opcode: connectx.OpSend}) }, func(_, y *pair) bool { return y.failed == 1 && y.qp.state == ib.Err }},
		{"CQ", func(x, _ *pair) uint64 { return x.sendCQ.buffer }, func(x, _ *pair) { x.post(wr{opcode: connectx.OpNOP, flags: signal}) }, func(x, _ *pair) bool { return x.sendCQ.failed == 1 }},
		{"CQ's record", func(x, _ *pair) uint64 { return x.sendCQ.record }, func(x, _ *pair) { x.p.bell(0x20, 1) }, func(x, _ *pair) bool { return x.sendCQ.failed == 1 }},
		{"doorbell beyond the ring", nil, func(x, _ *pair) { x.cur = 17; x.ring() }, func(x, _ *pair) bool { return x.failed == 1 && x.qp.state == ib.Err }},
		{"receives beyond the ring", nil, func(x, y *pair) { y.recvHead = 16; y.recv(0); x.post(wr{opcode: connectx.OpSend}) }, func(_, y *pair) bool { return y.failed == 1 && y.qp.state == ib.Err }},
	} {
		all(t, func(t *testing.T, l *lab) {
			x, y := l.rc(16, 16)
			if c.at != nil {
				at := c.at(x, y)
				l.p[0].mem.refuse, l.p[1].mem.refuse = at, at
				if x.sq == at {
					l.p[0].mem.refuse = 0
					l.p[0].mem.put32(x.record+4, 1)
					l.p[0].mem.refuse = at
				}
			}
			c.send(x, y)
			l.scan()
			if !c.ok(x, y) {
				t.Errorf("%s: queue pairs failed %d and %d times, states %v and %v, CQs %d", c.name, x.failed, y.failed, x.qp.state, y.qp.state, x.sendCQ.failed)
			}
			l.p[0].mem.refuse, l.p[1].mem.refuse = 0, 0
		})
	}
}

// What comes back for a request, and what is received, is in the CQE if it fits, of
// either size, and the memory that the WQE names is the driver's to write. What is longer
// goes there.
func TestScatter(t *testing.T) {
	for _, size := range []int{64, 128} {
		limit := size / 2
		for n := range 2 * limit {
			scattered := scattered(t, func(t *testing.T, l *lab) {
				q, r := l.p[0].newCQ(64, size), l.p[1].newCQ(64, size)
				x := l.p[0].newQP(pairConfig{typ: ib.RC, blocks: 16}, q, q)
				y := l.p[1].newQP(pairConfig{typ: ib.RC, blocks: 1, recvs: 4, stride: 64}, r, r)
				l.connect(x, y)
				a, ma := l.p[0].reg(4096, anyAccess)
				b, mb := l.p[1].reg(4096, anyAccess)
				src, dst := l.p[0].mem.at(a, 4096), l.p[1].mem.at(b, 4096)
				fill(src, byte(n+1))
				first := n / 3
				y.recv(1, sge(mb, b, first), sge(mb, b+1000, 4*limit))
				x.post(wr{id: 2, opcode: connectx.OpSend, flags: signal, sgl: []verbs.SGE{sge(ma, a, n)}})
				l.scan()
				if placed := bytes.Equal(dst[1000:1000+n-first], src[first:n]); placed != (n > limit || n == 0) {
					t.Errorf("%d bytes placed before the CQE is polled: %v", n, placed)
				}
				if w, ok := r.poll(); !ok || w.bytes != uint32(n) {
					t.Fatalf("%d bytes: %+v, %v", n, w, ok)
				}
				if !bytes.Equal(dst[:first], src[:first]) || !bytes.Equal(dst[1000:1000+n-first], src[first:n]) {
					t.Errorf("%d bytes were not received", n)
				}
				q.poll()
				x.post(wr{id: 3, opcode: connectx.OpRead, flags: signal, raddr: b + 1000, rkey: mb.RKey(), sgl: []verbs.SGE{sge(ma, a+2000, first), sge(ma, a+3000, n-first)}})
				l.scan()
				if w, ok := q.poll(); !ok || w.id != 3 || w.status != 0 || !bytes.Equal(src[2000:2000+first], dst[1000:1000+first]) || !bytes.Equal(src[3000:3000+n-first], dst[1000+first:1000+n]) {
					t.Errorf("%d bytes were not read: %+v, %v", n, w, ok)
				}
			})
			if want := map[bool]int{true: 2}[n > 0 && n <= limit]; scattered != want {
				t.Errorf("%d bytes, CQEs of %d: %d had data, expected %d", n, size, scattered, want)
			}
		}
	}
}
