package endpoint

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// otherProgram is memory that begins at start, and refuses what touches the page of
// noRead or noWrite, unless that is 0.
type otherProgram struct {
	start           uint64
	data            []byte
	noRead, noWrite uint64
	reads, writes   int
}

var errRefused = errors.New("refused")

func (m *otherProgram) at(addr uint64, n int, refused uint64) ([]byte, error) {
	if addr < m.start || addr-m.start > uint64(len(m.data)-n) {
		return nil, errRefused
	}
	if page := refused &^ (pageBytes - 1); refused != 0 && addr < page+pageBytes && page < addr+uint64(n) {
		return nil, errRefused
	}
	return m.data[addr-m.start:][:n], nil
}

func (m *otherProgram) ReadMemory(p []byte, addr uint64) error {
	m.reads++
	from, err := m.at(addr, len(p), m.noRead)
	copy(p, from)
	return err
}

func (m *otherProgram) WriteMemory(p []byte, addr uint64) error {
	m.writes++
	to, err := m.at(addr, len(p), m.noWrite)
	copy(to, p)
	return err
}

// vectorProgram is an otherProgram that moves several pieces at once.
type vectorProgram struct{ *otherProgram }

func (m vectorProgram) ReadPieces(pieces []verbs.MemoryPiece) error {
	for _, p := range pieces {
		if err := m.ReadMemory(p.Data, p.Addr); err != nil {
			return err
		}
	}
	return nil
}

func (m vectorProgram) WritePieces(pieces []verbs.MemoryPiece) error {
	writes := m.writes
	for _, p := range pieces {
		if err := m.WriteMemory(p.Data, p.Addr); err != nil {
			return err
		}
	}
	m.writes = writes + 1
	return nil
}

// regOther registers n bytes of another program's memory as a region with an address of
// its own.
func (h *host) regOther(n int, access ib.AccessFlags) (*MR, *otherProgram) {
	h.w.t.Helper()
	m := &otherProgram{start: 0x7f00_0000_0000 + uint64(h.w.rng.IntN(1<<20))<<12, data: make([]byte, n)}
	var memory verbs.Memory = m
	if h.w.batches {
		memory = vectorProgram{m}
	}
	r, err := h.pd.RegMemory(memory, m.start, uint64(n), 0x1_2345_6000, access)
	if err != nil {
		h.w.t.Fatal(err)
	}
	return r, m
}

// Bytes reach the memory of another program, and leave it, over a network that loses,
// duplicates and reorders packets; its own and others' pieces stand in one list.
func TestForeignMemory(t *testing.T) {
	for seed := range uint64(40) {
		l := newPair(t, seed, patient(1024))
		w := l.w
		w.batches = seed%2 == 0
		w.drop, w.duplicate, w.reorder = 0.02, 0.02, 0.02
		const n = 40_000
		mine, own := l.a.reg(n, allAccess)
		ml, local := l.a.regOther(n, allAccess)
		mr, remote := l.b.regOther(n, allAccess)
		fill(w.rng, own)
		fill(w.rng, local.data)
		list := func(from, k int) []verbs.SGE {
			return slices.Concat(sge(ml, from, k), sge(mine, from+k, k), sge(ml, from+2*k, 0), sge(ml, from+3*k, k+1))
		}
		flat := func(from, k int) []byte {
			return slices.Concat(local.data[from:from+k], own[from+k:from+2*k], local.data[from+3*k:from+4*k+1])
		}
		const k = 3000
		want := flat(7, k)
		l.a.post(l.x, verbs.SendWR{Opcode: ib.WRRDMAWrite, SGL: list(7, k), RemoteAddr: mr.Addr() + 3, RKey: mr.Key()})
		w.settle()
		if !slices.Equal(remote.data[3:3+len(want)], want) || remote.data[2] != 0 || remote.data[3+len(want)] != 0 {
			t.Fatalf("seed %d: the peer's memory differs after a write", seed)
		}
		clear(own)
		clear(local.data)
		l.a.post(l.x, verbs.SendWR{Opcode: ib.WRRDMARead, SGL: list(7, k), RemoteAddr: mr.Addr() + 3, RKey: mr.Key()})
		w.settle()
		if !slices.Equal(flat(7, k), want) {
			t.Fatalf("seed %d: memory differs after a read", seed)
		}
		l.b.recv(l.y, verbs.RecvWR{SGL: slices.Concat(sge(mr, 20_000, 17), sge(mr, 30_000, 9000))})
		l.a.post(l.x, verbs.SendWR{Opcode: ib.WRSend, SGL: list(7, k), Flags: verbs.SendSignaled})
		w.settle()
		if got := slices.Concat(remote.data[20_000:20_017], remote.data[30_000:30_000+len(want)-17]); !slices.Equal(got, want) {
			t.Fatalf("seed %d: memory differs after a send", seed)
		}
		if got := l.a.poll(); len(got) != 1 || got[0].Status != ib.WCSuccess {
			t.Fatalf("seed %d: completions %+v", seed, got)
		}
	}
}

// Payload is read as its packets leave, those of a piece that leave together at once, and so
// is that of datagrams and of unreliable connections.
func TestForeignMemoryIsReadAsPacketsLeave(t *testing.T) {
	for _, typ := range []ib.QPType{ib.RC, ib.UC} {
		w := newWorld(t, 3, 2)
		a, b := w.hosts[0], w.hosts[1]
		x, y := w.newQP(a, typ, nil), w.newQP(b, typ, nil)
		if typ == ib.RC {
			w.connect(x, y, a, b, patient(1024), 0)
		} else {
			w.connectUC(x, y, a, b, 1024)
		}
		ml, local := a.regOther(8192, allAccess)
		mr, remote := b.regOther(8192, allAccess)
		if _, err := x.PostSend(w.now, []verbs.SendWR{{
			Opcode: ib.WRRDMAWrite, SGL: slices.Concat(sge(ml, 0, 1500), sge(ml, 4096, 548)), RemoteAddr: mr.Addr(), RKey: mr.Key(),
		}}); err != nil {
			t.Fatal(err)
		}
		if local.reads != 0 {
			t.Errorf("%v: %d reads before anything leaves", typ, local.reads)
		}
		fill(w.rng, local.data)
		a.pump()
		want := slices.Concat(local.data[:1500], local.data[4096:4644])
		clear(local.data)
		w.settle()
		if local.reads != 2 { // 1500 and 548
			t.Errorf("%v: %d reads, expected one for each piece, 2", typ, local.reads)
		}
		if remote.writes != 2 {
			t.Errorf("%v: %d writes, want one for each packet, 2", typ, remote.writes)
		}
		if !slices.Equal(remote.data[:2048], want) {
			t.Errorf("%v: the peer's memory differs from what it was when the packets left", typ)
		}
	}
}

// Memory that refuses fails a request as a key would that does not allow it.
func TestForeignMemoryRefuses(t *testing.T) {
	const n = 3 * pageBytes
	type env struct {
		l             *pair
		ml, mr        *MR
		local, remote *otherProgram
	}
	request := func(op ib.WROpcode) func(e *env) verbs.SendWR {
		return func(e *env) verbs.SendWR {
			return verbs.SendWR{Opcode: op, SGL: sge(e.ml, 0, n), RemoteAddr: e.mr.Addr(), RKey: e.mr.Key()}
		}
	}
	atomic := func(op ib.WROpcode, compare uint64) func(e *env) verbs.SendWR {
		return func(e *env) verbs.SendWR {
			return verbs.SendWR{Opcode: op, CompareAdd: compare, SGL: sge(e.ml, 0, 8), RemoteAddr: e.mr.Addr() + pageBytes, RKey: e.mr.Key()}
		}
	}
	send := func(e *env) verbs.SendWR {
		e.l.b.recv(e.l.y, verbs.RecvWR{SGL: sge(e.mr, 0, n)})
		return verbs.SendWR{Opcode: ib.WRSend, SGL: sge(e.ml, 0, n)}
	}
	refuse := func(side func(*env) *otherProgram, read bool) func(*env) {
		return func(e *env) {
			if m := side(e); read {
				m.noRead = m.start + pageBytes
			} else {
				m.noWrite = m.start + pageBytes
			}
		}
	}
	local, remote := func(e *env) *otherProgram { return e.local }, func(e *env) *otherProgram { return e.remote }
	for name, c := range map[string]struct {
		wr           func(e *env) verbs.SendWR
		refuse       func(*env)
		status, peer ib.WCStatus
		peerState    ib.QPState
	}{
		"write from what may not be read":        {request(ib.WRRDMAWrite), refuse(local, true), ib.WCLocProtErr, 0, ib.RTS},
		"send from what may not be read":         {send, refuse(local, true), ib.WCLocProtErr, 0, ib.RTS},
		"read into what may not be written":      {request(ib.WRRDMARead), refuse(local, false), ib.WCLocProtErr, 0, ib.RTS},
		"write to what may not be written":       {request(ib.WRRDMAWrite), refuse(remote, false), ib.WCRemAccessErr, 0, ib.Err},
		"read of what may not be read":           {request(ib.WRRDMARead), refuse(remote, true), ib.WCRemAccessErr, 0, ib.Err},
		"send to what may not be written":        {send, refuse(remote, false), ib.WCRemOpErr, ib.WCLocProtErr, ib.Err},
		"addition to what may not be read":       {atomic(ib.WRAtomicFetchAndAdd, 1), refuse(remote, true), ib.WCRemAccessErr, 0, ib.Err},
		"addition to what may not be written":    {atomic(ib.WRAtomicFetchAndAdd, 1), refuse(remote, false), ib.WCRemAccessErr, 0, ib.Err},
		"swap of what may not be written":        {atomic(ib.WRAtomicCmpAndSwp, 0), refuse(remote, false), ib.WCRemAccessErr, 0, ib.Err},
		"a comparison that fails writes nothing": {atomic(ib.WRAtomicCmpAndSwp, 1), refuse(remote, false), ib.WCSuccess, 0, ib.RTS},
	} {
		refused := func(t *testing.T, batches bool) {
			e := &env{l: newPair(t, 5, patient(1024))}
			e.l.w.batches = batches
			a, b := e.l.a, e.l.b
			e.ml, e.local = a.regOther(n, allAccess)
			e.mr, e.remote = b.regOther(n, allAccess)
			wr := c.wr(e)
			wr.Flags |= verbs.SendSignaled
			c.refuse(e)
			a.post(e.l.x, wr)
			e.l.w.settle()
			if got := statuses(a.poll()); !slices.Equal(got, []ib.WCStatus{c.status}) {
				t.Errorf("completions %v, want %v", got, c.status)
			}
			if got := statuses(b.poll()); c.peer != 0 && !slices.Equal(got, []ib.WCStatus{c.peer}) {
				t.Errorf("the peer's completions %v, want %v", got, c.peer)
			}
			if s := e.l.y.State(); s != c.peerState {
				t.Errorf("the responder is in %v, want %v", s, c.peerState)
			}
		}
		t.Run(name, func(t *testing.T) { refused(t, false) })
		t.Run(name+", in batches", func(t *testing.T) { refused(t, true) })
	}
}

// Packets of a message that come together are written together, each batch's before what
// follows it is sent.
func TestForeignMemoryInBatches(t *testing.T) {
	l := newPair(t, 3, patient(1024))
	l.w.batches = true
	ml, local := l.a.regOther(1<<16, allAccess)
	mr, remote := l.b.regOther(1<<16, allAccess)
	fill(l.w.rng, local.data)
	for _, op := range []ib.WROpcode{ib.WRRDMAWrite, ib.WRSend, ib.WRRDMARead} {
		from, to := local, remote
		if op == ib.WRRDMARead {
			from, to = remote, local
			fill(l.w.rng, remote.data)
		}
		to.writes = 0
		if op == ib.WRSend {
			clear(remote.data)
			l.b.recv(l.y, verbs.RecvWR{SGL: sge(mr, 0, 1<<16)})
		}
		l.a.post(l.x, verbs.SendWR{Opcode: op, SGL: sge(ml, 0, 1<<16), RemoteAddr: mr.Addr(), RKey: mr.Key()})
		l.w.settle()
		if !slices.Equal(from.data, to.data) {
			t.Errorf("%v: memory differs", op)
		}
		if to.writes > 16 {
			t.Errorf("%v: %d writes of 64 packets", op, to.writes)
		}
	}
}

func TestForeignAtomics(t *testing.T) {
	l := newPair(t, 1, patient(1024))
	ml, local := l.a.regOther(64, allAccess)
	mr, remote := l.b.regOther(64, allAccess)
	value := func(m *otherProgram, at int) uint64 { return binary.NativeEndian.Uint64(m.data[at:]) }
	now := uint64(0)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 100 {
		wr := verbs.SendWR{
			Opcode: ib.WRAtomicFetchAndAdd, Flags: verbs.SendSignaled, SGL: sge(ml, 8, 8), RemoteAddr: mr.Addr() + 24, RKey: mr.Key(),
			CompareAdd: rng.Uint64(),
		}
		next := now + wr.CompareAdd
		if i%2 == 0 {
			wr.Opcode, wr.Swap, next = ib.WRAtomicCmpAndSwp, rng.Uint64(), now
			if i%4 == 0 {
				wr.CompareAdd, next = now, wr.Swap
			}
		}
		l.a.post(l.x, wr)
		l.w.settle()
		if got := l.a.poll(); len(got) != 1 || got[0].Status != ib.WCSuccess {
			t.Fatalf("completions %+v", got)
		}
		if was, is := value(local, 8), value(remote, 24); was != now || is != next {
			t.Fatalf("round %d, %v: was %#x and is %#x, want %#x and %#x", i, wr.Opcode, was, is, now, next)
		}
		now = next
	}
}

func TestRegMemoryErrors(t *testing.T) {
	w := newWorld(t, 1, 1)
	pd := w.hosts[0].pd
	m := &otherProgram{}
	for name, c := range map[string]struct {
		memory             verbs.Memory
		addr, length, iova uint64
		access             ib.AccessFlags
		want               error
	}{
		"no memory":              {nil, 0, 1, 0, 0, verbs.ErrInvalid},
		"no bytes":               {m, 4096, 0, 4096, 0, verbs.ErrInvalid},
		"past the end":           {m, 1<<64 - 4096, 8192, 0, 0, verbs.ErrInvalid},
		"iova past the end":      {m, 0, 8192, 1<<64 - 4096, 0, verbs.ErrInvalid},
		"other page offset":      {m, 4096, 1, 1, 0, verbs.ErrInvalid},
		"remote writes only":     {m, 0, 1, 0, ib.AccessRemoteWrite, verbs.ErrInvalid},
		"access that is unknown": {m, 0, 1, 0, 1 << 30, verbs.ErrInvalid},
		"all in order":           {m, 4097, 1, 1, 0, nil},
	} {
		r, err := pd.RegMemory(c.memory, c.addr, c.length, c.iova, c.access)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", name, err, c.want)
		}
		if err != nil {
			continue
		}
		if r.Addr() != c.iova || r.Length() != int(c.length) {
			t.Errorf("%s: region at %#x of %d bytes", name, r.Addr(), r.Length())
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if r.other.memory != nil {
			t.Errorf("%s: a region that is gone keeps its memory", name)
		}
	}
}

// A packet from another program's memory to another's takes none.
func TestForeignMemoryDoesNotAllocate(t *testing.T) {
	l := newPair(t, 1, verbs.DefaultRC())
	w := l.w
	ml, _ := l.a.regOther(1<<16, allAccess)
	mr, _ := l.b.regOther(1<<16, allAccess)
	wr := []verbs.SendWR{
		{Opcode: ib.WRRDMARead, SGL: sge(ml, 0, 1<<14), RemoteAddr: mr.Addr(), RKey: mr.Key()},
		{Opcode: ib.WRAtomicFetchAndAdd, SGL: sge(ml, 0, 8), RemoteAddr: mr.Addr() + 8, RKey: mr.Key()},
		{Opcode: ib.WRRDMAWrite, SGL: sge(ml, 0, 1<<14), RemoteAddr: mr.Addr(), RKey: mr.Key(), Flags: verbs.SendSignaled},
	}
	wc := make([]verbs.WC, 8)
	var buf [MaxPacket]byte
	p := Packet{HopLimit: 64}
	move := func(from, to *host) bool {
		o := from.e.NextOutgoing(w.now, buf[:])
		if o == nil {
			return false
		}
		p.Data, p.Src = buf[:o.Len], from.addr // the pieces lie in their places
		to.e.Receive(w.now, &p)
		return true
	}
	round := func() {
		if _, err := l.x.PostSend(w.now, wr); err != nil {
			t.Fatal(err)
		}
		for move(l.a, l.b) || move(l.b, l.a) {
			w.now += units.Microsecond
		}
		if n, err := l.a.cq.Poll(wc); n != 1 || err != nil || wc[0].Status != ib.WCSuccess {
			t.Fatal(n, err, wc[0])
		}
	}
	for range 70 {
		round()
	}
	if n := testing.AllocsPerRun(50, round); n != 0 {
		t.Errorf("%v allocations a round", n)
	}
}
