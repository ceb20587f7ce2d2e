package nicmodel

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/nicmodel/internal/config"
	"github.com/sluice-rdma/sluice/units"
)

// departed records when packets of a queue pair were chosen, and their lengths.
type departed struct {
	at    []units.Time
	bytes []units.Bytes
}

// departs notes what one end sends, for messages of a packet each.
func (b *bed) departs(x end, size units.Bytes) *departed {
	d := &departed{}
	x.nic.OnSpan(func(s *chip.Span) {
		if s.Place == chip.AtScheduler && s.QPN == x.qpn {
			d.at = append(d.at, b.e.Now())
			d.bytes = append(d.bytes, size)
		}
	})
	return d
}

// Packets leave at ticks in bursts of what the limit allows, no faster than the rate
// says and, where there is enough to send, no slower.
func TestPacedDepartures(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := preset(t, "cx6dx")
		tick := units.Time(rapid.SampledFrom([]int{0, 1, 8, 77, 500, 3000}).Draw(rt, "tick")) * units.Nanosecond
		cfg.Limiter.Tick = tick
		b := newBed(t, 2, 100*units.Gbps, cfg, nil)
		x, y := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
		size := units.Bytes(rapid.IntRange(64, 1024).Draw(rt, "size"))
		l := config.RateLimit{
			Rate:     units.Rate(rapid.IntRange(200_000, 20_000_000).Draw(rt, "kbps")) * units.Kbps,
			MaxBurst: units.Bytes(rapid.SampledFrom([]int{0, 1, 1500, 4096, 9000}).Draw(rt, "burst")),
		}
		if err := x.nic.ModifyRateLimit(0, x.qpn, l); err != nil {
			rt.Fatal(err)
		}
		d := b.departs(x, size)
		b.stream(x, y, uint32(size), 60)
		b.e.RunUntil(units.Time(rapid.IntRange(100, 300).Draw(rt, "span")) * units.Microsecond)

		const settled = 20 * units.Microsecond
		gap := l.Rate.Serialize(size)
		perBurst := max(int(l.MaxBurst/size), 1)
		// The window of 60 messages a round trip of 10 us at most.
		full := min(float64(size)*60/10e-6, 80e9/8) > float64(l.Rate)/8
		// A leaky bucket, of two bursts: one may leave as its time ends.
		var level units.Time
		for i, at := range d.at {
			if i > 0 {
				level = max(level-(at-d.at[i-1]), 0)
			}
			if level += gap; level > units.Time(2*perBurst)*gap+tick+catchUp+units.Time(i) {
				rt.Fatalf("packet %d leaves at %v, %v ahead: rate %v, bursts of %d packets", i, at, level, l.Rate, perBurst)
			}
			if late := at % max(tick, 1); perBurst == 1 && full && at > settled && gap > tick && late > 2*cfg.CoreClock.Begin(cfg.SchedulerCycles) {
				rt.Fatalf("a packet leaves at %v, no tick of %v", at, tick)
			}
		}
		// Once elements are there before they are due.
		first := 0
		for first < len(d.at) && d.at[first] < settled {
			first++
		}
		span := b.e.Now() - settled - units.Time(perBurst)*gap - tick
		if want := int(span / gap); full && len(d.at)-first < want-1 {
			rt.Fatalf("%d packets from %v to %v, want at least %d: rate %v, bursts of %d packets", len(d.at)-first, settled, b.e.Now(), want, l.Rate, perBurst)
		}
	})
}

// Intervals between packets of one message each are whole ticks, and on average what
// the rate says.
func TestTicksMakeJitter(t *testing.T) {
	cfg := preset(t, "cx6dx")
	cfg.Limiter.Tick = 300 * units.Nanosecond
	b := newBed(t, 2, 100*units.Gbps, cfg, nil)
	x, y := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
	if err := x.nic.ModifyRateLimit(0, x.qpn, config.RateLimit{Rate: 8 * units.Gbps}); err != nil {
		t.Fatal(err)
	}
	d := b.departs(x, 1000)
	b.stream(x, y, 1000, 32)
	b.e.RunUntil(units.Millisecond)
	seen := map[units.Time]int{}
	for i := 1; i < len(d.at); i++ {
		seen[d.at[i]-d.at[i-1]]++
	}
	// 1 us at 300 ns: 900 ns twice as often as 1200 ns.
	few, many := seen[1200*units.Nanosecond], seen[900*units.Nanosecond]
	if len(seen) != 2 || many < 2*few-2 || many > 2*few+2 {
		t.Errorf("intervals %v", seen)
	}
}

// A limit that is idle saves up nothing.
func TestIdleLimit(t *testing.T) {
	b := newBed(t, 2, 100*units.Gbps, preset(t, "cx6dx"), nil)
	x, y := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
	if err := x.nic.ModifyRateLimit(0, x.qpn, config.RateLimit{Rate: 8 * units.Gbps}); err != nil {
		t.Fatal(err)
	}
	r := y.region(t, make([]byte, 256))
	d := b.departs(x, 100)
	for _, at := range []units.Time{0, units.Millisecond} {
		b.e.RunUntil(at)
		var wrs []WR
		for i := range uint64(5) {
			wrs = append(wrs, inlineWrite(i, r, 100))
		}
		b.post(x, wrs...)
		b.e.RunUntil(at + 500*units.Microsecond)
		b.poll(x)
	}
	if len(d.at) != 10 {
		t.Fatalf("%d packets", len(d.at))
	}
	for i := range d.at[1:] {
		if gap := d.at[i+1] - d.at[i]; gap < 100*units.Nanosecond-8*units.Nanosecond {
			t.Errorf("packet %d leaves %v after the one before", i+1, gap)
		}
	}
}

// A rate that rises is in force at once, however long the gap was.
func TestRateRises(t *testing.T) {
	b := newBed(t, 2, 100*units.Gbps, preset(t, "cx6dx"), nil)
	x, y := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
	if err := x.nic.ModifyRateLimit(0, x.qpn, config.RateLimit{Rate: 1 * units.Kbps}); err != nil {
		t.Fatal(err)
	}
	r := y.region(t, make([]byte, 256))
	b.post(x, inlineWrite(1, r, 100), inlineWrite(2, r, 100))
	b.e.RunUntil(units.Millisecond)
	if n := len(b.poll(x)); n != 1 {
		t.Fatalf("%d messages of 100 bytes in 1 ms at 1 kb/s", n)
	}
	if err := x.nic.ModifyRateLimit(b.e.Now(), x.qpn, config.RateLimit{Rate: 1 * units.Gbps}); err != nil {
		t.Fatal(err)
	}
	b.e.RunUntil(2 * units.Millisecond)
	if n := len(b.poll(x)); n != 1 {
		t.Errorf("%d messages after the rise", n)
	}
	// Off, and a limit that is away with the queue pair while a packet waits.
	if err := x.nic.ModifyRateLimit(b.e.Now(), x.qpn, config.RateLimit{Rate: 1 * units.Kbps}); err != nil {
		t.Fatal(err)
	}
	b.post(x, inlineWrite(3, r, 100), inlineWrite(4, r, 100))
	b.e.RunUntil(3 * units.Millisecond)
	b.poll(x)
	x.nic.DestroyQP(x.qpn)
	b.e.RunUntil(20 * units.Second)
}

// The table holds a fixed number of different limits.
func TestRateTable(t *testing.T) {
	cfg := preset(t, "cx6dx")
	cfg.Limiter.Rates = 2
	b := newBed(t, 2, 100*units.Gbps, cfg, nil)
	nic := b.nics[0]
	var qps []uint32
	for range 4 {
		x, _ := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
		qps = append(qps, x.qpn)
	}
	set := func(i int, l config.RateLimit, ok bool) {
		t.Helper()
		err := nic.ModifyRateLimit(0, qps[i], l)
		if ok != (err == nil) || err != nil && !strings.Contains(err.Error(), "holds 2 different limits") {
			t.Errorf("queue pair %d, %+v: %v", i, l, err)
		}
	}
	one, two, three := config.RateLimit{Rate: units.Gbps}, config.RateLimit{Rate: 2 * units.Gbps}, config.RateLimit{Rate: 3 * units.Gbps}
	set(0, one, true)
	set(1, two, true)
	set(2, three, false)
	set(2, one, true)                                                      // shared
	set(3, config.RateLimit{Rate: units.Gbps + 400}, true)                 // the same in steps of 1 kb/s
	set(3, config.RateLimit{Rate: units.Gbps + 600}, false)                // not
	set(3, config.RateLimit{Rate: units.Gbps, MaxBurst: 4096}, false)      // another limit
	set(3, config.RateLimit{Rate: units.Gbps, TypicalPacket: 1024}, false) // another limit
	set(1, three, true)                                                    // in its own place
	set(3, three, true)
	set(3, config.RateLimit{}, true)
	nic.DestroyQP(qps[1])
	qps[1] = qps[0]
	set(3, two, true) // in the place that is free
	nic.Reset(qps[0])
	nic.Reset(qps[2])
	set(2, three, true)
	for i, u := range nic.scheduler.rates.users {
		if u < 0 || i >= 2 {
			t.Errorf("entry %d has %d users", i, u)
		}
	}
}

func TestRateLimitErrors(t *testing.T) {
	b := newBed(t, 2, 100*units.Gbps, preset(t, "cx6dx"), nil)
	x, _ := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
	for want, l := range map[string]config.RateLimit{
		"from 1Kbps to 100Gbps": {Rate: 101 * units.Gbps}, "goes from": {Rate: 100}, "limit of -1": {Rate: -1000},
		"with bursts of": {Rate: units.Gbps, MaxBurst: 1 << 40}, "with bursts": {Rate: units.Gbps, TypicalPacket: -1},
	} {
		if err := x.nic.ModifyRateLimit(0, x.qpn, l); err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(want)) {
			t.Errorf("%+v: %v, want %q", l, err, want)
		}
	}
	y, _ := b.connect(0, 1, [2]Congestion{{Engine: &pacer{control: cc.Control{Rate: units.Gbps, Window: 1 << 20}}, BaseRTT: units.Microsecond}}, plainSend, 1024)
	if err := y.nic.ModifyRateLimit(0, y.qpn, config.RateLimit{Rate: units.Gbps}); err == nil || !strings.Contains(err.Error(), "engine") {
		t.Errorf("with an engine: %v", err)
	}
}

func TestLimitsDoNotAllocate(t *testing.T) {
	b := newBed(t, 2, 100*units.Gbps, preset(t, "cx6dx"), nil)
	x, y := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
	if err := x.nic.ModifyRateLimit(0, x.qpn, config.RateLimit{Rate: 40 * units.Gbps, MaxBurst: 3000}); err != nil {
		t.Fatal(err)
	}
	b.stream(x, y, 1<<16, 8)
	b.e.RunUntil(units.Millisecond)
	b.allocatesNothing()
}

// A burst that is under way ends where a smaller one would have.
func TestBurstGetsSmaller(t *testing.T) {
	b := newBed(t, 2, 100*units.Gbps, preset(t, "cx6dx"), nil)
	x, y := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
	if err := x.nic.ModifyRateLimit(0, x.qpn, config.RateLimit{Rate: units.Gbps, MaxBurst: 1 << 20}); err != nil {
		t.Fatal(err)
	}
	d := b.departs(x, 1000)
	b.stream(x, y, 1000, 32)
	b.e.RunUntil(3 * units.Microsecond)
	before := len(d.at)
	if before == 0 || before > 100 {
		t.Fatalf("%d packets of the first burst", before)
	}
	if err := x.nic.ModifyRateLimit(b.e.Now(), x.qpn, config.RateLimit{Rate: units.Gbps}); err != nil {
		t.Fatal(err)
	}
	b.e.RunUntil(units.Time(before)*8*units.Microsecond + 80*units.Microsecond)
	if got := len(d.at); got > before+12 {
		t.Errorf("%d packets by %v, %d of them in the large burst; a packet takes 8 us", got, b.e.Now(), before)
	}
}

// The wait of a packet for its tick of the table is seen while it lasts.
func TestPacedWaitIsSeen(t *testing.T) {
	b := newBed(t, 2, 100*units.Gbps, preset(t, "cx6dx"), nil)
	x, y := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
	if err := x.nic.ModifyRateLimit(0, x.qpn, config.RateLimit{Rate: units.Mbps}); err != nil {
		t.Fatal(err)
	}
	b.stream(x, y, 1000, 32) // 8 ms a packet
	b.e.RunUntil(5 * units.Millisecond)
	for _, w := range x.nic.Waits(b.e.Now()) {
		if w.For == "the pace" && w.Total < 4*units.Millisecond {
			t.Errorf("a queue pair has waited %v for its pace by %v", w.Total, b.e.Now())
		}
	}
}
