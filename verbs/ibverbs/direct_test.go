//go:build ibverbs

package ibverbs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/internal/quantile"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/ibverbs/internal/mlx5"
	"github.com/sluice-rdma/sluice/verbs/internal/connectx"
	_ "github.com/sluice-rdma/sluice/verbs/softroce"
	"github.com/sluice-rdma/sluice/verbs/virtual"
)

// TestDirect runs the tests whose names begin with TestOverMLX5 over the real libibverbs and
// libmlx5 and an emulated ConnectX, with CQEs of 64 and of 128 bytes.
func TestDirect(t *testing.T) {
	for _, tool := range []string{"make", "cc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is missing: %v", tool, err)
		}
	}
	dir := t.TempDir()
	if out, err := exec.Command("make", "-s", "-C", "../..", "libsluice-virtual", "LIB="+dir).CombinedOutput(); err != nil {
		t.Fatalf("make libsluice-virtual: %v\n%s", err, out)
	}
	for _, size := range []string{"64", "128"} {
		t.Run("CQEs of "+size+" bytes", func(t *testing.T) {
			d, err := virtual.Open(virtual.Config{Model: "cx6dx", Name: "mlx5_0", Backend: backend(t)})
			if err != nil {
				t.Fatal(err)
			}
			h, err := virtual.Serve(d)
			if err != nil {
				t.Fatal(err)
			}
			defer h.Close()
			args := []string{"-test.run", "^TestOverMLX5", "-test.v"}
			if testing.Short() {
				args = append(args, "-test.short")
			}
			cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
			cmd.Env = append(h.Environ(os.Environ(), filepath.Join(dir, "libsluice-virtual.so")), "LD_LIBRARY_PATH=", "MLX5_CQE_SIZE="+size)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
			for _, name := range []string{"Shadow", "Allocs", "Threads", "Options"} {
				if !strings.Contains(string(out), "--- PASS: TestOverMLX5"+name+" ") {
					t.Errorf("TestOverMLX5%s did not pass\n%s", name, out)
				}
			}
		})
	}
}

// backend returns the device that carries the emulated device's packets, at a free
// address.
func backend(t *testing.T) verbs.Device {
	t.Helper()
	for last := 1; last < 250; last++ {
		d, err := verbs.Open(fmt.Sprintf("soft:127.9.8.%d", last))
		if errors.Is(err, verbs.ErrBusy) {
			continue
		}
		return must(t, d, err)
	}
	t.Fatal("no address of 127.9.8.0/24 is free")
	return nil
}

// emulated opens the emulated device.
func emulated(t testing.TB, options string) *Device {
	t.Helper()
	if os.Getenv("SLUICE_VIRTUAL") == "" {
		t.Skip("no emulated device: TestDirect starts this test with one")
	}
	d, err := verbs.Open("ibv:mlx5_0" + options)
	dev := must(t, d, err).(*Device)
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	return dev
}

func TestOverMLX5Options(t *testing.T) {
	for _, c := range []struct {
		options string
		direct  bool
		why     string
	}{
		{"", true, "mlx5dv_init_obj works"},
		{"?direct=on", true, "mlx5dv_init_obj works"},
		{"?direct=on&timestamps=off", true, "mlx5dv_init_obj works"},
		{"?direct=off", false, "direct=off"},
		{"?timestamps=wallclock", false, "wall clock"},
	} {
		d := emulated(t, c.options)
		if a := d.Capabilities().Direct; d.direct != c.direct || a.Found != c.direct || !strings.Contains(a.Why, c.why) {
			t.Errorf("%q: direct %v, %+v; expected %v and %q", c.options, d.direct, a, c.direct, c.why)
		}
	}
	if _, err := verbs.Open("ibv:mlx5_0?direct=on&timestamps=wallclock"); !errors.Is(err, verbs.ErrNotSupported) {
		t.Errorf("direct=on with the wall clock: %v, expected %v", err, verbs.ErrNotSupported)
	}
	t.Setenv(signatures, "1")
	if d := emulated(t, ""); d.direct {
		t.Error("direct, and libmlx5 signs requests")
	}
}

// shadow is a queue pair that libmlx5 posts to and polls, and beside it one in Go's memory that is
// given the same requests and the same CQEs.
type shadow struct {
	t   *testing.T
	qp  *QP
	cq  *CQ
	srq *SRQ
	ah  *AH
	mr  verbs.MR
	pd  verbs.PD
	buf []byte

	real     mlx5.QPMemory // libmlx5's
	ring     mlx5.CQMemory
	shared   mlx5.SRQMemory
	next     uint32 // of the real CQ
	send     []byte // Go's
	recv     []byte
	record   [2]uint32
	doorbell uint64
	cqes     []byte
	cqRecord [2]uint32
	srqRing  []byte
	srqCount uint32
	fakeQP   *mlx5.QP
	fakeCQ   *mlx5.CQ
	fakeSRQ  *mlx5.SRQ

	recvs int    // posted to a ring of the queue pair's own, and not completed
	last  uint64 // WRID of the last send that has completed
}

func newShadow(t *testing.T, d *Device, kind ib.QPType, stamps, withSRQ, sigAll bool) *shadow {
	t.Helper()
	s := &shadow{t: t, buf: make([]byte, 1<<16)}
	pd, err := d.AllocPD()
	s.pd = must(t, pd, err)
	cq, err := d.CreateCQ(verbs.CQInitAttr{CQE: 256, Timestamps: stamps})
	s.cq = must(t, cq, err).(*CQ)
	s.mr, err = pd.RegMR(s.buf, verbs.DefaultRC().Access)
	must(t, s.mr, err)
	init := verbs.QPInitAttr{Type: kind, SendCQ: cq, RecvCQ: cq, SigAll: sigAll, Cap: verbs.QPCap{
		MaxSendWR: 20, MaxRecvWR: 20, MaxSendSGE: 6, MaxRecvSGE: 3, MaxInlineData: 200}}
	if withSRQ {
		srq, err := pd.CreateSRQ(verbs.SRQInitAttr{MaxWR: 20, MaxSGE: 3})
		s.srq = must(t, srq, err).(*SRQ)
		init.SRQ = srq
	}
	qp, err := pd.CreateQP(init)
	s.qp = must(t, qp, err).(*QP)
	if kind == ib.UD {
		gid, err := d.GID(1, must2(t)(d.BestGID(1)))
		must(t, gid, err)
		ah, err := pd.CreateAH(verbs.AddressVector{GID: gid, TrafficClass: 3, HopLimit: 9})
		s.ah = must(t, ah, err).(*AH)
		check(t, s.ah.mapDirect())
	}
	c, err := s.cq.memory()
	check(t, err)
	s.ring = c.Memory
	s.cqes = bytes.Clone(s.ring.Ring)
	c.Table, c.Timestamps = new(mlx5.Table), stamps
	c.Memory.Record, c.Memory.Ring, c.Memory.Doorbell = &s.cqRecord, s.cqes, &s.doorbell
	s.fakeCQ, err = mlx5.NewCQ(&c)
	check(t, err)

	s.real, err = s.qp.memory()
	check(t, err)
	m := s.real
	s.send, s.recv = bytes.Clone(m.Send), bytes.Clone(m.Recv)
	m.Send, m.Recv, m.Record, m.Doorbell = s.send, s.recv, &s.record, &s.doorbell
	q := mlx5.QPConfig{Num: s.qp.num, Type: kind, SigAll: sigAll, Cap: s.qp.cap, Memory: m, SendCQ: s.fakeCQ, RecvCQ: s.fakeCQ}
	if withSRQ {
		s.shared, err = s.srq.memory()
		check(t, err)
		m := s.shared
		s.srqRing = bytes.Clone(m.Ring)
		m.Ring, m.Record = s.srqRing, &s.srqCount
		s.fakeSRQ, err = mlx5.NewSRQ(m, 3)
		check(t, err)
		q.SRQ = s.fakeSRQ
	}
	s.fakeQP, err = mlx5.NewQP(&q)
	check(t, err)
	return s
}

func (s *shadow) destroy() {
	all := []func() error{s.qp.Close}
	if s.srq != nil {
		all = append(all, s.srq.Close)
	}
	if s.ah != nil {
		all = append(all, s.ah.Close)
	}
	for _, f := range append(all, s.cq.Close, s.mr.Close, s.pd.Close) {
		check(s.t, f())
	}
}

// connect brings the queue pair to RTS, to itself.
func (s *shadow) connect(rt *rapid.T) {
	d := s.qp.dev
	index, err := d.BestGID(1)
	if err != nil {
		rt.Fatal(err)
	}
	gid, err := d.GID(1, index)
	if err != nil {
		rt.Fatal(err)
	}
	end := verbs.Endpoint{GID: gid, QPN: s.qp.num}
	steps := []struct {
		attr verbs.QPAttr
		mask verbs.QPAttrMask
	}{}
	switch s.qp.kind {
	case ib.RC:
		err = verbs.ConnectRC(s.qp, end, end, verbs.DefaultRC())
	case ib.UC:
		steps = append(steps, []struct {
			attr verbs.QPAttr
			mask verbs.QPAttrMask
		}{
			{verbs.QPAttr{State: ib.Init, Port: 1, Access: verbs.DefaultRC().Access}, verbs.ResetToInitUC},
			{verbs.QPAttr{State: ib.RTR, PathMTU: 1024, DestQPN: s.qp.num, AV: verbs.AddressVector{GID: gid}}, verbs.InitToRTRUC},
			{verbs.QPAttr{State: ib.RTS}, verbs.RTRToRTSUC},
		}...)
	case ib.UD:
		steps = append(steps, []struct {
			attr verbs.QPAttr
			mask verbs.QPAttrMask
		}{
			{verbs.QPAttr{State: ib.Init, Port: 1, QKey: 0x11}, verbs.ResetToInitUD},
			{verbs.QPAttr{State: ib.RTR}, verbs.InitToRTRUD},
			{verbs.QPAttr{State: ib.RTS}, verbs.RTRToRTSUD},
		}...)
	}
	for _, step := range steps {
		if err == nil {
			err = s.qp.Modify(step.attr, step.mask)
		}
	}
	if err != nil {
		rt.Fatal(err)
	}
}

// piece is a piece of the region, with the right key most of the time.
func (s *shadow) piece(rt *rapid.T, most int, good bool) verbs.SGE {
	n := rapid.IntRange(0, most).Draw(rt, "bytes")
	sge := verbs.SGEOf(s.mr, rapid.IntRange(0, len(s.buf)-most).Draw(rt, "offset"), n)
	if !good {
		sge.LKey++
	}
	return sge
}

func (s *shadow) pieces(rt *rapid.T, most int, good bool) (sgl []verbs.SGE) {
	size := rapid.SampledFrom([]int{16, 60, 3000}).Draw(rt, "size")
	if s.qp.kind == ib.UD {
		size = 60
	}
	for range rapid.IntRange(0, most).Draw(rt, "pieces") {
		sgl = append(sgl, s.piece(rt, size, good))
	}
	return sgl
}

func (s *shadow) request(rt *rapid.T, id uint64) verbs.SendWR {
	ops := map[ib.QPType][]ib.WROpcode{
		ib.RC: {ib.WRSend, ib.WRSendWithImm, ib.WRRDMAWrite, ib.WRRDMAWriteWithImm, ib.WRRDMARead, ib.WRAtomicCmpAndSwp, ib.WRAtomicFetchAndAdd,
			ib.WRSend, ib.WRSendWithImm, ib.WRRDMAWrite, ib.WRRDMAWriteWithImm, ib.WRRDMARead, ib.WRAtomicFetchAndAdd, ib.WRSendWithInv},
		ib.UC: {ib.WRSend, ib.WRSendWithImm, ib.WRRDMAWrite, ib.WRRDMAWriteWithImm},
		ib.UD: {ib.WRSend, ib.WRSendWithImm},
	}[s.qp.kind]
	good := rapid.IntRange(0, 39).Draw(rt, "good") > 0
	wr := verbs.SendWR{
		WRID: id, Opcode: rapid.SampledFrom(ops).Draw(rt, "op"), Flags: verbs.SendFlags(rapid.IntRange(0, 7).Draw(rt, "flags")),
		RemoteAddr: s.mr.Addr() + 8*uint64(rapid.IntRange(0, 100).Draw(rt, "remote")), RKey: s.mr.RKey(), Imm: rapid.Uint32().Draw(rt, "imm"),
		CompareAdd: rapid.Uint64().Draw(rt, "compare"), Swap: rapid.Uint64().Draw(rt, "swap"),
	}
	if rapid.IntRange(0, 39).Draw(rt, "key") == 0 {
		wr.RKey++
	}
	if s.ah != nil {
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = s.ah, s.qp.num, 0x11
	}
	switch {
	case wr.Opcode.IsAtomic():
		wr.SGL = []verbs.SGE{verbs.SGEOf(s.mr, 8*rapid.IntRange(0, 100).Draw(rt, "result"), 8)}
	case wr.Opcode != ib.WRRDMARead && rapid.Bool().Draw(rt, "inline"):
		wr.Flags |= verbs.SendInline
		wr.Inline = rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(rt, "data")
	default:
		wr.SGL = s.pieces(rt, 6, good)
	}
	return wr
}

// postSend posts to both, and compares what was taken and written.
func (s *shadow) postSend(rt *rapid.T, wrs []verbs.SendWR) {
	n, err := s.qp.PostSend(wrs)
	k := 0
	var fake error
	for k < len(wrs) && fake == nil {
		var to *mlx5.Vector
		if s.ah != nil {
			to = &s.ah.vector
		}
		if fake = s.fakeQP.PutSend(&wrs[k], to); fake == nil {
			k++
		}
	}
	s.fakeQP.RingSend()
	if n != k || (err == nil) != (fake == nil) || errors.Is(err, verbs.ErrQueueFull) != errors.Is(fake, verbs.ErrQueueFull) {
		rt.Fatalf("libmlx5 took %d sends of %d, %v; Go %d, %v", n, len(wrs), err, k, fake)
	}
	s.compare(rt)
}

func (s *shadow) postRecv(rt *rapid.T, wrs []verbs.RecvWR) {
	var n, k int
	var err, fake error
	if s.srq != nil {
		n, err = s.srq.PostRecv(wrs)
		k, fake = s.fakeSRQ.PostRecv(wrs)
	} else {
		n, err = s.qp.PostRecv(wrs)
		k, fake = s.fakeQP.PostRecv(wrs)
		s.recvs += n
	}
	if n != k || (err == nil) != (fake == nil) || errors.Is(err, verbs.ErrQueueFull) != errors.Is(fake, verbs.ErrQueueFull) {
		rt.Fatalf("libmlx5 took %d receives of %d, %v; Go %d, %v", n, len(wrs), err, k, fake)
	}
	s.compare(rt)
}

// compare holds rings and doorbell records to libmlx5's.
func (s *shadow) compare(rt *rapid.T) {
	for _, c := range []struct {
		what       string
		real, fake []byte
	}{{"send ring", s.real.Send, s.send}, {"receive ring", s.real.Recv, s.recv}, {"shared receive ring", s.shared.Ring, s.srqRing}} {
		if !bytes.Equal(c.real, c.fake) {
			at := 0
			for c.real[at] == c.fake[at] {
				at++
			}
			from := at &^ 63
			rt.Fatalf("the %s differs at %#x:\n%x, expected\n%x", c.what, at, c.fake[from:min(from+64, len(c.fake))], c.real[from:min(from+64, len(c.real))])
		}
	}
	if *s.real.Record != s.record {
		rt.Fatalf("the doorbell record is %x, expected %x", s.record, *s.real.Record)
	}
	if s.srq != nil && *s.shared.Record != s.srqCount {
		rt.Fatalf("the shared queue's doorbell record is %x, expected %x", s.srqCount, *s.shared.Record)
	}
}

// poll copies the CQEs that there are to Go's ring one by one, and polls both. It returns how
// many there were.
func (s *shadow) poll(rt *rapid.T) (n int) {
	size := s.ring.EntrySize
	for ; written(s.ring, s.next); n++ {
		at := int(s.next) * size & (len(s.ring.Ring) - 1)
		s.next++
		copy(s.cqes[at:at+size], s.ring.Ring[at:])
		var real, fake [2]verbs.WC
		k, err := s.cq.Poll(real[:1])
		if k != 1 || err != nil {
			rt.Fatalf("libmlx5 polled %d, %v", k, err)
		}
		if k, err := s.fakeCQ.Poll(fake[:]); k != 1 || err != nil {
			rt.Fatalf("Go polled %d, %v", k, err)
		}
		if want := s.valid(real[0]); fake[0] != want {
			rt.Fatalf("Go polled %+v, expected %+v", fake[0], want)
		}
		switch kind := s.cqes[at+size-1] >> 4; {
		case kind == connectx.CQEReq || kind == connectx.CQEReqErr:
			s.last = real[0].WRID
		case s.srq == nil:
			s.recvs--
		}
		if real, fake := s.consumer(), s.cqRecord[connectx.RecordConsumer]; real != fake {
			rt.Fatalf("the consumer index is %x, expected %x", fake, real)
		}
		s.compare(rt)
	}
	return n
}

// written reports whether the device has written the CQE at an index.
func written(m mlx5.CQMemory, index uint32) bool {
	entries := len(m.Ring) / m.EntrySize
	at := (int(index)&(entries-1) + 1) * m.EntrySize
	last := atomic.LoadUint32((*uint32)(unsafe.Pointer(&m.Ring[at-4]))) >> 24
	return last>>4 != connectx.CQEInvalid && (last&connectx.OwnerBit != 0) == (int(index)&entries != 0)
}

func (s *shadow) consumer() uint32 { return s.ring.Record[connectx.RecordConsumer] }

// valid clears what libmlx5 leaves undefined, or reads from where data is.
func (s *shadow) valid(wc verbs.WC) verbs.WC {
	if wc.Status != ib.WCSuccess {
		return wc
	}
	if wc.Opcode&ib.WCRecv == 0 {
		wc.Flags, wc.Imm, wc.SrcQP = 0, 0, 0
		if wc.Opcode != ib.WCRDMARead && wc.Opcode != ib.WCCompSwap && wc.Opcode != ib.WCFetchAdd {
			wc.ByteLen = 0
		}
		return wc
	}
	if s.qp.kind != ib.UD {
		wc.Flags, wc.SrcQP = wc.Flags&^verbs.WCGRH, 0
	}
	if wc.Flags&(verbs.WCWithImm|verbs.WCWithInv) == 0 {
		wc.Imm = 0
	}
	return wc
}

// settle polls until everything has completed, in ERR: the last is a send that it posts.
func (s *shadow) settle(rt *rapid.T, id uint64) {
	last := verbs.SendWR{WRID: id, Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, RKey: s.mr.RKey(), RemoteAddr: s.mr.Addr()}
	if s.ah != nil {
		last.Opcode, last.AH, last.RemoteQPN, last.RemoteQKey = ib.WRSend, s.ah, s.qp.num, 0x12 // it is not received
	}
	posted := false
	for start := time.Now(); ; {
		if n := s.poll(rt); n > 0 {
			start = time.Now()
		}
		if !posted {
			if err := s.fakeQP.PutSend(&last, s.vector()); err == nil {
				s.fakeQP.RingSend()
				if n, err := s.qp.PostSend([]verbs.SendWR{last}); n != 1 {
					rt.Fatalf("Go took a request that libmlx5 does not: %v", err)
				}
				s.compare(rt)
				posted = true
			}
		}
		if posted && s.last == id && s.recvs == 0 {
			return
		}
		if time.Since(start) > 20*time.Second {
			rt.Fatal("requests do not complete")
		}
	}
}

func (s *shadow) vector() *mlx5.Vector {
	if s.ah == nil {
		return nil
	}
	return &s.ah.vector
}

// For the same requests libmlx5 and Go write the same bytes to rings and doorbell records, and
// of the same CQEs they make the same completions.
func TestOverMLX5Shadow(t *testing.T) {
	d := emulated(t, "?direct=off")
	for _, c := range []struct {
		kind             ib.QPType
		stamps, srq, all bool
	}{
		{ib.RC, true, false, false}, {ib.RC, false, true, false}, {ib.RC, true, true, true}, {ib.UC, true, false, false}, {ib.UD, true, false, false},
		{ib.UD, false, true, true},
	} {
		t.Run(fmt.Sprintf("%v stamps=%v srq=%v all=%v", c.kind, c.stamps, c.srq, c.all), func(t *testing.T) {
			id, total := uint64(0), 0
			rapid.Check(t, func(rt *rapid.T) {
				s := newShadow(t, d, c.kind, c.stamps, c.srq, c.all)
				defer s.destroy()
				s.connect(rt)
				for range rapid.IntRange(1, 30).Draw(rt, "steps") {
					switch rapid.IntRange(0, 3).Draw(rt, "do") {
					case 0, 1:
						var wrs []verbs.SendWR
						for range rapid.IntRange(1, 8).Draw(rt, "list") {
							id++
							wrs = append(wrs, s.request(rt, id))
						}
						s.postSend(rt, wrs)
					case 2:
						var wrs []verbs.RecvWR
						for range rapid.IntRange(1, 8).Draw(rt, "list") {
							id++
							wrs = append(wrs, verbs.RecvWR{WRID: id, SGL: s.pieces(rt, 3, true)})
						}
						s.postRecv(rt, wrs)
					case 3:
						total += s.poll(rt)
					}
				}
				// In ERR everything completes. libmlx5 drops nothing from a ring that it has
				// shown.
				if err := s.qp.Modify(verbs.QPAttr{State: ib.Err}, verbs.AttrState); err != nil {
					rt.Fatal(err)
				}
				id++
				s.settle(rt, id)
				if err := s.qp.Modify(verbs.QPAttr{State: ib.Reset}, verbs.AttrState); err != nil {
					rt.Fatal(err)
				}
				s.fakeQP.Reset()
				s.compare(rt)
			})
			t.Logf("%d requests, %d completions compared", id, total)
		})
	}
}

// BenchmarkOverMLX5 measures PostSend and Poll by Go and by libmlx5, for signaled Writes of 8
// bytes; the device's time in between is left out. Medians, less what reading the clock takes:
//
//	go test -tags ibverbs -c ./verbs/ibverbs
//	SLUICE_TEST_FAKEVERBS=1 sluice virtual -- ./ibverbs.test -test.run '^$' -test.bench OverMLX5
func BenchmarkOverMLX5(b *testing.B) {
	for _, n := range []int{1, 16} {
		for _, options := range []string{"?direct=on", "?direct=off"} {
			b.Run(fmt.Sprintf("batch=%d/%s", n, options[1:]), func(b *testing.B) { benchmarkPosts(b, options, n) })
		}
	}
}

func benchmarkPosts(b *testing.B, options string, n int) {
	x, y := connect(b, emulated(b, options), true)
	ring, err := x.cq.(*CQ).memory()
	check(b, err)
	wrs, wc := batch(x, y, n), make([]verbs.WC, n)
	for i := range wrs {
		wrs[i].Flags = verbs.SendSignaled
	}
	var posts, polls, clocks []time.Duration
	for next := 0; b.Loop(); {
		t0 := time.Now()
		t1 := time.Now()
		if k, err := x.qp.PostSend(wrs); k != n {
			b.Fatal(err)
		}
		t2 := time.Now()
		for next += n; !written(ring.Memory, uint32(next-1)); {
			runtime.Gosched()
		}
		t3 := time.Now()
		if k, err := x.cq.Poll(wc); k != n {
			b.Fatal(k, err)
		}
		t4 := time.Now()
		clocks, posts, polls = append(clocks, t1.Sub(t0)), append(posts, t2.Sub(t1)), append(polls, t4.Sub(t3))
	}
	clock := median(clocks)
	post, poll := median(posts)-clock, median(polls)-clock
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(post)/float64(n), "post-ns/request")
	b.ReportMetric(float64(poll)/float64(n), "poll-ns/request")
	b.ReportMetric(float64(post+poll)/float64(n), "ns/request")
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return quantile.Of(all, 0.5)
}

func TestOverMLX5Allocs(t *testing.T) {
	for _, stamps := range []bool{false, true} {
		a, b := connect(t, emulated(t, "?direct=on"), stamps)
		wrs := batch(a, b, 16)
		inline := write(a, b, 8)
		inline.Flags, inline.Inline, inline.SGL = verbs.SendInline|verbs.SendSignaled, make([]byte, 16), nil
		wrs = append(wrs, inline)
		recvs := []verbs.RecvWR{{SGL: []verbs.SGE{verbs.SGEOf(b.mr, 0, 8)}}}
		send := verbs.SendWR{Opcode: ib.WRSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(a.mr, 0, 8)}}
		wrs = append(wrs, send)
		wc := make([]verbs.WC, 32)
		await := func(cq verbs.CQ, want int) {
			for got := 0; got < want; {
				n, err := cq.Poll(wc)
				if err != nil {
					t.Fatal(err)
				}
				got += n
			}
		}
		if n := testing.AllocsPerRun(50, func() {
			if n, err := b.qp.PostRecv(recvs); n != 1 {
				t.Fatal(err)
			}
			if n, err := a.qp.PostSend(wrs); n != len(wrs) {
				t.Fatal(err)
			}
			if err := a.cq.ReqNotify(false); err != nil {
				t.Fatal(err)
			}
			await(a.cq, 3)
			await(b.cq, 1)
		}); n != 0 {
			t.Errorf("timestamps %v: %v allocations, expected none", stamps, n)
		}
	}
}

// One goroutine posts and another polls, while others connect and destroy queue pairs whose
// completions are in the same queue.
func TestOverMLX5Threads(t *testing.T) {
	d := emulated(t, "?direct=on")
	a, b := connect(t, d, true)
	const total = 20_000
	var others sync.WaitGroup
	stop := make(chan struct{})
	others.Go(func() {
		gid, err := d.GID(1, must2(t)(d.BestGID(1)))
		if err != nil {
			t.Error(err)
			return
		}
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			made, err := a.pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: a.cq, RecvCQ: a.cq, SigAll: true, Cap: verbs.QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 1, MaxRecvSGE: 1}})
			if err != nil {
				t.Error(err)
				return
			}
			end := verbs.Endpoint{GID: gid, QPN: made.Num()}
			err = verbs.ConnectRC(made, end, end, verbs.DefaultRC())
			if err == nil {
				w := write(a, a, 8)
				w.WRID = 1 << 63
				_, err = made.PostSend([]verbs.SendWR{w, w, w, w})
			}
			if i%2 == 0 && err == nil {
				err = made.Modify(verbs.QPAttr{State: ib.Reset}, verbs.AttrState)
			}
			if err = errors.Join(err, made.Close()); err != nil {
				t.Error(err)
				return
			}
		}
	})
	var posted atomic.Int64
	others.Go(func() {
		for i := 0; i < total; {
			w := write(a, b, 8)
			w.WRID = uint64(i)
			n, err := a.qp.PostSend([]verbs.SendWR{w})
			if err != nil && !errors.Is(err, verbs.ErrQueueFull) {
				t.Error(err)
				return
			}
			i += n
			posted.Store(int64(i))
		}
	})
	wc := make([]verbs.WC, 16)
	next, foreign := uint64(0), 0
	for start := time.Now(); next < total; {
		n, err := a.cq.Poll(wc)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range wc[:n] {
			switch {
			case c.WRID >= 1<<63:
				foreign++
			case c.WRID != next || c.Status != ib.WCSuccess || c.QPN != a.qp.Num():
				t.Fatalf("%+v, expected request %d", c, next)
			default:
				next++
			}
		}
		if n > 0 {
			start = time.Now()
		} else if time.Since(start) > 30*time.Second {
			t.Fatalf("%d of %d completions", next, posted.Load())
		}
	}
	close(stop)
	others.Wait()
	t.Logf("%d completions of queue pairs that came and went", foreign)
}
