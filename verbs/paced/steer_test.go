package paced_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
	"github.com/sluice-rdma/sluice/verbs/paced/internal/fakenic"
)

// keepBusy drives the bench until t with the queue pair never out of requests.
func (p *bench) keepBusy(q *paced.QP, until units.Time, wr verbs.SendWR) {
	p.t.Helper()
	for p.w.Now() < until {
		for {
			if _, err := q.PostSend([]verbs.SendWR{wr}); err != nil {
				if !errors.Is(err, verbs.ErrQueueFull) {
					p.t.Fatal(err)
				}
				break
			}
		}
		p.run(min(until, p.w.Now()+100*us))
		p.poll(p.cq)
	}
}

func TestLongRunRatesAreExact(t *testing.T) {
	send := func(p *bench) verbs.SendWR {
		wr := p.write(1, 5000)
		wr.Opcode = ib.WRSend
		return wr
	}
	for name, c := range map[string]struct {
		rate units.Rate
		wr   func(*bench) verbs.SendWR
	}{
		"writes":            {1234567891, func(p *bench) verbs.SendWR { return p.write(1, 100_000) }},
		"reads":             {3 * units.Gbps, func(p *bench) verbs.SendWR { return p.read(1, 100_001) }},
		"whole segments":    {9_900_000_000, func(p *bench) verbs.SendWR { return p.write(1, 32*1024) }},
		"small writes":      {777_777_777, func(p *bench) verbs.SendWR { return p.write(1, 999) }},
		"sends, not cut":    {2 * units.Gbps, send},
		"slow, 200 gaps":    {131_072_000, func(p *bench) verbs.SendWR { return p.write(1, 16*1024) }},
		"with many batches": {5 * units.Gbps, func(p *bench) verbs.SendWR { return p.write(1, 4096) }},
	} {
		t.Run(name, func(t *testing.T) {
			e := &fixed{control: cc.Control{Rate: c.rate, Window: cc.Unlimited}, quiet: true}
			cfg := steered(e)
			cfg.MaxOutstanding = units.MiB
			p := newBench(t, cfg, nil)
			q, peer := p.connect(defaultCap())
			wr := c.wr(p)
			if wr.Opcode == ib.WRSend {
				recvs := make([]verbs.RecvWR, 20000)
				for i := range recvs {
					recvs[i].SGL = []verbs.SGE{verbs.SGEOf(p.mrB, 0, 5000)}
				}
				p.recv(peer, recvs...)
			}
			p.keepBusy(q, 200*units.Millisecond/10, wr)
			if len(p.posts) < 20 {
				t.Fatalf("only %d segments", len(p.posts))
			}
			sent := 0
			for _, s := range p.posts[:len(p.posts)-1] {
				sent += s.len
			}
			span := p.posts[len(p.posts)-1].at - p.posts[0].at
			got := float64(sent) * 8 / span.Seconds()
			if off := got/float64(c.rate) - 1; math.Abs(off) > 1e-6 {
				t.Errorf("sent at %v, the rate is %v: off by %.2g", units.Rate(got), c.rate, off)
			}
		})
	}
}

// A host that looks at odd times, up to 10 us apart, keeps the rate: also where
// several gaps lie in between.
func TestLatePollingCostsNoRate(t *testing.T) {
	const rate = 5 * units.Gbps
	for name, c := range map[string]struct {
		size  int
		flows int
	}{"long": {100_000, 1}, "small": {1000, 1}, "several small": {1000, 5}} {
		t.Run(name, func(t *testing.T) {
			p := newBench(t, steered(&fixed{control: cc.Control{Rate: rate / units.Rate(c.flows), Window: cc.Unlimited}, quiet: true}), nil)
			var qps []*paced.QP
			for range c.flows {
				q, _ := p.connect(defaultCap())
				qps = append(qps, q)
			}
			for k := 0; p.w.Now() < 20*units.Millisecond; k++ {
				for _, q := range qps {
					for {
						if _, err := q.PostSend([]verbs.SendWR{p.write(1, c.size)}); err != nil {
							break
						}
					}
				}
				p.w.RunUntil(p.w.Now() + units.Time(1+k*7919%10)*us)
				if err := p.shim.Progress(p.w.Now().Long()); err != nil {
					t.Fatal(err)
				}
				p.poll(p.cq)
			}
			sent := 0
			for _, s := range p.posts {
				sent += s.len
			}
			span := p.posts[len(p.posts)-1].at - p.posts[0].at
			if got := float64(sent) * 8 / span.Seconds() / float64(rate); got < 1 || got > 1.01 {
				t.Errorf("sent at %v of the rate", got)
			}
		})
	}
}

// After a stall a flow makes up for CatchUp's worth, and for no more.
func TestAStallMakesNoBurst(t *testing.T) {
	const rate = 5 * units.Gbps
	for catchUp, most := range map[units.Time]int{ // at 1.6 us a gap, and one
		0: 1, 20 * us: 14, 64 * us: 42,
	} {
		cfg := steered(&fixed{control: cc.Control{Rate: rate, Window: cc.Unlimited}, quiet: true})
		cfg.CatchUp = catchUp
		p := newBench(t, cfg, nil)
		q, _ := p.connect(defaultCap())
		for range 60 {
			p.post(q, p.write(1, 1000))
		}
		p.run(20 * us)
		before := len(p.posts)
		p.w.RunUntil(3 * units.Millisecond)
		if err := p.shim.Progress(p.w.Now().Long()); err != nil {
			t.Fatal(err)
		}
		if burst := len(p.posts) - before; burst > most || burst < most-3 {
			t.Errorf("CatchUp %v: %d requests left at once after a stall, want %d", catchUp, burst, most)
		}
	}
}

// A segment that leaves more than CatchUp late counts as sent CatchUp before it did,
// however late, also where gaps are longer than that.
func TestALateSegmentMovesTheSchedule(t *testing.T) {
	const gap, catchUp = 100 * us, 10 * us
	for _, late := range []units.Time{0, 1 * us, catchUp, catchUp + 1, 15 * us, 2 * catchUp, 50 * us, 1000 * us} {
		cfg := uncalibrated()
		cfg.Engine = func(cc.Env) (cc.Engine, error) {
			return &fixed{control: cc.Control{Rate: units.Gbps, Window: cc.Unlimited}, quiet: true}, nil
		}
		cfg.CatchUp = catchUp
		p := newBench(t, cfg, nil)
		q, _ := p.connect(defaultCap())
		for range 3 {
			p.post(q, p.write(1, 12_500))
		}
		due := p.shim.Deadline().Time()
		if len(p.posts) != 1 || due-p.posts[0].at != gap {
			t.Fatalf("%d segments, the next is due at %v", len(p.posts), due)
		}
		p.w.RunUntil(due + late)
		if err := p.shim.Progress(p.w.Now().Long()); err != nil {
			t.Fatal(err)
		}
		want := due + max(0, late-catchUp) + gap
		if got := p.shim.Deadline().Time(); len(p.posts) != 2 || got != want {
			t.Errorf("%v late: the segment after is due at %v, want %v", late, got, want)
		}
	}
}

func TestAtTheLineRateNothingIsHeldBack(t *testing.T) {
	p := newBench(t, uncalibrated(), nil)
	q, _ := p.connect(defaultCap())
	p.post(q, p.write(1, 64<<10))
	if len(p.posts) != 4 || p.posts[3].at != 0 {
		t.Errorf("%d segments at once, want all 4", len(p.posts))
	}
	if s := p.shim.Stats(); s.Posts != 1 {
		t.Errorf("%d calls for 4 segments that were due together, want 1", s.Posts)
	}
}

func TestTheOutstandingBoundHolds(t *testing.T) {
	p := newBench(t, uncalibrated(), nil)
	q, _ := p.connect(defaultCap())
	p.post(q, p.write(1, 1<<20))
	if out := q.Outstanding(); out != 64*units.KiB {
		t.Errorf("%v outstanding, the default at 10 Gbps is 64KiB", out)
	}
	p.a.LineRate = 100 * units.Gbps
	q2, _ := p.connect(defaultCap())
	p.post(q2, p.write(1, 1<<20))
	// Twice 100 Gbps x 20 us is 500 KB: 31 segments, as 30 are less.
	if out := q2.Outstanding(); out != 31*16*units.KiB {
		t.Errorf("%v outstanding at 100 Gbps", out)
	}
	p.run(units.Never)
	if q.Outstanding() != 0 || q2.Outstanding() != 0 {
		t.Error("something is left outstanding")
	}
}

func TestRoundTripsAreWithoutSerialisation(t *testing.T) {
	for name, c := range map[string]struct {
		size int
		read bool
		tune func(*bench)
		nic  units.Rate
		want units.Rate // at which the NIC paces; 0 for line rate
	}{
		"a write":                   {size: 16 << 10},
		"a read":                    {size: 16 << 10, read: true},
		"one byte":                  {size: 1},
		"no byte":                   {size: 0},
		"NIC limiter at 700 Mbps":   {size: 16 << 10, nic: 700 * units.Mbps, want: 700 * units.Mbps},
		"limiter refused":           {size: 16 << 10, nic: 700 * units.Mbps, tune: func(p *bench) { p.a.Unlimited = true }},
		"no limiter":                {size: 16 << 10, nic: 700 * units.Mbps, tune: func(p *bench) { p.a.Plain = true }},
		"static rate":               {size: 16 << 10, nic: 3 * units.Gbps, want: 5 * units.Gbps, tune: func(p *bench) { p.a.Plain, p.a.Paths = true, fakenic.PathsKeep }},
		"static rate, no limiter":   {size: 16 << 10, nic: 3 * units.Gbps, want: 5 * units.Gbps, tune: func(p *bench) { p.a.Unlimited, p.a.Paths = true, fakenic.PathsKeep }},
		"limiter, and static rates": {size: 16 << 10, nic: 3 * units.Gbps, want: 3 * units.Gbps, tune: func(p *bench) { p.a.Paths = fakenic.PathsKeep }},
		"static rate refused":       {size: 16 << 10, nic: 3 * units.Gbps, tune: func(p *bench) { p.a.Plain, p.a.Paths = true, fakenic.PathsRefuse }},
		"static rate of line rate":  {size: 16 << 10, nic: line - 1, tune: func(p *bench) { p.a.Plain, p.a.Paths = true, fakenic.PathsKeep }},
		"static rate, none wanted":  {size: 16 << 10, tune: func(p *bench) { p.a.Plain, p.a.Paths = true, fakenic.PathsKeep }},
	} {
		t.Run(name, func(t *testing.T) {
			e := &fixed{control: cc.Control{Rate: 100 * units.Mbps, Window: cc.Unlimited}}
			cfg := steered(e)
			cfg.NICRate = c.nic
			p := newBench(t, cfg, c.tune)
			q, _ := p.connect(defaultCap())
			wr := p.write(1, c.size)
			if c.read {
				wr = p.read(1, c.size)
			}
			p.post(q, wr, wr)
			p.run(units.Never)
			if len(e.acks) != 2 {
				t.Fatalf("%d samples", len(e.acks))
			}
			for _, a := range e.acks {
				rate := line
				if c.want > 0 {
					rate = c.want
				}
				if a.NetRTT != latency || a.RTT != latency+rate.Serialize(units.Bytes(c.size)) || a.Now-a.SentAt != a.RTT {
					t.Errorf("RTT %v, net %v, want %v and the serialisation", a.RTT, a.NetRTT, latency)
				}
			}
			if refused := p.shim.Stats().NICRateRefused; (refused > 0) != (c.nic > 0 && c.want == 0) {
				t.Errorf("the rate was refused %d times", refused)
			}
		})
	}
}

// Queueing in the NIC is part of the round trip (TIMELY section 5).
func TestRoundTripsIncludeTheNICsQueue(t *testing.T) {
	e := &fixed{control: cc.Control{Rate: line, Window: cc.Unlimited}}
	p := newBench(t, steered(e), nil)
	q, _ := p.connect(defaultCap())
	p.post(q, p.write(1, 64<<10))
	p.run(units.Never)
	for i, a := range e.acks {
		if want := latency + units.Time(i)*line.Serialize(16*units.KiB); a.NetRTT != want {
			t.Errorf("sample %d: %v, want %v", i, a.NetRTT, want)
		}
	}
}

func TestWhatTheEngineIsTold(t *testing.T) {
	e := &fixed{control: cc.Control{Rate: 5 * units.Gbps, Window: cc.Unlimited}}
	var seen []units.Rate
	cfg := steered(e)
	cfg.BaseRTT = 12 * us
	cfg.Observe = func(q *paced.QP, a *cc.Ack, c cc.Control) { seen = append(seen, c.Rate) }
	p := newBench(t, cfg, func(p *bench) {
		p.a.Kinds = verbs.ReportsECN | verbs.ReportsEIN | verbs.ReportsMaxDelay | verbs.ReportsPath
		p.a.Telemetry = func(wc *verbs.WC, r *verbs.Telemetry) bool {
			*r = verbs.Telemetry{ECN: true, EIN: true, HasMaxDelay: true, MaxHopDelay: 3 * us, ReverseMaxHopDelay: us}
			r.Path.Push(telemetry.Hop{QLen: 77})
			return wc.WRID&1 == 0 // every other segment
		}
	})
	q, _ := p.connect(defaultCap())
	if e.env != (cc.Env{LineRate: line, BaseRTT: 12 * us, MTU: 1024}) {
		t.Errorf("environment %+v", e.env)
	}
	q.Unwrap().(*fakenic.QP).CNPCount = 3
	p.post(q, p.write(1, 40_000))
	p.run(units.Never)
	if len(e.acks) != 3 || len(seen) != 3 || seen[2] != 5*units.Gbps {
		t.Fatalf("%d acknowledgements, %d observed", len(e.acks), len(seen))
	}
	var acked units.Bytes
	last := units.Time(0)
	for i, a := range e.acks {
		acked += a.Bytes
		wantBytes, wantPackets := 16*units.KiB, int32(16)
		if i == 2 {
			wantBytes, wantPackets = 40_000-32*1024, 8 // 7232 bytes are 7.06 packets
		}
		if a.Bytes != wantBytes || a.Packets != wantPackets || a.Acked != acked || a.Sent < acked || a.Now <= last {
			t.Errorf("acknowledgement %d: %+v", i, a)
		}
		if a.ECN != (i != 1) || a.EIN != (i != 1) || a.HasMaxDelay != (i != 1) || i != 1 && (a.MaxHopDelay != 3*us || a.ReverseMaxHopDelay != us) {
			t.Errorf("telemetry of acknowledgement %d: %+v", i, a)
		}
		if (a.Path != nil) != (i != 1) || i != 1 && a.Path.Hops[0].QLen != 77 {
			t.Errorf("path of acknowledgement %d: %+v", i, a.Path)
		}
		last = a.Now
	}
	if e.acks[2].Sent != 40_000 {
		t.Errorf("sent %v by the last acknowledgement", e.acks[2].Sent)
	}
	if len(e.cnps) != 1 || p.shim.Stats().CNPs != 3 {
		t.Errorf("the engine was told of CNPs %d times, of %d", len(e.cnps), p.shim.Stats().CNPs)
	}
}

// TIMELY section 5: several completions in one minimum RTT share one update.
func TestUpdatesAreScaled(t *testing.T) {
	e := &fixed{control: cc.Control{Rate: 8 * units.Gbps, Window: cc.Unlimited}}
	cfg := steered(e)
	cfg.Segment = 4 * units.KiB
	p := newBench(t, cfg, nil)
	q, _ := p.connect(defaultCap())
	p.post(q, p.write(1, 40*4096))
	p.run(units.Never)
	gap := (8 * units.Gbps).Serialize(4 * units.KiB) // 4.1 us
	sum := 0.0
	for _, a := range e.acks[1:] {
		if want := float64(gap) / float64(20*us); math.Abs(a.Scale-want) > 1e-6 {
			t.Errorf("scale %v, want %v", a.Scale, want)
		}
		sum += a.Scale
	}
	// All of them together count for the round trips they took.
	if want := float64(e.acks[len(e.acks)-1].Now-e.acks[0].Now) / float64(20*us); math.Abs(sum-want) > 1e-6 {
		t.Errorf("%v updates in %v round trips", sum, want)
	}
}

// TIMELY section 5: a decrease is enforced when the segment comes due.
func TestRateChangesMidGap(t *testing.T) {
	for name, c := range map[string]struct {
		to   units.Rate
		want units.Time // of the segment that waits
	}{
		"decrease": {to: 100 * units.Mbps, want: (100 * units.Mbps).Serialize(16 * units.KiB)},
		"the same": {to: units.Gbps, want: units.Gbps.Serialize(16 * units.KiB)},
		"increase": {to: 2 * units.Gbps, want: (2 * units.Gbps).Serialize(16 * units.KiB)},
	} {
		t.Run(name, func(t *testing.T) {
			e := &fixed{control: cc.Control{Rate: units.Gbps, Window: cc.Unlimited}}
			p := newBench(t, steered(e), nil)
			q, _ := p.connect(defaultCap())
			p.post(q, p.write(1, 32<<10))
			e.control.Rate = c.to // by the first completion, 23 us into a gap of 131
			p.run(units.Never)
			if len(p.posts) != 2 || p.posts[1].at != c.want {
				t.Errorf("the second segment left at %v, want %v", p.posts[1].at, c.want)
			}
		})
	}
}

func TestTheEnginesWindow(t *testing.T) {
	e := &fixed{control: cc.Control{Rate: units.Gbps, Window: 32 * units.KiB}}
	p := newBench(t, steered(e), func(p *bench) { p.a.Latency = units.Millisecond })
	q, _ := p.connect(defaultCap())
	p.post(q, p.write(1, 80<<10))
	p.run(units.Millisecond)
	if out := q.Outstanding(); out != 32*units.KiB {
		t.Errorf("%v outstanding in a window of 32KiB", out)
	}
	// The window closes while the third segment waits for its time: it stays.
	e.control.Window = 1
	p.run(1100 * us)
	if len(p.posts) != 2 || q.Outstanding() != 16*units.KiB {
		t.Fatalf("%d segments were posted, %v outstanding", len(p.posts), q.Outstanding())
	}
	// The same while a segment is with the scheduler: it is taken back.
	e2 := &fixed{control: cc.Control{Rate: units.Gbps, Window: 64 * units.KiB}}
	p2 := newBench(t, steered(e2), func(p *bench) { p.a.Latency = 200 * us })
	q2, _ := p2.connect(defaultCap())
	p2.post(q2, p2.write(1, 48<<10))
	e2.control.Window = 1
	p2.run(units.Never)
	if len(p2.posts) != 3 || p2.posts[2].at < p2.posts[1].at+200*us {
		t.Errorf("the third segment left at %v, the second at %v and 200us to be back", p2.posts[2].at, p2.posts[1].at)
	}

	// A closed window still lets one segment be outstanding.
	p.run(units.Never)
	if len(p.posts) != 5 {
		t.Fatalf("%d segments", len(p.posts))
	}
	for i, s := range p.posts[3:] {
		if gap := s.at - p.posts[2+i].at; gap < units.Millisecond {
			t.Errorf("segment %d followed after %v, before the one before was back", 3+i, gap)
		}
	}
}

// TIMELY section 5: the rate may grow only if the application sends at more than
// 80 percent of it.
func TestApplicationLimited(t *testing.T) {
	const rate = units.Gbps
	gap := rate.Serialize(16 * units.KiB)
	// every lets the application post a segment at each interval.
	every := func(interval units.Time) func(*bench, *paced.QP) {
		return func(p *bench, q *paced.QP) {
			for range 40 {
				p.post(q, p.write(1, 16<<10))
				p.run(p.w.Now() + interval)
				p.poll(p.cq)
			}
		}
	}
	backlog := func(p *bench, q *paced.QP) { p.keepBusy(q, 400*gap, p.write(1, 100_000)) }
	for name, c := range map[string]struct {
		control cc.Control
		latency units.Time
		run     func(*bench, *paced.QP)
		onAck   func(*fixed, *cc.Ack)
		limited bool
	}{
		"always busy":           {run: backlog},
		"at 90 percent":         {run: every(gap * 10 / 9)},
		"at 70 percent":         {run: every(gap * 10 / 7), limited: true},
		"at 10 percent":         {run: every(gap * 10), limited: true},
		"one a round trip":      {run: backlog, control: cc.Control{Rate: rate, Window: 16 * units.KiB}, latency: 400 * us},
		"one a slow round trip": {run: backlog, control: cc.Control{Rate: line, Window: 16 * units.KiB}, latency: 400 * us},
		"by MaxOutstanding":     {run: backlog, latency: 4 * units.Millisecond, limited: true},
		"while it doubles":      {run: backlog, onAck: func(e *fixed, _ *cc.Ack) { e.control.Rate = min(e.control.Rate*5/4, 8*units.Gbps) }},
		"after a deep cut":      {run: backlog, onAck: func(e *fixed, _ *cc.Ack) { e.control.Rate = max(e.control.Rate*3/4, 50*units.Mbps) }},
		"to and fro":            {run: backlog, onAck: func(e *fixed, a *cc.Ack) { e.control.Rate = rate * (1 + 3*units.Rate(len(e.acks)&1)) }},
		"busy at line speed":    {run: backlog, control: cc.Control{Rate: line, Window: cc.Unlimited}},
	} {
		t.Run(name, func(t *testing.T) {
			e := &fixed{control: c.control}
			if e.control == (cc.Control{}) {
				e.control = cc.Control{Rate: rate, Window: cc.Unlimited}
			}
			if c.onAck != nil {
				e.onAck = func(a *cc.Ack) { c.onAck(e, a) }
			}
			p := newBench(t, steered(e), func(p *bench) {
				if c.latency > 0 {
					p.a.Latency = c.latency
				}
			})
			q, _ := p.connect(defaultCap())
			c.run(p, q)
			if len(e.acks) < 10 {
				t.Fatalf("%d samples", len(e.acks))
			}
			limited, total := 0, 0
			for _, a := range e.acks[len(e.acks)/2:] {
				total++
				if a.AppLimited {
					limited++
				}
			}
			if c.limited && limited != total || !c.limited && limited != 0 {
				t.Errorf("limited by the application in %d of %d samples", limited, total)
			}
		})
	}
}

func init() {
	for _, scheme := range []cc.Scheme{
		{Name: "paced-test-path", Telemetry: telemetry.PerHop, ECN: true},
		{Name: "paced-test-delay", Telemetry: telemetry.MaxDelay},
		{Name: "paced-test-ein", EIN: true},
		{Name: "paced-test-ecn", ECN: true},
	} {
		cc.Register(scheme, func() int { return 0 },
			func(int, cc.Env) (cc.Engine, error) { return &fixed{control: cc.Control{Rate: 1, Window: 1}}, nil })
	}
}

// An engine runs only where all that it lives on is reported.
func TestAnEngineThatCannotLiveHere(t *testing.T) {
	const all = verbs.ReportsECN | verbs.ReportsEIN | verbs.ReportsMaxDelay | verbs.ReportsPath
	for _, c := range []struct {
		scheme  string
		kinds   verbs.TelemetryKinds
		plain   bool
		missing string // nothing if the engine runs
	}{
		{scheme: "paced-test-path", plain: true, missing: "per-hop telemetry"},
		{scheme: "paced-test-path", missing: "per-hop telemetry"},
		{scheme: "paced-test-path", kinds: all &^ verbs.ReportsPath, missing: "per-hop telemetry"},
		{scheme: "paced-test-path", kinds: all &^ verbs.ReportsECN, missing: "ECN marks"},
		{scheme: "paced-test-path", kinds: verbs.ReportsPath | verbs.ReportsECN},
		{scheme: "paced-test-delay", kinds: verbs.ReportsECN, missing: "max-delay telemetry"},
		{scheme: "paced-test-delay", kinds: verbs.ReportsMaxDelay},
		{scheme: "paced-test-ein", kinds: all &^ verbs.ReportsEIN, missing: "explicit incast notifications"},
		{scheme: "paced-test-ein", kinds: verbs.ReportsEIN},
		{scheme: "paced-test-ecn", plain: true, missing: "ECN marks"},
		{scheme: "paced-test-ecn", kinds: verbs.ReportsECN},
		{scheme: "timely"},
		{scheme: "timely", plain: true},
	} {
		cfg := uncalibrated()
		cfg.Scheme = c.scheme
		p := newBench(t, cfg, func(p *bench) { p.a.Plain, p.a.Kinds = c.plain, c.kinds })
		q := must(p.pdA.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: p.cq, RecvCQ: p.cq, Cap: defaultCap()}))(t).(*paced.QP)
		err := verbs.ConnectRC(q, verbs.Endpoint{}, verbs.Endpoint{QPN: 1}, verbs.DefaultRC())
		switch {
		case c.missing == "" && err != nil:
			t.Errorf("%s with %04b: %v", c.scheme, c.kinds, err)
		case c.missing == "" && c.scheme != "timely" && q.Control().Rate != 1:
			t.Errorf("%s does not steer", c.scheme)
		case c.missing != "" && (!errors.Is(err, verbs.ErrNotSupported) || !strings.Contains(err.Error(), c.missing)):
			t.Errorf("%s with %04b: %v, want that it lacks %s", c.scheme, c.kinds, err, c.missing)
		}
	}
}

func TestAnEngineWhoseReceiversHaveASay(t *testing.T) {
	cc.RegisterReceiver(cc.Scheme{Name: "paced-test-receiver"}, func() int { return 0 },
		func(int, cc.Env) (cc.Engine, error) { return cc.Fixed{Keep: cc.Control{Rate: 1, Window: 1}}, nil },
		func(int, cc.Env) (cc.Receiver, error) { return nil, nil })
	cfg := uncalibrated()
	cfg.Scheme = "paced-test-receiver"
	if _, err := paced.Wrap(fakenic.New().NewDevice("a", line, latency), cfg); err == nil || !strings.Contains(err.Error(), "paced-test-receiver have a say") {
		t.Errorf("wrapped with an engine that no provider can serve: %v", err)
	}
}

func TestTheNICsLimiterCanBeChanged(t *testing.T) {
	e := &fixed{control: cc.Control{Rate: 50 * units.Mbps, Window: cc.Unlimited}}
	p := newBench(t, steered(e), nil)
	q, _ := p.connect(defaultCap())
	for i, r := range []units.Rate{units.Gbps, 0, 200 * units.Gbps, 2 * units.Gbps} {
		if err := q.SetRateLimit(int64(r)); err != nil {
			t.Fatal(err)
		}
		if r > line {
			// A limiter above the line rate is none, also to the fake.
			if err := q.Unwrap().(verbs.RateLimitQP).SetRateLimit(0); err != nil {
				t.Fatal(err)
			}
		}
		p.post(q, p.write(1, 16<<10))
		p.run(units.Never)
		if got := e.acks[i].NetRTT; got != latency {
			t.Errorf("limited to %v: round trip %v, want %v", r, got, latency)
		}
	}
	p.a.Unlimited = true
	if err := q.SetRateLimit(1); !errors.Is(err, verbs.ErrNotSupported) {
		t.Errorf("refused with %v", err)
	}
}

// A round trip that is shorter than its own serialisation is a fault of the
// line rate given, and counted.
func TestTooShortARoundTrip(t *testing.T) {
	e := &fixed{control: cc.Control{Rate: 50 * units.Mbps, Window: cc.Unlimited}}
	cfg := steered(e)
	cfg.LineRate = units.Gbps
	p := newBench(t, cfg, nil)
	q, _ := p.connect(defaultCap())
	p.post(q, p.write(1, 16<<10))
	p.run(units.Never)
	if s := p.shim.Stats(); s.Clamped != 1 || e.acks[0].NetRTT != 0 || e.acks[0].RTT <= 0 {
		t.Errorf("%d clamped, %v", s.Clamped, e.acks[0].NetRTT)
	}
}
