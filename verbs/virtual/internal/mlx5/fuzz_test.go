package mlx5

import (
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/softroce"
)

// Whatever a program writes to its rings, records and pages, the device does not panic,
// touches no memory but rings and registered regions, and does bounded work.
func FuzzProgram(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x00\x00\x00\x0a\x00\x00\x00\x01"))
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30})
	f.Fuzz(func(t *testing.T, data []byte) {
		w, err := softroce.NewWorld(des.New(), 2, softroce.DefaultWorld())
		if err != nil {
			t.Fatal(err)
		}
		l := &lab{t: t}
		for i := range l.devs {
			l.devs[i] = w.Device(i)
			l.p[i] = newProgram(t, l.devs[i], i == 0)
		}
		if err := verbs.Run(l.devs[0], func() error { attack(l, data); return nil }); err != nil {
			t.Fatal(err)
		}
		for _, p := range l.p {
			if n := p.mem.strayed.Load(); n > 0 {
				t.Errorf("%d accesses to memory that the device has no business with", n)
			}
			if n := p.mem.calls.Load(); n > 5000 {
				t.Errorf("%d calls", n)
			}
		}
	})
}

// attack has both programs do what data says: writes to rings and records, doorbells and
// changes of state.
func attack(l *lab, data []byte) {
	next := func(n int) (v uint64) {
		for range n {
			v <<= 8
			if len(data) > 0 {
				v |= uint64(data[0])
				data = data[1:]
			}
		}
		return v
	}
	type target struct {
		p    *program
		addr uint64
		n    int
	}
	var targets []target
	var pairs []*pair
	var keys []uint32
	for _, p := range l.p {
		q := p.newCQ(16, 64<<(len(pairs)&1))
		s := p.newSRQ(8, 64)
		addr, mr := p.reg(4096, anyAccess)
		keys = append(keys, mr.RKey())
		x := p.newQP(pairConfig{typ: ib.RC, blocks: 16, recvs: 8, stride: 64}, q, q)
		y := p.newQP(pairConfig{typ: ib.RC, blocks: 16, srq: s}, q, q)
		u := p.newQP(pairConfig{typ: ib.UD, blocks: 16, recvs: 4, stride: 32}, q, q)
		pairs = append(pairs, x, y, u)
		targets = append(targets, target{p, addr, 4096}, target{p, q.record, 8}, target{p, s.record, 4}, target{p, s.buffer, 512})
		for _, z := range []*pair{x, y, u} {
			targets = append(targets, target{p, z.record, 8}, target{p, z.sq, z.blocks * 64})
			if z.recvs > 0 {
				targets = append(targets, target{p, z.rq, z.recvs * z.stride})
			}
		}
	}
	for i := range 3 {
		l.connect(pairs[i], pairs[i+3])
	}
	gid, _ := l.devs[1].GID(1, 0)
	for range 40 {
		if len(data) == 0 {
			break
		}
		p := l.p[0]
		switch op := next(1); op % 8 {
		case 0, 1: // any bytes anywhere
			to := targets[int(next(1))%len(targets)]
			at := int(next(2)) % to.n
			for i := range min(int(next(1)), to.n-at) {
				to.p.mem.at(to.addr+uint64(at+i), 1)[0] = byte(next(1))
			}
		case 2, 3: // a request that is nearly right
			x := pairs[int(next(1))%len(pairs)]
			a := x.p.mem.areas[len(x.p.mem.areas)-1].addr
			w := wr{
				opcode: uint8(next(1)), flags: uint8(next(1)), raddr: memoryBase + next(3), rkey: keys[next(1)&1],
				sgl:    []verbs.SGE{{Addr: a + next(2), Length: uint32(next(2)), LKey: keys[next(1)&1]}},
				inline: make([]byte, next(1)&127),
			}
			if x.qp.cfg.Type == ib.UD {
				w.to = &destination{gid: gid, qpn: pairs[next(1)%6].num, qkey: 0x1111}
			}
			b := x.encode(&w)
			if n := next(1); n > 0 {
				b[int(n)%len(b)] ^= byte(next(1))
			}
			x.write(0, b)
			x.ring()
		case 4:
			x := pairs[int(next(1))%len(pairs)]
			x.ring()
			p.bell(0x20, next(8)|1)
		case 5:
			x := pairs[int(next(1))%len(pairs)]
			if x.recvs > 0 {
				x.recv(0, verbs.SGE{Addr: memoryBase + next(2), Length: uint32(next(2)), LKey: keys[next(1)&1]})
			}
		case 6:
			x := pairs[int(next(1))%len(pairs)]
			_ = x.qp.Modify(verbs.QPAttr{State: ib.QPState(next(1) % 8)}, verbs.AttrState)
		case 7:
			q := pairs[int(next(1))%len(pairs)].sendCQ
			size := 64 << (next(1) & 1)
			_ = q.cq.Resize(q.p.newRing(32, size), 32, size)
		}
		for range 4 {
			for _, p := range l.p {
				p.e.Scan()
			}
		}
	}
	for _, x := range pairs {
		if err := x.qp.Close(); err != nil {
			l.t.Error(err)
		}
	}
}
