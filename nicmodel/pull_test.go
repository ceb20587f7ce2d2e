package nicmodel

import (
	"bytes"
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/memory"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// Writes and READs of one queue pair have an engine each: what acknowledgements
// bring goes to the first, what responses bring to the second, and each counts its
// own bytes.
func TestReadsHaveAnEngineOfTheirOwn(t *testing.T) {
	b := newBed(t, 2, 100*units.Gbps, preset(t, "cx6dx"), nil)
	free := cc.Control{Rate: 100 * units.Gbps, Window: cc.Unlimited}
	out, in := &pacer{control: free}, &pacer{control: cc.Control{Rate: free.Rate, Window: readPart}} // a part at a time
	x, y := b.connect(0, 1, [2]Congestion{
		{Engine: out, ReadEngine: in, Telemetry: telemetry.MaxDelay, BaseRTT: 10 * units.Microsecond},
		{Telemetry: telemetry.MaxDelay},
	}, plainSend, 1024)
	local, remote := pattern(100_000, 1), pattern(100_000, 2)
	lr, rr := x.region(t, local), y.region(t, remote)
	const write, read = 10_000, 50_000
	b.post(x,
		WR{Request: rc.Request{Op: ib.WRRDMAWrite, Signaled: true, Length: write, RemoteAddr: rr.Addr + read, RKey: rr.Key}, SGL: []memory.SGE{{Addr: lr.Addr, Length: write, Key: lr.Key}}},
		WR{Request: rc.Request{Op: ib.WRRDMARead, Signaled: true, Length: read, RemoteAddr: rr.Addr, RKey: rr.Key}, SGL: []memory.SGE{{Addr: lr.Addr + write, Length: read, Key: lr.Key}}},
	)
	b.e.RunUntil(units.Millisecond)
	if cs := b.poll(x); len(cs) != 2 || cs[0].Status != ib.WCSuccess || cs[1].Status != ib.WCSuccess {
		t.Fatalf("completions: %+v", cs)
	}
	if !bytes.Equal(local[write:write+read], remote[:read]) {
		t.Error("the READ did not bring the bytes")
	}
	if out.acks == 0 || out.last.Acked != write || out.last.Sent != write {
		t.Errorf("the engine of Writes was told %d times, the last %+v", out.acks, out.last)
	}
	if want := (read + 1023) / 1024; in.acks != want || in.last.Acked != read || in.last.Sent != read {
		t.Errorf("the engine of READs was told %d times of %d responses, the last %+v", in.acks, want, in.last)
	}
	// One switch, nothing waits: about two links of 500 ns each way, 600 ns in the
	// switch, and what the two NICs add, however far back in the READ it was.
	if in.last.RTT < 3*units.Microsecond || in.last.RTT > 6*units.Microsecond || !in.last.HasMaxDelay {
		t.Errorf("the last response says %+v", in.last)
	}
}

// READs are cut, and no more is asked for than the window of their engine lets;
// below one request the pace holds the mean to what the window comes to.
func TestReadsKeepToTheirWindow(t *testing.T) {
	for _, window := range []units.Bytes{200 * units.KiB, 64 * units.KiB, 4 * units.KiB} {
		b := newBed(t, 2, 100*units.Gbps, preset(t, "cx6dx"), func(c *fabric.Config) {
			c.Faults = []fabric.Fault{{Link: "h1->tor0", Loss: 0.0005}}
		})
		in := &pacer{control: cc.Control{Rate: 100 * units.Gbps, Window: window}}
		x, y := b.connect(0, 1, [2]Congestion{{ReadEngine: in, BaseRTT: 10 * units.Microsecond}, {}}, rc.SendConfig{Timeout: 4, RetryCount: 7, RNRRetry: 7, MaxRdAtomic: 16}, 4096)
		local, remote := make([]byte, 4<<20), pattern(4<<20, 5)
		lr, rr := x.region(t, local), y.region(t, remote)
		for i := range uint64(4) {
			b.post(x, WR{Request: rc.Request{Op: ib.WRRDMARead, Signaled: true, Length: 1 << 20, RemoteAddr: rr.Addr + i<<20, RKey: rr.Key}, SGL: []memory.SGE{{Addr: lr.Addr + i<<20, Length: 1 << 20, Key: lr.Key}}})
		}
		most, rtt, n := units.Bytes(0), units.Time(0), 0
		x.nic.OnAck(func(_ uint32, a *cc.Ack) {
			most = max(most, a.Sent-a.Acked+a.Bytes)
			rtt += a.RTT
			n++
		})
		b.e.RunUntil(100 * units.Millisecond)
		cs := b.poll(x)
		if len(cs) != 4 || !bytes.Equal(local, remote) {
			t.Fatalf("window %v: %d of 4 completions, or the bytes differ", window, len(cs))
		}
		if in.losses == 0 {
			t.Errorf("window %v: the engine was told of no loss", window)
		}
		if limit := max(window, readPart); most > limit {
			t.Errorf("window %v: %v were asked for at a time", window, most)
		}
		mean := units.RateOf(4*units.MiB, cs[3].Visible)
		if rate := units.RateOf(window, rtt/units.Time(n)); window < readPart && mean > rate+rate/10 {
			t.Errorf("window %v: the mean rate is %v, the window over the RTT %v", window, mean, rate)
		}
	}
}

// READs that are sent again are known by their new times, all of them, and what was
// sent before them and is still to be answered by its own.
func TestReadsSentAgain(t *testing.T) {
	p := NewReadTimes(4)
	read := func(at units.Time, psn uint32, again bool) {
		p.Requested(at, &rc.Descriptor{Header: rc.Header{PSN: units.MakePSN(psn)}, Retransmit: again, Expect: readPart})
	}
	for i := range uint32(4) {
		read(units.Time(1+i), 0xfffff8+4*i, false) // the numbers wrap
	}
	// The transport goes back to the middle of the second.
	read(11, 0xfffffe, true)
	read(12, 0, true)
	read(13, 4, true)
	for _, c := range []struct {
		psn    uint32
		at     units.Time
		before int32
	}{{0xfffff9, 1, 1}, {0xfffffd, 2, 1}, {0xfffffe, 11, 0}, {0xffffff, 11, 1}, {0, 12, 0}, {3, 12, 3}, {4, 13, 0}, {7, 13, 3}} {
		const second = 1e12
		want := c.at + units.Time(c.before)*second/125 // each before it takes 8 ms
		if at, ok := p.Answered(second, units.MakePSN(c.psn), 1000, 1); !ok || at != want {
			t.Errorf("response %#x: since %d, %v; want %d", c.psn, at, ok, want)
		}
	}
}
