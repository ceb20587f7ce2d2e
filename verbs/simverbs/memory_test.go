package simverbs_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/verbs"
)

// elsewhere is memory of another program, from start on.
type elsewhere struct {
	start uint64
	data  []byte
}

func (e *elsewhere) part(addr uint64, n int) ([]byte, error) {
	if addr < e.start || addr-e.start > uint64(len(e.data)-n) {
		return nil, errors.New("not mapped")
	}
	return e.data[addr-e.start:][:n], nil
}

func (e *elsewhere) ReadMemory(p []byte, addr uint64) error {
	from, err := e.part(addr, len(p))
	copy(p, from)
	return err
}

func (e *elsewhere) WriteMemory(p []byte, addr uint64) error {
	to, err := e.part(addr, len(p))
	copy(to, p)
	return err
}

const everything = ib.AccessLocalWrite | ib.AccessRemoteWrite | ib.AccessRemoteRead | ib.AccessRemoteAtomic

// register registers a buffer of a program: as this program's, or as memory that lies elsewhere, at the
// same addresses.
func register(t *testing.T, h *host, buf []byte, foreign bool) verbs.MR {
	t.Helper()
	mr, err := h.pd.RegMR(buf, everything)
	if err != nil {
		t.Fatal(err)
	}
	if !foreign {
		return mr
	}
	m := &elsewhere{start: 0x7f00_0000_0000, data: buf}
	other, err := h.pd.(verbs.MemoryPD).RegMemory(m, m.start, uint64(len(buf)), mr.Addr(), everything)
	if err != nil {
		t.Fatal(err)
	}
	return other
}

// ring is a receive queue that lies elsewhere.
type ring struct{ posted []verbs.RecvWR }

func (r *ring) FetchRecv(wrs []verbs.RecvWR) int {
	n := copy(wrs, r.posted)
	r.posted = r.posted[n:]
	return n
}

// Every operation takes the same time, to the picosecond, and leaves the same bytes, whether
// a region is a buffer of this program or lies elsewhere at the same addresses, and whether
// receives are posted or drawn from a source.
func TestElsewhereIsTheSame(t *testing.T) {
	for _, nic := range []string{"cx6dx", "connectib"} { // that fetch receives, and that have them at hand
		t.Run(nic, func(t *testing.T) {
			run := func(network string, foreign bool) string {
				a, b := pairWith(t, fmt.Sprintf("%s-%s", network, nic), "?nic="+nic)
				return operations(t, a, b, foreign)
			}
			want := run("elsewhere-no", false)
			if diff := cmp.Diff(want, run("elsewhere-yes", true)); diff != "" {
				t.Errorf("memory that lies elsewhere changes the run (-here +elsewhere):\n%s", diff)
			}
		})
	}
}

// operations returns the times and results of one operation of each kind from a to b.
func operations(t *testing.T, a, b *host, foreign bool) string {
	const n = 10_000
	abuf, bbuf := make([]byte, 3*n), make([]byte, 3*n)
	for i := range abuf {
		abuf[i], bbuf[i] = byte(i), byte(i/7+1)
	}
	amr, bmr := register(t, a, abuf, foreign), register(t, b, bbuf, foreign)
	source := &ring{}
	if foreign {
		b.qp.(verbs.SourcedRecv).SetRecvSource(source)
	}
	recv := func(wr verbs.RecvWR) error {
		if foreign {
			source.posted = append(source.posted, wr)
			return nil
		}
		_, err := b.qp.PostRecv([]verbs.RecvWR{wr})
		return err
	}
	trace := ""
	one := func(h *host) error {
		for wc := make([]verbs.WC, 1); ; {
			k, err := h.cq.Poll(wc)
			if err != nil || k == 1 {
				if trace += fmt.Sprintf("%v %+v\n", h.dev.(verbs.PreciseClock).NowPrecise(), wc[0]); err == nil && wc[0].Status != ib.WCSuccess {
					err = &verbs.StatusError{WC: wc[0]}
				}
				return err
			}
		}
	}
	err := verbs.Run(a.dev, func() error {
		for i, wr := range []verbs.SendWR{
			{Opcode: ib.WRRDMAWrite, SGL: []verbs.SGE{verbs.SGEOf(amr, 5, 4000), verbs.SGEOf(amr, 5000, n-4000)}},
			{Opcode: ib.WRRDMARead, SGL: []verbs.SGE{verbs.SGEOf(amr, n, n)}},
			{Opcode: ib.WRSend, SGL: []verbs.SGE{verbs.SGEOf(amr, 0, n)}},
			{Opcode: ib.WRSend, Flags: verbs.SendInline, Inline: abuf[:32]},
			{Opcode: ib.WRRDMAWriteWithImm, SGL: []verbs.SGE{verbs.SGEOf(amr, 100, 100)}, Imm: 9},
			{Opcode: ib.WRAtomicFetchAndAdd, SGL: []verbs.SGE{verbs.SGEOf(amr, 8, 8)}, CompareAdd: 3},
			{Opcode: ib.WRAtomicCmpAndSwp, SGL: []verbs.SGE{verbs.SGEOf(amr, 16, 8)}, CompareAdd: 3, Swap: 4},
		} {
			takes := wr.Opcode == ib.WRSend || wr.Opcode == ib.WRRDMAWriteWithImm
			if takes {
				if err := recv(verbs.RecvWR{WRID: 1000 + uint64(i), SGL: []verbs.SGE{verbs.SGEOf(bmr, 2*n, 300), verbs.SGEOf(bmr, n+300, n-300)}}); err != nil {
					return err
				}
			}
			wr.WRID, wr.RemoteAddr, wr.RKey = uint64(i), bmr.Addr()+64, bmr.RKey()
			wr.Flags |= verbs.SendSignaled
			if _, err := a.qp.PostSend([]verbs.SendWR{wr}); err != nil {
				return err
			}
			if err := one(a); err != nil {
				return err
			}
			if takes {
				if err := one(b); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return trace + fmt.Sprintf("%x\n%x", abuf, bbuf)
}

// A datagram has its header before the data, of which the last 20 bytes are IPv4's, in memory that lies elsewhere, too.
func TestDatagramElsewhere(t *testing.T) {
	const room = 40 + 100
	var got [2][]byte
	for i, foreign := range []bool{false, true} {
		a, b := pair(t, fmt.Sprintf("datagram-elsewhere-%v", foreign))
		buf := bytes.Repeat([]byte{0xff}, 4096)
		mr := register(t, b, buf, foreign)
		data := []byte("a datagram")
		datagram(t, a, b, data, verbs.SGEOf(mr, 0, 16), verbs.SGEOf(mr, 50, room-16))
		got[i] = buf
		header := roce.IPv4(buf[54:74])
		total := 20 + 8 + 12 + 8 + 12 + 4 // IPv4, UDP, BTH, DETH, data with padding, ICRC
		if header.Src() != a.me.GID || header.Dst() != b.me.GID || header.Protocol() != 17 || header.TotalLen() != total || !bytes.Equal(buf[74:84], data) {
			t.Errorf("received with %x, expected %d bytes from %v to %v", buf[:84], total, a.me.GID, b.me.GID)
		}
	}
	if !bytes.Equal(got[0], got[1]) {
		t.Errorf("a datagram to memory elsewhere differs:\n%x\n%x", got[0][:200], got[1][:200])
	}
}

// datagram sends data from a to a receive of b.
func datagram(t *testing.T, a, b *host, data []byte, to ...verbs.SGE) {
	t.Helper()
	ud := func(h *host) verbs.QP {
		qp, err := h.pd.CreateQP(verbs.QPInitAttr{
			Type: ib.UD, SendCQ: h.cq, RecvCQ: h.cq,
			Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 2, MaxRecvSGE: 2, MaxInlineData: 64},
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			a    verbs.QPAttr
			mask verbs.QPAttrMask
		}{
			{verbs.QPAttr{State: ib.Init, Port: 1, QKey: 0x11}, verbs.ResetToInitUD},
			{verbs.QPAttr{State: ib.RTR}, verbs.InitToRTRUD},
			{verbs.QPAttr{State: ib.RTS}, verbs.RTRToRTSUD},
		} {
			if err := qp.Modify(step.a, step.mask); err != nil {
				t.Fatal(err)
			}
		}
		return qp
	}
	from, at := ud(a), ud(b)
	ah, err := a.pd.CreateAH(verbs.AddressVector{GID: b.me.GID})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := at.PostRecv([]verbs.RecvWR{{SGL: to}}); err != nil {
		t.Fatal(err)
	}
	_, err = from.PostSend([]verbs.SendWR{{Opcode: ib.WRSend, Flags: verbs.SendInline, Inline: data, AH: ah, RemoteQPN: at.Num(), RemoteQKey: 0x11}})
	if err != nil {
		t.Fatal(err)
	}
	for wc := make([]verbs.WC, 1); ; {
		n, err := b.cq.Poll(wc)
		if err != nil {
			t.Fatal(err)
		}
		if n == 1 {
			if wc[0].Status != ib.WCSuccess || int(wc[0].ByteLen) != 40+len(data) {
				t.Fatalf("received %+v", wc[0])
			}
			return
		}
	}
}

// What reads memory that data are on their way to sees the data, by another region of the
// same memory, too.
func TestElsewhereIsReadBehindWrites(t *testing.T) {
	a, b := pair(t, "elsewhere-order")
	m := &elsewhere{start: 0x5000_0000, data: make([]byte, 8192)}
	var mrs [2]verbs.MR
	for i := range mrs {
		var err error
		if mrs[i], err = b.pd.(verbs.MemoryPD).RegMemory(m, m.start, 8192, uint64(i+1)<<32, everything); err != nil {
			t.Fatal(err)
		}
	}
	buf := bytes.Repeat([]byte{7}, 8192)
	amr := register(t, a, buf, false)
	err := verbs.Run(a.dev, func() error {
		for i := range 50 {
			buf[0] = byte(i)
			if _, err := a.qp.PostSend([]verbs.SendWR{
				{Opcode: ib.WRRDMAWrite, SGL: []verbs.SGE{verbs.SGEOf(amr, 0, 256)}, RemoteAddr: mrs[0].Addr() + 100, RKey: mrs[0].RKey()},
				{Opcode: ib.WRRDMARead, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(amr, 4096, 300)}, RemoteAddr: mrs[1].Addr() + 90, RKey: mrs[1].RKey()},
			}); err != nil {
				return err
			}
			for wc, n := make([]verbs.WC, 1), 0; n == 0; {
				var err error
				if n, err = a.cq.Poll(wc); err != nil {
					return err
				}
			}
			if !bytes.Equal(buf[4096+10:4096+266], buf[:256]) {
				return fmt.Errorf("round %d: a Read behind a Write returned %x", i, buf[4096:4096+300])
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestRegMemoryErrors(t *testing.T) {
	h := open(t, "sim:regmemory/h0")
	m := &elsewhere{data: make([]byte, 4096)}
	for _, c := range []struct {
		name               string
		m                  verbs.Memory
		addr, length, iova uint64
		access             ib.AccessFlags
	}{
		{"no memory", nil, 0, 10, 0, 0},
		{"no bytes", m, 0, 0, 0, 0},
		{"past the end", m, 1<<64 - 4096, 8192, 0, 0},
		{"iova past the end", m, 0, 8192, 1<<64 - 4096, 0},
		{"another place in the page", m, 0x1000, 10, 0x2001, 0},
		{"remote without local write", m, 0, 10, 0, ib.AccessRemoteWrite},
	} {
		if _, err := h.pd.(verbs.MemoryPD).RegMemory(c.m, c.addr, c.length, c.iova, c.access); !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("%s: %v, expected ErrInvalid", c.name, err)
		}
	}
}
