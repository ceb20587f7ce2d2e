package paced_test

import (
	"errors"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/internal/quantile"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
	"github.com/sluice-rdma/sluice/verbs/simverbs"
)

// device is a provider on the host's clock that completes requests as they are
// posted, and notes when that was.
type nowDevice struct {
	verbs.Device
	start time.Time

	mu     sync.Mutex
	clocks int // readings of the clock
	posted []time.Duration
	wcs    []verbs.WC
	broken error // of a poll
}

func (d *nowDevice) Name() string           { return "now:0" }
func (d *nowDevice) Attr() verbs.DeviceAttr { return verbs.DeviceAttr{} }
func (d *nowDevice) Now() time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clocks++
	return time.Since(d.start)
}
func (d *nowDevice) Port(int) (verbs.PortAttr, error) {
	return verbs.PortAttr{LinkRate: int64(100 * units.Gbps)}, nil
}
func (d *nowDevice) GID(int, int) (netip.Addr, error)            { return netip.Addr{}, nil }
func (d *nowDevice) AllocPD() (verbs.PD, error)                  { return &nowPD{dev: d}, nil }
func (d *nowDevice) CreateCQ(verbs.CQInitAttr) (verbs.CQ, error) { return &nowCQ{dev: d}, nil }
func (d *nowDevice) Close() error                                { return nil }
func (d *nowDevice) seen() (clocks, posted int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.clocks, len(d.posted)
}

type nowPD struct {
	verbs.PD
	dev *nowDevice
}

func (p *nowPD) CreateQP(verbs.QPInitAttr) (verbs.QP, error) { return &nowQP{dev: p.dev}, nil }

type nowCQ struct {
	verbs.CQ
	dev *nowDevice
}

func (c *nowCQ) Poll(wc []verbs.WC) (int, error) {
	c.dev.mu.Lock()
	defer c.dev.mu.Unlock()
	n := copy(wc, c.dev.wcs)
	c.dev.wcs = c.dev.wcs[n:]
	return n, c.dev.broken
}

type nowQP struct {
	verbs.QP
	dev *nowDevice
}

func (q *nowQP) Num() uint32                                 { return 1 }
func (q *nowQP) Type() ib.QPType                             { return ib.RC }
func (q *nowQP) Modify(verbs.QPAttr, verbs.QPAttrMask) error { return nil }
func (q *nowQP) PostSend(wrs []verbs.SendWR) (int, error) {
	q.dev.mu.Lock()
	defer q.dev.mu.Unlock()
	for i := range wrs {
		q.dev.posted = append(q.dev.posted, time.Since(q.dev.start))
		q.dev.wcs = append(q.dev.wcs, verbs.WC{WRID: wrs[i].WRID})
	}
	return len(wrs), nil
}

// newShim returns a shim over a new device, with queue pairs paced at these rates.
func newNowShim(t testing.TB, rates ...units.Rate) (*nowDevice, *paced.Shim, []verbs.QP) {
	d := &nowDevice{start: time.Now()}
	c := paced.DefaultConfig()
	made := -1 // Wrap makes one to see whether it can
	c.Engine = func(cc.Env) (cc.Engine, error) {
		made++
		return cc.Fixed{Keep: cc.Control{Rate: rates[max(made-1, 0)], Window: cc.Unlimited}}, nil
	}
	s, err := paced.Wrap(d, c)
	if err != nil {
		t.Fatal(err)
	}
	p, _ := s.AllocPD()
	q, _ := s.CreateCQ(verbs.CQInitAttr{CQE: 16})
	var qps []verbs.QP
	for range rates {
		x, err := p.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: q, RecvCQ: q, Cap: verbs.QPCap{MaxSendWR: 64, MaxSendSGE: 1}})
		if err != nil {
			t.Fatal(err)
		}
		if err := verbs.ConnectRC(x, verbs.Endpoint{}, verbs.Endpoint{}, verbs.DefaultRC()); err != nil {
			t.Fatal(err)
		}
		qps = append(qps, x)
	}
	return d, s, qps
}

// write posts a Write of n segments.
func writeNow(t testing.TB, q verbs.QP, n uint32) {
	if _, err := q.PostSend([]verbs.SendWR{{Opcode: ib.WRRDMAWrite, SGL: []verbs.SGE{{Addr: 4096, Length: n * 16 << 10}}}}); err != nil {
		t.Fatal(err)
	}
}

// eventually waits for what must happen, however slow the machine.
func waitFor(t testing.TB, what string, ok func() bool) {
	for range 20_000 {
		if ok() {
			return
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // until ok
	}
	t.Fatal(what + " never happened")
}

func needsThread(t testing.TB) {
	if runtime.GOOS != "linux" {
		t.Skip("the thread sleeps on an eventfd")
	}
}

// A program that posts and does no more: its segments leave, none before its
// time, and then the thread sleeps.
func TestProgressWithoutTheProgram(t *testing.T) {
	needsThread(t)
	for name, o := range map[string]paced.Thread{
		"defaults": {}, "no spinning": {Spin: -1}, "a long look": {Look: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			const rate, n = units.Gbps, 40 // 131 us a segment
			d, s, qps := newNowShim(t, rate)
			gap := rate.Serialize(16 * units.KiB).Duration()
			stop, err := o.Start(s)
			if err != nil {
				t.Fatal(err)
			}
			for round := 1; round <= 3; round++ {
				began := time.Since(d.start)
				writeNow(t, qps[0], n)
				waitFor(t, "the last segment", func() bool { _, k := d.seen(); return k == round*n && s.Deadline() == units.LongNever })
				for i, at := range d.posted[(round-1)*n:] {
					if due := began + time.Duration(i)*gap; at < due {
						t.Errorf("segment %d left at %v, before it was due at %v", i, at, due)
					}
				}
				idle := 0
				waitFor(t, "rest", func() bool {
					clocks, _ := d.seen()
					same := clocks == idle
					idle = clocks
					return same && s.Stats().Messages == uint64(round)
				})
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
			if err := stop(); err == nil {
				t.Error("stopped twice")
			}
		})
	}
}

// What comes due earlier than what the thread sleeps for wakes it.
func TestAnEarlierDeadlineWakes(t *testing.T) {
	needsThread(t)
	d, s, qps := newNowShim(t, 200, units.Gbps) // bit/s: the next segment is due in 11 minutes
	stop, err := paced.Thread{}.Start(s)
	if err != nil {
		t.Fatal(err)
	}
	writeNow(t, qps[0], 2)
	waitFor(t, "the first segment", func() bool { _, k := d.seen(); return k == 1 })
	writeNow(t, qps[1], 20)
	waitFor(t, "the other queue pair", func() bool { _, k := d.seen(); return k == 21 })
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// A CQ that can't be polled is told of in the end, and stops nothing.
func TestAPollThatFails(t *testing.T) {
	needsThread(t)
	d, s, qps := newNowShim(t, units.Gbps)
	stop, err := paced.Thread{}.Start(s)
	if err != nil {
		t.Fatal(err)
	}
	d.mu.Lock()
	d.broken = verbs.ErrInvalid
	d.mu.Unlock()
	writeNow(t, qps[0], 10)
	waitFor(t, "the last segment", func() bool { _, k := d.seen(); return k == 10 })
	waitFor(t, "its completion", func() bool { return s.Stats().Messages == 1 })
	if err := stop(); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("the failure is not told of: %v", err)
	}
}

func TestWhereItCannotRun(t *testing.T) {
	needsThread(t)
	_, s, _ := newNowShim(t, units.Gbps)
	for _, o := range []paced.Thread{{Spin: 2 * time.Millisecond}, {Look: 1}, {Look: 2 * time.Second}} {
		if _, err := o.Start(s); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
	dev, err := verbs.Open("sim:progress/h0")
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := dev.(*simverbs.Device); !ok {
		t.Fatalf("a %T", dev)
	}
	sim, err := paced.Wrap(dev, paced.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (paced.Thread{}).Start(sim); !errors.Is(err, verbs.ErrNotSupported) {
		t.Errorf("on a simulated device: %v", err)
	}
}

// BenchmarkLateness states how much later than its time a segment leaves, with
// one every 131 us.
func BenchmarkLateness(b *testing.B) {
	for name, spin := range map[string]time.Duration{"spin=0": -1, "spin=30us": 0, "spin=100us": 100 * time.Microsecond} {
		b.Run(name, func(b *testing.B) {
			d, s, qps := newNowShim(b, units.Gbps)
			stop, err := paced.Thread{Spin: spin}.Start(s)
			if err != nil {
				b.Fatal(err)
			}
			defer stop()
			gap := units.Gbps.Serialize(16 * units.KiB).Duration()
			var late []time.Duration
			for b.Loop() {
				_, before := d.seen()
				writeNow(b, qps[0], 64)
				waitFor(b, "the last segment", func() bool { _, k := d.seen(); return k == before+64 })
				d.mu.Lock()
				for i := before + 1; i < len(d.posted); i++ {
					late = append(late, d.posted[i]-d.posted[i-1]-gap)
				}
				d.mu.Unlock()
			}
			slices.Sort(late)
			b.ReportMetric(float64(quantile.Of(late, 0.5).Nanoseconds())/1e3, "p50-us")
			b.ReportMetric(float64(quantile.Of(late, 0.99).Nanoseconds())/1e3, "p99-us")
			b.ReportMetric(0, "ns/op")
		})
	}
}
