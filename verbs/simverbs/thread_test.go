package simverbs_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/simverbs"
)

// driven is two hosts that a test drives from events; the first is on a core.
func driven(t *testing.T, c des.CoreConfig) (e *des.Engine, core *des.Core, d *simverbs.Device, a, b *host) {
	t.Helper()
	e = des.New()
	core, err := des.NewCore(c, des.NewStream(1, "test"))
	if err != nil {
		t.Fatal(err)
	}
	net, err := fabric.New(e, fabric.Star(2, fabric.Link{Rate: 10 * units.Gbps}), fabric.Default(), 1)
	if err != nil {
		t.Fatal(err)
	}
	w, frames := simverbs.NewWorld(e, net), nicmodel.NewFrames(net)
	var ends [2]*host
	for i := range ends {
		preset, err := nicmodel.Preset("cx6dx")
		if err != nil {
			t.Fatal(err)
		}
		nic, err := nicmodel.New(e, net, frames, i, 10*units.Gbps, preset)
		if err != nil {
			t.Fatal(err)
		}
		dev := w.AddDevice(fmt.Sprint("h", i), nic, nil)
		if i == 0 {
			dev.RunOn(core)
			dev.StampSends()
			d = dev
		}
		ends[i] = newHost(t, dev)
	}
	a, b = ends[0], ends[1]
	for _, x := range [][2]*host{{a, b}, {b, a}} {
		if err := verbs.ConnectRC(x[0].qp, x[0].me, x[1].me, verbs.DefaultRC()); err != nil {
			t.Fatal(err)
		}
	}
	return e, core, d, a, b
}

// What is posted gets to the NIC when the thread is done posting it: the host's clock
// says when.
func TestPostingTakesTime(t *testing.T) {
	const post = 7 * units.Microsecond
	e, _, d, a, _ := driven(t, des.CoreConfig{Post: post})
	wr := []verbs.SendWR{{Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled}}
	for i := range units.Time(3) {
		wr[0].WRID = uint64(i)
		if _, err := a.qp.PostSend(wr); err != nil {
			t.Fatal(err)
		}
		if now := d.NowPrecise(); now != (i+1)*post {
			t.Errorf("after post %d it is %v, want %v", i, now, (i+1)*post)
		}
	}
	e.RunUntil(units.Millisecond)
	var wc [4]verbs.WC
	if n, err := a.cq.Poll(wc[:]); n != 3 || err != nil {
		t.Fatalf("%d completions, %v", n, err)
	}
	q := a.qp.(verbs.SentTimestampQP)
	for i := range units.Time(3) {
		first, last, ok := q.SentTimestamps(&wc[i])
		left := units.Time(first) * units.Nanosecond
		if earliest := (i + 1) * post; !ok || first != last || left < earliest || left > earliest+2*units.Microsecond {
			t.Errorf("request %d left at %v and %d ticks later, %v; it was posted at %v", i, left, last-first, ok, earliest)
		}
	}
}

// A doorbell that a reset overtakes is not heard.
func TestDoorbellOfBeforeAReset(t *testing.T) {
	e, _, _, a, b := driven(t, des.CoreConfig{Post: units.Microsecond})
	wr := []verbs.SendWR{{WRID: 1, Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled}}
	if _, err := a.qp.PostSend(wr); err != nil {
		t.Fatal(err)
	}
	for _, x := range [][2]*host{{a, b}, {b, a}} {
		if err := x[0].qp.Modify(verbs.QPAttr{State: ib.Reset}, verbs.AttrState); err != nil {
			t.Fatal(err)
		}
		if err := verbs.ConnectRC(x[0].qp, x[0].me, x[1].me, verbs.DefaultRC()); err != nil {
			t.Fatal(err)
		}
	}
	wr[0].WRID = 2
	if _, err := a.qp.PostSend(wr); err != nil {
		t.Fatal(err)
	}
	e.RunUntil(units.Millisecond)
	var wc [4]verbs.WC
	if n, err := a.cq.Poll(wc[:]); n != 1 || wc[0].WRID != 2 || err != nil {
		t.Errorf("%d completions, %+v, %v", n, wc[0], err)
	}
}

// Other work gets between a reading of the NIC's clock and the host's clock behind it,
// never into the reading, and as often as it comes while that takes.
func TestReadingsAreInterrupted(t *testing.T) {
	const load, burst, n = 0.5, 10 * units.Microsecond, 20_000
	e, core, d, _, _ := driven(t, des.CoreConfig{Load: load, Burst: burst})
	plain, wide := units.Never, 0
	for i := range units.Time(n) {
		e.RunUntil(core.Free((i + 1) * 200 * units.Microsecond))
		before := d.NowPrecise()
		ticks, err := d.ReadClock()
		if err != nil {
			t.Fatal(err)
		}
		took := d.NowPrecise() - before
		plain = min(plain, took)
		// The counter of this preset shows nanoseconds, 7 ppm fast.
		read := units.Time(float64(ticks) / (1 + 7e-6) * float64(units.Nanosecond))
		if after := read - before; after < 0 || after > units.Microsecond {
			t.Fatalf("the counter was read %v after the host's clock", after)
		}
		if took > plain {
			wide++
		}
	}
	want := 1 - math.Exp(-float64(plain)*load/float64(burst))
	if share := float64(wide) / n; share < 0.85*want || share > 1.15*want {
		t.Errorf("a share of %.4f was interrupted, want some %.4f", share, want)
	}
}
