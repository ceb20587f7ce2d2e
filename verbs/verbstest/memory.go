package verbstest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// memoryTests are about memory of other programs. They are skipped over devices whose
// protection domains can't register it.
var memoryTests = []test{
	{"memory of another program", func(r *rig) error {
		qa, qb, err := r.connected(nil)
		if err != nil {
			return err
		}
		local, lmr, err := r.registerProgram(&r.a, 1)
		if err != nil {
			return err
		}
		remote, rmr, err := r.registerProgram(&r.b, 2)
		if err != nil {
			return err
		}
		const n, off = 10_000, 5
		for _, c := range []struct {
			op       ib.WROpcode
			from, to *program
		}{{ib.WRRDMAWrite, local, remote}, {ib.WRRDMARead, remote, local}, {ib.WRSend, local, remote}} {
			c.from.set(pattern(programBytes, byte(c.op)+3))
			c.to.set(make([]byte, programBytes))
			if c.op == ib.WRSend {
				if err := postRecv(qb, verbs.RecvWR{SGL: []verbs.SGE{verbs.SGEOf(rmr, off, n)}}); err != nil {
					return err
				}
			}
			if err := post(qa, verbs.SendWR{
				Opcode: c.op, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(lmr, off, 4000), verbs.SGEOf(lmr, off+4000, n-4000)},
				RemoteAddr: rmr.Addr() + off, RKey: rmr.RKey(),
			}); err != nil {
				return err
			}
			if _, err := succeed(&r.a, 1); err != nil {
				return fmt.Errorf("%v: %w", c.op, err)
			}
			if c.op == ib.WRSend {
				if _, err := succeed(&r.b, 1); err != nil {
					return fmt.Errorf("receive: %w", err)
				}
			}
			want := make([]byte, programBytes)
			copy(want[off:off+n], c.from.get()[off:])
			if !bytes.Equal(c.to.get(), want) {
				return fmt.Errorf("%v: memory differs", c.op)
			}
		}
		return nil
	}},
	{"atomics on memory of another program", func(r *rig) error {
		qa, _, err := r.connected(nil)
		if err != nil {
			return err
		}
		local, lmr, err := r.registerProgram(&r.a, 1)
		if err != nil {
			return err
		}
		remote, rmr, err := r.registerProgram(&r.b, 2)
		if err != nil {
			return err
		}
		before := slices.Clone(remote.get())
		was := binary.NativeEndian.Uint64(before[16:])
		for _, wr := range []verbs.SendWR{
			{Opcode: ib.WRAtomicFetchAndAdd, CompareAdd: 5},
			{Opcode: ib.WRAtomicCmpAndSwp, CompareAdd: was, Swap: 1}, // it is not that any more
			{Opcode: ib.WRAtomicCmpAndSwp, CompareAdd: was + 5, Swap: 9},
		} {
			wr.Flags, wr.SGL = verbs.SendSignaled, []verbs.SGE{verbs.SGEOf(lmr, 0, 8)}
			wr.RemoteAddr, wr.RKey = rmr.Addr()+16, rmr.RKey()
			if err := post(qa, wr); err != nil {
				return err
			}
			if _, err := succeed(&r.a, 1); err != nil {
				return fmt.Errorf("%v: %w", wr.Opcode, err)
			}
		}
		if got := binary.NativeEndian.Uint64(local.get()); got != was+5 {
			return fmt.Errorf("the last atomic found %#x, want %#x", got, was+5)
		}
		binary.NativeEndian.PutUint64(before[16:], 9)
		if !bytes.Equal(remote.get(), before) {
			return errors.New("the peer's memory is not as the atomics leave it")
		}
		return nil
	}},
	{"memory of another program that refuses", func(r *rig) error {
		for _, c := range []struct {
			op   ib.WROpcode
			peer bool // it is the peer's that refuses
			want ib.WCStatus
		}{
			{ib.WRRDMAWrite, false, ib.WCLocProtErr}, {ib.WRRDMAWrite, true, ib.WCRemAccessErr},
			{ib.WRRDMARead, false, ib.WCLocProtErr}, {ib.WRRDMARead, true, ib.WCRemAccessErr},
		} {
			qa, _, err := r.connected(nil)
			if err != nil {
				return err
			}
			local, lmr, err := r.registerProgram(&r.a, 1)
			if err != nil {
				return err
			}
			remote, rmr, err := r.registerProgram(&r.b, 2)
			if err != nil {
				return err
			}
			local.refuse(!c.peer)
			remote.refuse(c.peer)
			if err := post(qa, verbs.SendWR{
				Opcode: c.op, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(lmr, 0, 100)}, RemoteAddr: rmr.Addr(), RKey: rmr.RKey(),
			}); err != nil {
				return err
			}
			if err := r.status(&r.a, c.want); err != nil {
				return fmt.Errorf("%v, peer refuses %v: %w", c.op, c.peer, err)
			}
		}
		return nil
	}},
}

const (
	programBytes = 1 << 15
	programStart = 0x7e00_0000_0000
)

// program is the memory of a program, which begins at programStart.
type program struct {
	mu      sync.Mutex
	data    []byte
	refuses bool
}

func (p *program) get() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.data)
}

func (p *program) set(data []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.data = data
}

func (p *program) refuse(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refuses = yes
}

// part returns n bytes at addr, with the lock held.
func (p *program) part(addr uint64, n int) ([]byte, error) {
	if p.refuses || addr < programStart || addr-programStart > uint64(len(p.data)-n) {
		return nil, errors.New("refused")
	}
	return p.data[addr-programStart:][:n], nil
}

// ReadMemory implements verbs.Memory.
func (p *program) ReadMemory(to []byte, addr uint64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	from, err := p.part(addr, len(to))
	copy(to, from)
	return err
}

// WriteMemory implements verbs.Memory.
func (p *program) WriteMemory(from []byte, addr uint64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	to, err := p.part(addr, len(from))
	copy(to, from)
	return err
}

// registerProgram makes a program's memory, and a region of it that begins elsewhere.
func (r *rig) registerProgram(s *side, seed byte) (*program, verbs.MR, error) {
	pd, ok := s.pd.(verbs.MemoryPD)
	if !ok {
		return nil, nil, fmt.Errorf("memory of other programs: %w", verbs.ErrNotSupported)
	}
	p := &program{data: pattern(programBytes, seed)}
	mr, err := pd.RegMemory(p, programStart, programBytes, 0x1000, everything)
	if err != nil {
		return nil, nil, err
	}
	r.later(mr.Close)
	if mr.Addr() != 0x1000 || mr.Length() != programBytes {
		return nil, nil, fmt.Errorf("the region is %d bytes from %#x on, want %d from 0x1000 on", mr.Length(), mr.Addr(), programBytes)
	}
	return p, mr, nil
}
