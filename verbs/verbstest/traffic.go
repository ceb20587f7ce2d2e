package verbstest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// trafficTests move bytes.
var trafficTests = []test{
	{"writes and reads of all sizes", func(r *rig) error {
		qa, _, err := r.connected(nil)
		if err != nil {
			return err
		}
		const room, guard = 1<<20 + 64, 32
		local, lmr, err := r.register(&r.a, room, 1)
		if err != nil {
			return err
		}
		remote, rmr, err := r.register(&r.b, room, 2)
		if err != nil {
			return err
		}
		for _, size := range []int{0, 1, 2, 17, 255, 1023, 1024, 1025, 4096, 65537, 1 << 20} {
			for _, op := range []ib.WROpcode{ib.WRRDMAWrite, ib.WRRDMARead} {
				copy(local, pattern(room, byte(size)))
				copy(remote, pattern(room, byte(size)^0x80))
				from, to := local, remote
				if op == ib.WRRDMARead {
					from, to = remote, local
				}
				want := slices.Clone(to)
				copy(want[guard:guard+size], from[guard:])
				if err := post(qa, verbs.SendWR{
					WRID: uint64(size), Opcode: op, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(lmr, guard, size)},
					RemoteAddr: rmr.Addr() + guard, RKey: rmr.RKey(),
				}); err != nil {
					return err
				}
				wc, err := succeed(&r.a, 1)
				switch {
				case err != nil:
					return fmt.Errorf("%v of %d bytes: %w", op, size, err)
				case wc[0].WRID != uint64(size) || wc[0].Opcode != op.Completion() || wc[0].QPN != qa.Num():
					return fmt.Errorf("%v of %d bytes completed as %+v", op, size, wc[0])
				case !bytes.Equal(to, want):
					return fmt.Errorf("%v of %d bytes: memory differs", op, size)
				}
			}
		}
		return nil
	}},
	{"pieces of memory", func(r *rig) error {
		qa, _, err := r.connected(nil)
		if err != nil {
			return err
		}
		local, lmr, err := r.register(&r.a, 4096, 3)
		if err != nil {
			return err
		}
		remote, rmr, err := r.register(&r.b, 4096, 4)
		if err != nil {
			return err
		}
		pieces := []verbs.SGE{verbs.SGEOf(lmr, 3000, 700), verbs.SGEOf(lmr, 0, 1), verbs.SGEOf(lmr, 100, 1100)}
		want := slices.Concat(local[3000:3700], local[:1], local[100:1200])
		wr := verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: pieces, RemoteAddr: rmr.Addr() + 5, RKey: rmr.RKey()}
		if err := post(qa, wr); err != nil {
			return err
		}
		if _, err := succeed(&r.a, 1); err != nil {
			return err
		}
		if !bytes.Equal(remote[5:5+len(want)], want) {
			return errors.New("what was gathered differs")
		}
		clear(local)
		wr.Opcode = ib.WRRDMARead
		if err := post(qa, wr); err != nil {
			return err
		}
		if _, err := succeed(&r.a, 1); err != nil {
			return err
		}
		if got := slices.Concat(local[3000:3700], local[:1], local[100:1200]); !bytes.Equal(got, want) {
			return errors.New("what was scattered differs")
		}
		return nil
	}},
	{"sends", func(r *rig) error {
		qa, qb, err := r.connected(nil)
		if err != nil {
			return err
		}
		local, lmr, err := r.register(&r.a, 4096, 5)
		if err != nil {
			return err
		}
		remote, rmr, err := r.register(&r.b, 8192, 6)
		if err != nil {
			return err
		}
		if err := postRecv(qb,
			verbs.RecvWR{WRID: 1, SGL: []verbs.SGE{verbs.SGEOf(rmr, 0, 4096)}},
			verbs.RecvWR{WRID: 2, SGL: []verbs.SGE{verbs.SGEOf(rmr, 5000, 100), verbs.SGEOf(rmr, 6000, 1000)}},
			verbs.RecvWR{WRID: 3},
		); err != nil {
			return err
		}
		if err := post(qa,
			verbs.SendWR{WRID: 11, Opcode: ib.WRSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(lmr, 0, 4096)}},
			verbs.SendWR{WRID: 12, Opcode: ib.WRSendWithImm, Imm: 0xdeadbeef, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(lmr, 0, 900)}},
			verbs.SendWR{WRID: 13, Opcode: ib.WRRDMAWriteWithImm, Imm: 7, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(lmr, 1, 10)},
				RemoteAddr: rmr.Addr() + 8000, RKey: rmr.RKey()},
		); err != nil {
			return err
		}
		sent, received, err := r.both(3)
		if err != nil {
			return err
		}
		for i, want := range []verbs.WC{
			{WRID: 1, Opcode: ib.WCRecv, ByteLen: 4096},
			{WRID: 2, Opcode: ib.WCRecv, ByteLen: 900, Flags: verbs.WCWithImm, Imm: 0xdeadbeef},
			{WRID: 3, Opcode: ib.WCRecvRDMAWithImm, ByteLen: 10, Flags: verbs.WCWithImm, Imm: 7},
		} {
			got := received[i]
			if got.WRID != want.WRID || got.Opcode != want.Opcode || got.ByteLen != want.ByteLen ||
				got.Flags&verbs.WCWithImm != want.Flags || want.Flags != 0 && got.Imm != want.Imm {
				return fmt.Errorf("receive %d completed as %+v, want %+v", i, got, want)
			}
			if sent[i].WRID != uint64(11+i) {
				return fmt.Errorf("sends completed out of order: %+v", sent)
			}
		}
		if !bytes.Equal(remote[:4096], local) || !bytes.Equal(slices.Concat(remote[5000:5100], remote[6000:6800]), local[:900]) || !bytes.Equal(remote[8000:8010], local[1:11]) {
			return errors.New("memory differs")
		}
		return nil
	}},
	{"inline data", func(r *rig) error {
		most := min(64, r.A.Attr().MaxInlineData)
		if most == 0 {
			return fmt.Errorf("inline data: %w", verbs.ErrNotSupported)
		}
		qa, _, err := r.connected(func(a *verbs.QPInitAttr, _ *verbs.RCParams) { a.Cap.MaxInlineData = most })
		if err != nil {
			return err
		}
		remote, rmr, err := r.register(&r.b, 4096, 7)
		if err != nil {
			return err
		}
		data := pattern(most, 8)
		want := slices.Clone(data)
		if err := post(qa,
			verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: verbs.SendInline, Inline: data, RemoteAddr: rmr.Addr(), RKey: rmr.RKey()},
			verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled | verbs.SendInline, Inline: data[:3], RemoteAddr: rmr.Addr() + 1000, RKey: rmr.RKey()},
		); err != nil {
			return err
		}
		clear(data) // it is the application's again
		if _, err := succeed(&r.a, 1); err != nil {
			return err
		}
		if !bytes.Equal(remote[:most], want) || !bytes.Equal(remote[1000:1003], want[:3]) {
			return errors.New("memory differs")
		}
		return nil
	}},
	{"atomics", func(r *rig) error {
		if !r.A.Attr().Atomics || !r.B.Attr().Atomics {
			return fmt.Errorf("atomics: %w", verbs.ErrNotSupported)
		}
		qa, _, err := r.connected(nil)
		if err != nil {
			return err
		}
		local, lmr, err := r.register(&r.a, 64, 0)
		if err != nil {
			return err
		}
		remote, rmr, err := r.register(&r.b, 64, 0)
		if err != nil {
			return err
		}
		// Atomics are in the responder's byte order, as is the result.
		word := binary.NativeEndian
		word.PutUint64(remote[8:], 1<<40+5)
		value := uint64(1<<40 + 5)
		for i, wr := range []verbs.SendWR{
			{Opcode: ib.WRAtomicFetchAndAdd, CompareAdd: 3},
			{Opcode: ib.WRAtomicCmpAndSwp, CompareAdd: 1<<40 + 8, Swap: 99},
			{Opcode: ib.WRAtomicCmpAndSwp, CompareAdd: 1, Swap: 2}, // does not match
			{Opcode: ib.WRAtomicFetchAndAdd, CompareAdd: ^uint64(0)},
		} {
			wr.Flags, wr.SGL, wr.RemoteAddr, wr.RKey = verbs.SendSignaled, []verbs.SGE{verbs.SGEOf(lmr, 16, 8)}, rmr.Addr()+8, rmr.RKey()
			if err := post(qa, wr); err != nil {
				return err
			}
			wc, err := succeed(&r.a, 1)
			if err != nil {
				return fmt.Errorf("atomic %d: %w", i, err)
			}
			if got := word.Uint64(local[16:]); got != value || wc[0].Opcode != wr.Opcode.Completion() {
				return fmt.Errorf("atomic %d found %d, want %d; it completed as %v", i, got, value, wc[0].Opcode)
			}
			switch {
			case wr.Opcode == ib.WRAtomicFetchAndAdd:
				value += wr.CompareAdd
			case value == wr.CompareAdd:
				value = wr.Swap
			}
			if got := word.Uint64(remote[8:]); got != value {
				return fmt.Errorf("atomic %d left %d, want %d", i, got, value)
			}
		}
		return nil
	}},
	{"lists, and completions that nobody asked for", func(r *rig) error {
		qa, _, err := r.connected(nil)
		if err != nil {
			return err
		}
		const n = 100
		_, lmr, err := r.register(&r.a, n, 9)
		if err != nil {
			return err
		}
		remote, rmr, err := r.register(&r.b, n, 10)
		if err != nil {
			return err
		}
		var wrs []verbs.SendWR
		for i := range n {
			wr := verbs.SendWR{WRID: uint64(i), Opcode: ib.WRRDMAWrite, SGL: []verbs.SGE{verbs.SGEOf(lmr, i, 1)}, RemoteAddr: rmr.Addr() + uint64(i), RKey: rmr.RKey()}
			if i%10 == 9 {
				wr.Flags = verbs.SendSignaled
			}
			wrs = append(wrs, wr)
		}
		if err := post(qa, wrs...); err != nil {
			return err
		}
		wc, err := succeed(&r.a, n/10)
		if err != nil {
			return err
		}
		for i, w := range wc {
			if w.WRID != uint64(i*10+9) {
				return fmt.Errorf("completion %d is of request %d", i, w.WRID)
			}
		}
		if !bytes.Equal(remote, pattern(n, 9)) {
			return errors.New("memory differs")
		}
		if k, err := r.a.cq.Poll(make([]verbs.WC, 1)); k != 0 || err != nil {
			return fmt.Errorf("%d completions too many (%v)", k, err) //nolint:errorlint // it may be nil
		}
		return nil
	}},
	{"a list with a bad request", func(r *rig) error {
		qa, _, err := r.connected(nil)
		if err != nil {
			return err
		}
		_, lmr, err := r.register(&r.a, 64, 11)
		if err != nil {
			return err
		}
		remote, rmr, err := r.register(&r.b, 64, 12)
		if err != nil {
			return err
		}
		good := func(i int) verbs.SendWR {
			return verbs.SendWR{WRID: uint64(i), Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(lmr, i, 1)}, RemoteAddr: rmr.Addr() + uint64(i), RKey: rmr.RKey()}
		}
		n, err := qa.PostSend([]verbs.SendWR{good(0), good(1), {Opcode: 200}, good(3)})
		if n != 2 || err == nil {
			return fmt.Errorf("of a list whose third request is bad %d were taken, error %v", n, err) //nolint:errorlint // it may be nil
		}
		if err := post(qa, good(4)); err != nil {
			return err
		}
		wc, err := succeed(&r.a, 3)
		if err != nil {
			return err
		}
		want := pattern(64, 12)
		for i, id := range []int{0, 1, 4} {
			if wc[i].WRID != uint64(id) {
				return fmt.Errorf("completions %+v", wc)
			}
			want[id] = pattern(64, 11)[id]
		}
		if !bytes.Equal(remote, want) {
			return errors.New("memory differs")
		}
		return nil
	}},
	{"shared receive queue", func(r *rig) error {
		if r.B.Attr().MaxSRQ == 0 {
			return fmt.Errorf("SRQ: %w", verbs.ErrNotSupported)
		}
		srq, err := r.b.pd.CreateSRQ(verbs.SRQInitAttr{MaxWR: 16, MaxSGE: 1})
		if err != nil {
			return err
		}
		r.later(srq.Close)
		_, lmr, err := r.register(&r.a, 64, 13)
		if err != nil {
			return err
		}
		remote, rmr, err := r.register(&r.b, 64, 14)
		if err != nil {
			return err
		}
		var q [2]verbs.QP
		for i := range q {
			first := true // a's queue pair has a receive queue of its own
			if q[i], _, err = r.connected(func(a *verbs.QPInitAttr, _ *verbs.RCParams) {
				if !first {
					a.SRQ = srq
				}
				first = false
			}); err != nil {
				return err
			}
		}
		if n, err := srq.PostRecv([]verbs.RecvWR{{WRID: 1, SGL: []verbs.SGE{verbs.SGEOf(rmr, 0, 16)}}, {WRID: 2, SGL: []verbs.SGE{verbs.SGEOf(rmr, 16, 16)}}}); n != 2 || err != nil {
			return fmt.Errorf("post_srq_recv took %d: %w", n, err)
		}
		for i := range q {
			if err := post(q[i], verbs.SendWR{Opcode: ib.WRSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(lmr, 16*i, 16)}}); err != nil {
				return err
			}
			if _, _, err := r.both(1); err != nil {
				return err
			}
		}
		if !bytes.Equal(remote[:32], pattern(64, 13)[:32]) {
			return errors.New("memory differs")
		}
		return nil
	}},
	{"unreliable connection", func(r *rig) error {
		qa, qb, err := r.connectedUC()
		if err != nil {
			return err
		}
		const n = 5000
		_, lmr, err := r.register(&r.a, n, 19)
		if err != nil {
			return err
		}
		remote, rmr, err := r.register(&r.b, 2*n, 20)
		if err != nil {
			return err
		}
		if err := postRecv(qb, verbs.RecvWR{SGL: []verbs.SGE{verbs.SGEOf(rmr, 0, n)}}, verbs.RecvWR{}); err != nil {
			return err
		}
		_, errRead := qa.PostSend([]verbs.SendWR{{Opcode: ib.WRRDMARead, SGL: []verbs.SGE{verbs.SGEOf(lmr, 0, 8)}, RemoteAddr: rmr.Addr(), RKey: rmr.RKey()}})
		if err := expect("a READ on an unreliable connection", errRead, verbs.ErrInvalid); err != nil {
			return err
		}
		whole := []verbs.SGE{verbs.SGEOf(lmr, 0, n)}
		if err := post(qa,
			verbs.SendWR{WRID: 1, Opcode: ib.WRSend, Flags: verbs.SendSignaled, SGL: whole},
			verbs.SendWR{WRID: 2, Opcode: ib.WRRDMAWriteWithImm, Flags: verbs.SendSignaled, SGL: whole, Imm: 77, RemoteAddr: rmr.Addr() + n, RKey: rmr.RKey()},
		); err != nil {
			return err
		}
		sent, received, err := r.both(2)
		switch {
		case err != nil:
			return err
		case sent[0].WRID != 1 || sent[1].WRID != 2 || received[0].ByteLen != n || received[1].Imm != 77 || received[1].Flags&verbs.WCWithImm == 0:
			return fmt.Errorf("sent as %+v, received as %+v", sent, received)
		case !bytes.Equal(remote[:n], pattern(n, 19)) || !bytes.Equal(remote[n:], pattern(n, 19)):
			return errors.New("memory differs")
		}
		return nil
	}},
	{"datagrams", func(r *rig) error {
		const qkey, grh = 0x11111111, 40
		var q [2]verbs.QP
		for i, s := range []*side{&r.a, &r.b} {
			var err error
			if q[i], err = r.newQP(s, ib.UD, nil); err != nil {
				return err
			}
			for _, step := range []struct {
				a    verbs.QPAttr
				mask verbs.QPAttrMask
			}{
				{verbs.QPAttr{State: ib.Init, Port: r.Port, QKey: qkey}, verbs.ResetToInitUD},
				{verbs.QPAttr{State: ib.RTR}, verbs.InitToRTRUD},
				{verbs.QPAttr{State: ib.RTS, SQPSN: 1}, verbs.RTRToRTSUD},
			} {
				if err := q[i].Modify(step.a, step.mask); err != nil {
					return err
				}
			}
		}
		ah, err := r.a.pd.CreateAH(verbs.AddressVector{GID: r.b.gid, SGIDIndex: r.a.index, HopLimit: 64})
		if err != nil {
			return err
		}
		r.later(ah.Close)
		_, lmr, err := r.register(&r.a, 256, 15)
		if err != nil {
			return err
		}
		remote, rmr, err := r.register(&r.b, 512, 16)
		if err != nil {
			return err
		}
		if err := postRecv(q[1], verbs.RecvWR{SGL: []verbs.SGE{verbs.SGEOf(rmr, 0, 512)}}); err != nil {
			return err
		}
		_, errNoAH := q[0].PostSend([]verbs.SendWR{{Opcode: ib.WRSend, SGL: []verbs.SGE{verbs.SGEOf(lmr, 0, 1)}}})
		if err := expect("a datagram without an address handle", errNoAH, verbs.ErrInvalid); err != nil {
			return err
		}
		if err := post(q[0], verbs.SendWR{Opcode: ib.WRSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(lmr, 0, 200)},
			AH: ah, RemoteQPN: q[1].Num(), RemoteQKey: qkey}); err != nil {
			return err
		}
		_, received, err := r.both(1)
		switch {
		case err != nil:
			return err
		case received[0].SrcQP != q[0].Num() || received[0].ByteLen != grh+200 || received[0].Flags&verbs.WCGRH == 0:
			return fmt.Errorf("it arrived as %+v", received[0])
		case !bytes.Equal(remote[grh:grh+200], pattern(256, 15)[:200]):
			return errors.New("memory differs")
		}
		return nil
	}},
	{"timestamps", func(r *rig) error {
		if r.A.Attr().CoreClockHz == 0 {
			return fmt.Errorf("completion timestamps: %w", verbs.ErrNotSupported)
		}
		cq, err := r.A.CreateCQ(verbs.CQInitAttr{CQE: cqe, Timestamps: true})
		if err != nil {
			return err
		}
		r.later(cq.Close)
		plain := r.a.cq
		r.a.cq = cq
		defer func() { r.a.cq = plain }()
		qa, _, err := r.connected(nil)
		if err != nil {
			return err
		}
		_, lmr, err := r.register(&r.a, 64, 17)
		if err != nil {
			return err
		}
		_, rmr, err := r.register(&r.b, 64, 18)
		if err != nil {
			return err
		}
		mask := ^uint64(0) >> (64 - r.A.Attr().ClockBits)
		var last uint64
		for i := range 10 {
			if err := post(qa, verbs.SendWR{Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(lmr, 0, 8)}, RemoteAddr: rmr.Addr(), RKey: rmr.RKey()}); err != nil {
				return err
			}
			wc, err := succeed(&r.a, 1)
			if err != nil {
				return err
			}
			if step := (wc[0].Timestamp - last) & mask; i > 0 && step > mask/2 {
				return fmt.Errorf("the counter went from %d to %d", last, wc[0].Timestamp)
			}
			last = wc[0].Timestamp
		}
		reader, ok := r.A.(verbs.ClockReader)
		if !ok {
			return nil
		}
		now, err := reader.ReadClock()
		if errors.Is(err, verbs.ErrNotSupported) {
			return nil
		}
		// The last completion was before now, and not by more than the patience.
		if ago := float64((now-last)&mask) / r.A.Attr().CoreClockHz; err != nil || ago > patience.Seconds() {
			return fmt.Errorf("the clock is at %d, %g s after the last completion (%v)", now, ago, err) //nolint:errorlint // it may be nil
		}
		return nil
	}},
	{"rate limit", func(r *rig) error {
		qa, _, err := r.connected(nil)
		if err != nil {
			return err
		}
		l, ok := qa.(verbs.RateLimitQP)
		if !ok {
			return fmt.Errorf("rate limits: %w", verbs.ErrNotSupported)
		}
		if err := l.SetRateLimit(1e9); err != nil {
			return err
		}
		return l.SetRateLimit(0)
	}},
}

// both waits for n completions at each end, at the end that sent first.
func (r *rig) both(n int) (sent, received []verbs.WC, err error) {
	if sent, err = succeed(&r.a, n); err != nil {
		return sent, nil, fmt.Errorf("sender: %w", err)
	}
	if received, err = succeed(&r.b, n); err != nil {
		return sent, received, fmt.Errorf("receiver: %w", err)
	}
	return sent, received, nil
}
