package nicmodel

import (
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/config"
	"github.com/sluice-rdma/sluice/nicmodel/internal/memory"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// scheduled posts Writes of 64 bytes, each with a time, all at once, and returns how much later than its time the
// first bit of each left.
func scheduled(t *testing.T, cfg config.Config, beside bool) (late []units.Time) {
	t.Helper()
	b := newBed(t, 3, 100*units.Gbps, cfg, nil)
	x, y := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
	rr, lr := y.region(t, make([]byte, 64)), x.region(t, make([]byte, 64))
	if beside { // another tenant keeps the wire busy
		b.drive(pairLoad{from: 0, to: 2, op: ib.WRRDMAWrite, size: 1 << 20, window: 16, batch: 1, spread: 1}, 0)
	}
	const begin, period, n = 20 * units.Microsecond, 1_337_011, 60 // ps, no multiple of a tick
	b.nics[0].mac.capture = func(now units.Time, h fabric.Handle) {
		if f := b.nics[0].chip.Frames.At(h); f.SrcQPN == x.qpn {
			late = append(late, now-(begin+units.Time(len(late))*period))
		}
	}
	wrs := make([]WR, n)
	for i := range wrs {
		if err := x.nic.WaitUntil(x.qpn, begin+units.Time(i)*period); err != nil {
			t.Fatal(err)
		}
		if err := x.nic.PostSend(x.qpn, &WR{Request: rc.Request{Op: ib.WRRDMAWrite, Signaled: true, Length: 64, RemoteAddr: rr.Addr, RKey: rr.Key}, SGL: []memory.SGE{{Addr: lr.Addr, Length: 64, Key: lr.Key}}}); err != nil {
			t.Fatal(err)
		}
	}
	x.nic.Ring(0, x.qpn, n)
	b.e.RunUntil(units.Millisecond)
	if len(late) != n || len(b.poll(x)) != n {
		t.Fatalf("%d of %d left", len(late), n)
	}
	return late
}

// What leaves at a time leaves later by the way through the NIC, and by up to a tick and the jitter: the spread.
func TestSendTimes(t *testing.T) {
	for _, c := range []struct {
		preset string
		jitter units.Time
		beside bool
		// Bounds of the spread, from the earliest to the latest, in nanoseconds.
		least, most units.Time
	}{
		{"cx7", 0, false, 0, 8 + 8},
		{"cx6dx", 0, false, 450, 500 + 8},
		{"cx6dx", 300 * units.Nanosecond, false, 600, 800 + 8},
		{"cx6dx", 0, true, 450, 500 + 2000}, // and by what has been chosen before
	} {
		cfg := preset(t, c.preset)
		cfg.SendTime.Jitter = c.jitter
		late := scheduled(t, cfg, c.beside)
		// Scheduler, payload over PCIe, packetiser and pipeline.
		way := cfg.PCIe.ReadLatency + cfg.PipelineLatency
		earliest, latest := late[0], late[0]
		for _, l := range late {
			earliest, latest = min(earliest, l), max(latest, l)
		}
		if earliest < way || earliest > way+100*units.Nanosecond+cfg.SendTime.Tick/4 && !c.beside {
			t.Errorf("%s: the earliest leaves %v after its time, the way takes %v", c.preset, earliest, way)
		}
		if spread := latest - earliest; spread < c.least*units.Nanosecond || spread > c.most*units.Nanosecond {
			t.Errorf("%s, jitter %v, beside another %v: a spread of %v, expected %d to %d ns", c.preset, c.jitter, c.beside, spread, c.least, c.most)
		}
		t.Logf("%s, jitter %v, beside another %v: %v to %v after their time", c.preset, c.jitter, c.beside, earliest, latest)
	}
}

// A request without a time waits behind one that has a time, and one whose time has passed does not wait.
func TestSendTimesKeepTheOrder(t *testing.T) {
	b := newBed(t, 2, 100*units.Gbps, preset(t, "cx6dx"), nil)
	x, y := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
	rr, lr := y.region(t, make([]byte, 64)), x.region(t, make([]byte, 64))
	b.e.RunUntil(100 * units.Microsecond)
	write := func(id uint64) {
		b.post(x, WR{Request: rc.Request{ID: id, Op: ib.WRRDMAWrite, Signaled: true, Length: 64, RemoteAddr: rr.Addr, RKey: rr.Key}, SGL: []memory.SGE{{Addr: lr.Addr, Length: 64, Key: lr.Key}}})
	}
	wait := func(at units.Time) {
		if err := x.nic.WaitUntil(x.qpn, at); err != nil {
			t.Fatal(err)
		}
	}
	wait(50 * units.Microsecond)
	write(1)
	wait(200 * units.Microsecond)
	write(2)
	write(3)
	b.e.RunUntil(199 * units.Microsecond)
	if cs := b.poll(x); len(cs) != 1 || cs[0].WRID != 1 {
		t.Errorf("before the time: %+v", cs)
	}
	b.e.RunUntil(210 * units.Microsecond)
	if cs := b.poll(x); len(cs) != 2 || cs[0].WRID != 2 || cs[1].WRID != 3 {
		t.Errorf("behind the time: %+v", cs)
	}
	// What waits is flushed when the queue pair fails, and forgotten when it is reset.
	wait(units.Second)
	write(4)
	b.e.RunUntil(220 * units.Microsecond)
	x.nic.Fail(b.e.Now(), x.qpn)
	b.e.RunUntil(230 * units.Microsecond)
	if cs := b.poll(x); len(cs) != 1 || cs[0].WRID != 4 || cs[0].Status != ib.WCWRFlushErr {
		t.Errorf("of a queue pair that has failed: %+v", cs)
	}
	x.nic.Reset(x.qpn)
	for _, u := range x.nic.Queues(b.e.Now()) {
		if u.Now != 0 {
			t.Errorf("%s still holds %d", u.Queue, u.Now)
		}
	}
}

func TestNoSendTimes(t *testing.T) {
	b := newBed(t, 2, 100*units.Gbps, preset(t, "cx5"), nil)
	x, _ := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
	if err := x.nic.WaitUntil(x.qpn, units.Microsecond); err == nil {
		t.Error("a cx5 waits for a time")
	}
}
