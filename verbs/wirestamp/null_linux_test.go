package wirestamp

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/overlay"
	"github.com/sluice-rdma/sluice/verbs/internal/watcher"
)

// nullDevice takes what fits and completes it at once; every packet of it leaves
// and is acknowledged in between, as source tells.
type nullDevice struct {
	verbs.Device
	verbs.PD
	src   *nullSource
	full  int // the most posts of a call; more are refused
	qp    *nullQP
	wc    []verbs.WC
	fails ib.WCStatus
}

func (d *nullDevice) Name() string                                { return "null" }
func (d *nullDevice) AllocPD() (verbs.PD, error)                  { return d, nil }
func (d *nullDevice) Close() error                                { return nil }
func (d *nullDevice) Port(int) (verbs.PortAttr, error)            { return verbs.PortAttr{}, nil }
func (d *nullDevice) CreateCQ(verbs.CQInitAttr) (verbs.CQ, error) { return &nullCQ{dev: d}, nil }
func (d *nullDevice) CreateQP(verbs.QPInitAttr) (verbs.QP, error) {
	d.qp = &nullQP{dev: d}
	return d.qp, nil
}
func (d *nullDevice) AsyncEvent(context.Context, time.Duration) (verbs.AsyncEvent, error) {
	return verbs.AsyncEvent{Type: ib.EventQPFatal, QP: d.qp}, nil
}

type nullCQ struct {
	verbs.CQ
	dev *nullDevice
}

func (c *nullCQ) Poll(wc []verbs.WC) (int, error) {
	n := copy(wc, c.dev.wc)
	c.dev.wc = c.dev.wc[:copy(c.dev.wc, c.dev.wc[n:])]
	return n, nil
}
func (c *nullCQ) Close() error { return nil }

type nullQP struct {
	verbs.QP
	dev   *nullDevice
	psn   uint32
	wrong error // of Modify
}

func (q *nullQP) Num() uint32                                 { return localQPN }
func (q *nullQP) Close() error                                { return nil }
func (q *nullQP) Modify(verbs.QPAttr, verbs.QPAttrMask) error { return q.wrong }
func (q *nullQP) PostSend(wrs []verbs.SendWR) (int, error) {
	d := q.dev
	n := min(len(wrs), d.full)
	for i := range wrs[:n] {
		last := q.psn + uint32(max(1, (wrs[i].Length()+1023)/1024)) - 1
		if d.fails == ib.WCSuccess {
			d.src.packet(stamperEvent{Psn: q.psn, Opcode: uint8(ib.WriteFirst)})
			d.src.packet(stamperEvent{Psn: last, Opcode: uint8(ib.WriteLast)})
			d.src.packet(stamperEvent{Psn: last, Opcode: uint8(ib.Acknowledge), Syndrome: 0x1f, Arriving: 1})
		}
		q.psn = last + 1
		d.wc = append(d.wc, verbs.WC{WRID: wrs[i].WRID, QPN: localQPN, Opcode: wrs[i].Opcode.Completion(), Status: d.fails})
	}
	if n < len(wrs) {
		return n, verbs.ErrQueueFull
	}
	return n, nil
}

// nullSource counts nanoseconds by packets.
type nullSource struct {
	ids    map[overlay.Connection]uint32
	id     uint32
	at     uint64
	events []stamperEvent
	err    error
}

func (s *nullSource) packet(e stamperEvent) {
	s.at++
	e.Ns, e.Id = s.at, s.id
	s.events = append(s.events, e)
}
func (s *nullSource) Register(id uint32, c overlay.Connection) error {
	s.id, s.ids[c] = id, id
	return s.err
}
func (s *nullSource) Unregister(_ uint32, c overlay.Connection) error {
	delete(s.ids, c)
	return nil
}
func (s *nullSource) Take(each func(*stamperEvent)) {
	for i := range s.events {
		each(&s.events[i])
	}
	s.events = s.events[:0]
}
func (s *nullSource) lost() uint64 { return 5 }
func (s *nullSource) Close() error { return nil }

// nullPair returns a connected queue pair over a nullDevice, with its CQ.
func nullPair(t testing.TB) (*nullDevice, *Device, verbs.QP, verbs.CQ) {
	t.Helper()
	inner := &nullDevice{src: &nullSource{ids: map[overlay.Connection]uint32{}}, full: 1000}
	d := newDevice(inner, inner.src)
	pd, err := d.AllocPD()
	must(t, err)
	cq, err := d.CreateCQ(verbs.CQInitAttr{CQE: 64, Timestamps: true})
	must(t, err)
	qp, err := pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: cq, RecvCQ: cq, SigAll: true, Cap: verbs.QPCap{MaxSendWR: 64}})
	must(t, err)
	must(t, connectNull(inner, qp))
	return inner, d, qp, cq
}

func connectNull(d *nullDevice, qp verbs.QP) error {
	d.qp.psn = 100
	return verbs.ConnectRC(qp, verbs.Endpoint{PSN: 100}, verbs.Endpoint{GID: netip.MustParseAddr("fe80::1%eth0"), QPN: peerQPN}, verbs.DefaultRC())
}

func writes(n int) []verbs.SendWR {
	wrs := make([]verbs.SendWR, n)
	for i := range wrs {
		wrs[i] = verbs.SendWR{WRID: uint64(i), Opcode: ib.WRRDMAWrite, SGL: []verbs.SGE{{Length: 3000}}}
	}
	return wrs
}

// A refused post leaves the PSNs where they were.
func TestRefusedPost(t *testing.T) {
	inner, d, qp, cq := nullPair(t)
	if _, ok := inner.src.ids[overlay.Connection{Peer: netip.MustParseAddr("fe80::1"), PeerQPN: peerQPN, LocalQPN: localQPN}]; !ok {
		t.Fatalf("registered: %v", inner.src.ids)
	}
	wc := make([]verbs.WC, 8)
	inner.full = 3
	for round := range uint64(4) {
		if n, err := qp.PostSend(writes(5)); n != 3 || !errors.Is(err, verbs.ErrQueueFull) {
			t.Fatal(n, err)
		}
		n, err := cq.Poll(wc)
		if n != 3 || err != nil {
			t.Fatal(n, err)
		}
		for i := range uint64(3) {
			base := round*9 + i*3
			first, last, ok := qp.(verbs.SentTimestampQP).SentTimestamps(&wc[i])
			if wc[i].WRID != i || wc[i].Timestamp != base+3 || first != base+1 || last != base+2 || !ok {
				t.Errorf("round %d: %+v, sent at %d to %d, %v", round, wc[i], first, last, ok)
			}
		}
	}
	if st := d.Stats(); st != (Stats{Stamped: 12, Stamps: 36, Lost: 5}) {
		t.Errorf("%+v", st)
	}
}

// After a failure nothing is expected to be stamped, until the queue pair was reset
// and connected anew; stamps of its former life are strange.
func TestFailure(t *testing.T) {
	inner, d, qp, completes := nullPair(t)
	wc := make([]verbs.WC, 8)
	inner.fails = ib.WCRetryExcErr
	before := watcher.ReadClock()
	for range 3 {
		_, err := qp.PostSend(writes(1))
		must(t, err)
		if n, _ := completes.Poll(wc); n != 1 || wc[0].Timestamp < before {
			t.Fatal(n, wc[0])
		}
		if _, ok := qp.(Stamper).Stamps(&wc[0]); ok {
			t.Error("a failure has stamps")
		}
	}
	if e, err := d.AsyncEvent(t.Context(), 0); err != nil || e.QP != qp {
		t.Errorf("%+v, %v", e, err)
	}
	inner.src.packet(stamperEvent{Psn: 100, Opcode: uint8(ib.WriteOnly)})
	must(t, qp.Modify(verbs.QPAttr{State: ib.Reset}, verbs.AttrState))
	if len(inner.src.ids) != 0 {
		t.Errorf("still registered: %v", inner.src.ids)
	}
	must(t, connectNull(inner, qp))
	inner.fails = ib.WCSuccess
	_, err := qp.PostSend(writes(2))
	must(t, err)
	if n, _ := completes.Poll(wc); n != 2 || !stamped(qp, &wc[0]) || !stamped(qp, &wc[1]) {
		t.Error(n, wc[:n])
	}
	if st := d.Stats(); st != (Stats{Stamped: 2, Others: 3, Stamps: 7, Strange: 1, Lost: 5}) {
		t.Errorf("%+v", st)
	}
	must(t, qp.Close())
	if len(inner.src.ids) != 0 {
		t.Error("something is left")
	}
}

func stamped(qp verbs.QP, wc *verbs.WC) bool {
	s, ok := qp.(Stamper).Stamps(wc)
	return ok && s.Whole()
}

// A connection that can't be registered does not come about, and one that the
// device refuses is not registered.
func TestConnectingFails(t *testing.T) {
	inner, _, qp, _ := nullPair(t)
	must(t, qp.Modify(verbs.QPAttr{State: ib.Reset}, verbs.AttrState))
	full := errors.New("the map is full")
	inner.src.err = full
	if err := connectNull(inner, qp); !errors.Is(err, full) {
		t.Errorf("%v", err)
	}
	inner.src.err = nil
	clear(inner.src.ids)
	refuses := errors.New("no")
	inner.qp.wrong = refuses
	if err := qp.Modify(verbs.QPAttr{State: ib.RTS}, verbs.RTRToRTSRC); !errors.Is(err, refuses) || len(inner.src.ids) != 0 {
		t.Errorf("%v, registered: %v", err, inner.src.ids)
	}
}

// BenchmarkCompletion measures what the wrapper adds to a request of three packets: its
// post, its three stamps and its completion, in batches of 16, over a device that
// costs next to nothing.
func BenchmarkCompletion(b *testing.B) {
	inner, _, qp, cq := nullPair(b)
	wrs := writes(16)
	wc := make([]verbs.WC, 16)
	run := func(q verbs.QP, c verbs.CQ, stamps bool) {
		if _, err := q.PostSend(wrs); err != nil {
			b.Fatal(err)
		}
		n, _ := c.Poll(wc)
		if n != len(wrs) {
			b.Fatal(n)
		}
		for i := range wc[:n] {
			if stamps && !stamped(q, &wc[i]) {
				b.Fatal("not stamped")
			}
		}
	}
	b.Run("wrapped", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			run(qp, cq, true)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/16, "ns/request")
	})
	b.Run("bare", func(b *testing.B) {
		b.ReportAllocs()
		bare, _ := inner.CreateCQ(verbs.CQInitAttr{})
		for b.Loop() {
			run(inner.qp, bare, false)
			inner.src.events = inner.src.events[:0]
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/16, "ns/request")
	})
}
