package overlay

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	_ "github.com/sluice-rdma/sluice/verbs/simverbs"
	"github.com/sluice-rdma/sluice/verbs/verbstest"
)

// simulated is a laid device that runs applications as the one below does.
type simulated struct {
	*layer
	verbs.Runner
}

func (s simulated) Close() error { return s.Device.Close() }

func open(t testing.TB, name string) simulated {
	t.Helper()
	dev, err := verbs.Open(name)
	must(t, err)
	l := lay(t, dev, 8)
	s := simulated{l, dev.(verbs.Runner)}
	t.Cleanup(func() {
		must(t, s.Close())
		if l.left() || !l.closed {
			t.Errorf("left: %d connections, %d objects; closed %v", len(l.known), len(l.inner), l.closed)
		}
	})
	return s
}

// A device with a layer is held to all that providers are.
func TestVerbs(t *testing.T) {
	a, b := open(t, "sim:overlay/h0"), open(t, "sim:overlay/h1")
	verbstest.Run(t, verbstest.Ends{A: a, B: b, GIDA: -1, GIDB: -1})
	if a.unmatched+b.unmatched > 0 || len(a.flows.list) == 0 {
		t.Errorf("%d and %d requests completed that were not posted, %d places for connections", a.unmatched, b.unmatched, len(a.flows.list))
	}
}

func TestVerbsShimmed(t *testing.T) {
	var both [2]verbs.Device
	for i, name := range []string{"sim:overlay-shim/h0", "sim:overlay-shim/h1"} {
		dev, err := verbs.Open(name)
		must(t, err)
		both[i] = verbstest.Shimmed(t, simulated{lay(t, dev, 8), dev.(verbs.Runner)})
	}
	verbstest.Run(t, verbstest.Ends{A: both[0], B: both[1], GIDA: -1, GIDB: -1})
}

// end is a queue pair with what it takes.
type end struct {
	simulated
	pd verbs.PD
	cq verbs.CQ
	qp verbs.QP
	mr verbs.MR
}

// pair connects queue pairs of two simulated devices.
func pair(t testing.TB, world string, cqe int) (e [2]end) {
	t.Helper()
	var at [2]verbs.Endpoint
	for i, host := range []string{"h0", "h1"} {
		x := &e[i]
		x.simulated = open(t, "sim:"+world+"/"+host)
		var err error
		x.pd, err = x.AllocPD()
		must(t, err)
		x.cq, err = x.CreateCQ(verbs.CQInitAttr{CQE: cqe})
		must(t, err)
		x.qp, err = x.pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: x.cq, RecvCQ: x.cq, Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}})
		must(t, err)
		x.mr, err = x.pd.RegMR(make([]byte, 64), ib.AccessLocalWrite|ib.AccessRemoteWrite)
		must(t, err)
		gid, err := x.GID(1, 0)
		must(t, err)
		at[i] = verbs.Endpoint{GID: gid, QPN: x.qp.Num(), PSN: 9}
		t.Cleanup(func() { must(t, errors.Join(x.qp.Close(), x.mr.Close(), x.cq.Close(), x.pd.Close())) })
	}
	for i := range e {
		must(t, verbs.ConnectRC(e[i].qp, at[i], at[1-i], verbs.DefaultRC()))
	}
	return e
}

// write posts requests of those numbers and returns their completions.
func write(t testing.TB, e *[2]end, wrids ...uint64) []verbs.WC {
	t.Helper()
	wc := make([]verbs.WC, len(wrids))
	must(t, e[0].Run(func() error {
		for _, id := range wrids {
			if _, err := e[0].qp.PostSend([]verbs.SendWR{{
				WRID: id, Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, RemoteAddr: e[1].mr.Addr(), RKey: e[1].mr.RKey(),
				SGL: []verbs.SGE{verbs.SGEOf(e[0].mr, 0, 8)},
			}}); err != nil {
				return err
			}
		}
		// All at once.
		e[0].Sleep(time.Millisecond)
		n, err := e[0].cq.Poll(wc)
		if err == nil && n != len(wc) {
			err = errors.New("they do not come at once")
		}
		return err
	}))
	return wc
}

// What is known of completions is found in any order, until the next Poll that returns
// something, and nothing is of a CQ that the layer is not told of.
func TestFind(t *testing.T) {
	e := pair(t, "overlay-find", 16)
	c := e[0].cq.(*CQ[*conn, uint64])
	wc := write(t, &e, 10, 11, 12, 13)
	for _, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {2, 2, 0, 3, 1}} {
		for _, i := range order {
			if v := c.Find(&wc[i]); v == nil || *v != wc[i].WRID+1 {
				t.Errorf("%v: request %d: %v", order, wc[i].WRID, v)
			}
		}
	}
	for _, w := range []verbs.WC{{WRID: 14, QPN: wc[0].QPN}, {WRID: 10, QPN: wc[0].QPN + 1}} {
		if v := c.Find(&w); v != nil {
			t.Errorf("%+v: %d", w, *v)
		}
	}
	if n, err := c.Poll(make([]verbs.WC, 1)); n != 0 || err != nil || c.Find(&wc[0]) == nil {
		t.Errorf("after a Poll of nothing: %d, %v", n, err)
	}
	write(t, &e, 20)
	if c.Find(&wc[0]) != nil {
		t.Error("something is known of the Poll before the last")
	}
	silent := pair(t, "overlay-silent", unwatched)
	wc = write(t, &silent, 1)
	if silent[0].cq.(*CQ[*conn, uint64]).Find(&wc[0]) != nil {
		t.Error("something is known on a CQ that is not watched")
	}
}

// able is a bare device whose queue pairs and CQs can all that is optional.
type able struct{ bare }

func (d *able) AllocPD() (verbs.PD, error)                  { return d, nil }
func (d *able) CreateQP(verbs.QPInitAttr) (verbs.QP, error) { return &ableQP{bareQP: d.add()}, nil }
func (*able) CreateCQ(verbs.CQInitAttr) (verbs.CQ, error)   { return new(ableCQ), nil }

type ableCQ struct {
	bareCQ
	attr verbs.CQAttr
}

func (c *ableCQ) Modify(a verbs.CQAttr) error {
	c.attr = a
	return nil
}

type ableQP struct {
	*bareQP
	rate   int64
	weight int
}

func (q *ableQP) SetRateLimit(bps int64) error {
	q.rate = bps
	return nil
}

func (q *ableQP) SetWeight(w int) error {
	q.weight = w
	return nil
}
func (q *ableQP) CNPs() uint64 { return 3 }
func (q *ableQP) CompletionTelemetry(wc *verbs.WC, t *verbs.Telemetry) bool {
	t.MaxHopDelay = units.Time(wc.WRID)
	return true
}
func (q *ableQP) TelemetryKinds() verbs.TelemetryKinds { return verbs.ReportsECN }
func (q *ableQP) SentTimestamps(wc *verbs.WC) (first, last uint64, ok bool) {
	return wc.WRID, wc.WRID + 1, true
}

// What the queue pair and the CQ below can, those over them can.
func TestForwarding(t *testing.T) {
	l := lay(t, new(able), 1)
	cq, qps := bareQPs(t, l, 1)
	q := qps[0]
	under := q.(interface{ Unwrap() verbs.QP }).Unwrap().(*ableQP)
	must(t, errors.Join(q.(verbs.RateLimitQP).SetRateLimit(1e9), q.(verbs.WeightQP).SetWeight(4), verbs.CQ(cq).(verbs.ModifiableCQ).Modify(verbs.CQAttr{Count: 5})))
	if c := cq.CQ.(*ableCQ); under.rate != 1e9 || under.weight != 4 || c.attr.Count != 5 {
		t.Errorf("rate %d, weight %d, %+v", under.rate, under.weight, c.attr)
	}
	var got verbs.Telemetry
	tq := q.(verbs.TelemetryQP)
	if !tq.CompletionTelemetry(&verbs.WC{WRID: 8}, &got) || got.MaxHopDelay != 8 || tq.TelemetryKinds() != verbs.ReportsECN {
		t.Errorf("%+v, kinds %04b", got, tq.TelemetryKinds())
	}
	if first, last, ok := q.(verbs.SentTimestampQP).SentTimestamps(&verbs.WC{WRID: 8}); !ok || first != 8 || last != 9 {
		t.Errorf("sent at %d to %d, %v", first, last, ok)
	}
	if n := q.(verbs.CNPQP).CNPs(); n != 3 {
		t.Errorf("%d CNPs", n)
	}
}

// bare is a device whose objects can nothing beyond the interfaces.
type bare struct {
	verbs.Device
	verbs.PD
	made []*bareQP
}

func (*bare) Name() string                                  { return "bare" }
func (d *bare) Close() error                                { return nil }
func (d *bare) AllocPD() (verbs.PD, error)                  { return d, nil }
func (*bare) CreateCQ(verbs.CQInitAttr) (verbs.CQ, error)   { return new(bareCQ), nil }
func (d *bare) CreateQP(verbs.QPInitAttr) (verbs.QP, error) { return d.add(), nil }
func (d *bare) add() *bareQP {
	// Numbers go up and down, as those of devices do that give them out anew.
	q := &bareQP{num: uint32(len(d.made)*7) % 10}
	d.made = append(d.made, q)
	return q
}

type bareCQ struct {
	verbs.CQ
	_ byte
}

func (*bareCQ) Close() error { return nil }

type bareQP struct {
	verbs.QP
	num   uint32
	wrong error // of Modify
}

func (q *bareQP) Num() uint32                                 { return q.num }
func (q *bareQP) Modify(verbs.QPAttr, verbs.QPAttrMask) error { return q.wrong }
func (q *bareQP) Close() error                                { return nil }

// bareQPs makes queue pairs on one CQ.
func bareQPs(t *testing.T, l *layer, n int) (cq *CQ[*conn, uint64], qps []verbs.QP) {
	t.Helper()
	pd, err := l.AllocPD()
	must(t, err)
	c, err := l.CreateCQ(verbs.CQInitAttr{CQE: 16})
	must(t, err)
	for range n {
		q, err := pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: c, RecvCQ: c})
		must(t, err)
		qps = append(qps, q)
	}
	return c.(*CQ[*conn, uint64]), qps
}

// What those below can't is not supported, or nothing.
func TestNothingToForward(t *testing.T) {
	l := lay(t, new(bare), 4)
	cq, qps := bareQPs(t, l, 1)
	q := qps[0]
	for what, err := range map[string]error{
		"rate": q.(verbs.RateLimitQP).SetRateLimit(1), "weight": q.(verbs.WeightQP).SetWeight(1), "events": cq.Modify(verbs.CQAttr{}),
	} {
		if !errors.Is(err, verbs.ErrNotSupported) || !strings.Contains(err.Error(), "bare") {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, _, sent := q.(verbs.SentTimestampQP).SentTimestamps(&verbs.WC{})
	if q.(verbs.CNPQP).CNPs() != 0 || q.(verbs.TelemetryQP).TelemetryKinds() != 0 || q.(verbs.TelemetryQP).CompletionTelemetry(&verbs.WC{}, &verbs.Telemetry{}) || sent {
		t.Error("something comes of nothing")
	}
}

var (
	toRTR = verbs.QPAttr{State: ib.RTR, DestQPN: 5, AV: verbs.AddressVector{GID: netip.MustParseAddr("::ffff:10.0.0.1%eth0")}}
	toRTS = verbs.QPAttr{State: ib.RTS}
)

// A connection that can't begin does not come about, one that the device below refuses
// is forgotten, and so is one that is reset or destroyed; one that begins anew is told
// of anew.
func TestLife(t *testing.T) {
	dev := new(bare)
	l := lay(t, dev, 1)
	cq, qps := bareQPs(t, l, 3)
	begin := func(i int) error {
		must(t, qps[i].Modify(toRTR, verbs.InitToRTRRC))
		return qps[i].Modify(toRTS, verbs.RTRToRTSRC)
	}
	must(t, begin(0))
	want := Connection{netip.MustParseAddr("10.0.0.1"), 5, dev.made[0].num}
	if len(l.known) != 1 || l.known[1<<1] != want {
		t.Fatalf("%v, want %v", l.known, want)
	}
	must(t, qps[0].Modify(toRTS, verbs.RTRToRTSRC))
	if len(l.known) != 1 || l.known[2<<1] != want || qps[0].(*conn).ended != 1 {
		t.Errorf("begun anew: %v", l.known)
	}

	l.fails = errors.New("the map is full")
	if err := begin(1); !errors.Is(err, l.fails) || !strings.Contains(err.Error(), "a test's connection can't begin") {
		t.Errorf("%v", err)
	}
	l.fails = nil
	dev.made[1].wrong = errors.New("refused")
	if err := qps[1].Modify(toRTS, verbs.RTRToRTSRC); !errors.Is(err, dev.made[1].wrong) || len(l.known) != 1 {
		t.Errorf("%v, %v", err, l.known)
	}
	dev.made[1].wrong = nil
	must(t, begin(1))
	if err := begin(2); err == nil || !strings.Contains(err.Error(), "2 connections") {
		t.Errorf("a third connection of two: %v", err)
	}

	// What is said of a connection that is gone, or of none, is strange.
	if q, ok := l.Flow(2 << 1); !ok || q != qps[0] {
		t.Errorf("%v, %v", q, ok)
	}
	for _, id := range []uint32{1 << 1, 0, 9, 1<<32 - 1} {
		if q, ok := l.Flow(id); ok {
			t.Errorf("id %#x is of %v", id, q)
		}
	}
	if n := l.Strange(); n != 4 {
		t.Errorf("%d strange", n)
	}

	// A failure is the end of successes, and of matching, until the next life.
	ok := verbs.WC{QPN: dev.made[0].num, Opcode: ib.WCRDMAWrite}
	if q, known := cq.Sender(&ok); !known || q != qps[0] {
		t.Errorf("%v, %v", q, known)
	}
	failure, received := ok, ok
	failure.Status, received.Opcode = ib.WCRetryExcErr, ib.WCRecv
	for _, w := range []verbs.WC{failure, received, {QPN: 99}, {QPN: dev.made[2].num}} {
		if q, known := cq.Sender(&w); known {
			t.Errorf("%+v is of %v", w, q)
		}
	}
	if q := qps[0].(*conn); !q.Failed() {
		t.Error("not failed")
	}
	must(t, qps[0].Modify(verbs.QPAttr{State: ib.Reset}, verbs.AttrState))
	must(t, begin(0))
	if q := qps[0].(*conn); q.Failed() || len(l.known) != 2 {
		t.Errorf("%v", l.known)
	}
	must(t, qps[0].Modify(verbs.QPAttr{State: ib.Err}, verbs.AttrState))
	if q := qps[0].(*conn); !q.Failed() {
		t.Error("not failed in ERR")
	}
	for _, q := range qps {
		must(t, q.Close())
	}
	must(t, cq.Close())
	if l.left() || len(cq.senders) != 0 {
		t.Errorf("left: %v, %v, %v", l.known, l.inner, cq.senders)
	}
}

// The queue pairs that send to a CQ are found by their numbers, whichever come and go.
func TestSenders(t *testing.T) {
	l := lay(t, new(bare), 4)
	cq, qps := bareQPs(t, l, 10)
	for i, q := range qps {
		for _, other := range qps[i:] {
			if k, ok := cq.place(other.Num()); !ok || cq.senders[k].q != other {
				t.Fatalf("queue pair %d is not found", other.Num())
			}
		}
		must(t, q.Close())
		if _, ok := cq.place(q.Num()); ok {
			t.Errorf("queue pair %d is still there", q.Num())
		}
		if !slices.IsSorted(cq.numbers) || len(cq.numbers) != len(cq.senders) {
			t.Fatal("out of order")
		}
	}
}

// Objects of another device are refused.
func TestStrangers(t *testing.T) {
	a, b := lay(t, new(bare), 1), lay(t, new(bare), 1)
	pd, err := a.AllocPD()
	must(t, err)
	cq, err := b.CreateCQ(verbs.CQInitAttr{})
	must(t, err)
	own, err := a.CreateCQ(verbs.CQInitAttr{})
	must(t, err)
	for _, init := range []verbs.QPInitAttr{{SendCQ: cq, RecvCQ: own}, {SendCQ: own, RecvCQ: cq}, {SendCQ: new(bareCQ), RecvCQ: own}} {
		if _, err := pd.CreateQP(init); !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("another's CQ: %v", err)
		}
	}
	if _, err := a.CreateCQ(verbs.CQInitAttr{Channel: &channel[*conn, uint64]{dev: b.Device}}); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("another's channel: %v", err)
	}
}
