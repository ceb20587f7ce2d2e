package nicmodel

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/nicmodel/internal/config"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/units"
)

// eventBed is a NIC of which a test completes what it likes.
type eventBed struct {
	*bed
	nic     *NIC
	cq      uint32
	events  []units.Time
	written []units.Time // when stage cqe was done with each completion
	visible []units.Time
}

func newEventBed(t testing.TB, change func(*config.Config)) *eventBed {
	cfg := preset(t, "cx6dx")
	if change != nil {
		change(&cfg)
	}
	b := &eventBed{bed: newBed(t, 2, 100*units.Gbps, cfg, nil)}
	b.nic = b.nics[0]
	cq, err := b.nic.CreateCQ(256)
	if err != nil {
		t.Fatal(err)
	}
	b.cq = cq
	b.nic.OnEvent(cq, func(now units.Time) { b.events = append(b.events, now) })
	b.nic.OnSpan(func(s *chip.Span) {
		switch s.Place {
		case chip.AtCQE:
			b.written = append(b.written, s.End)
		case chip.AtCQEWrite:
			b.visible = append(b.visible, s.End)
		}
	})
	return b
}

func (b *eventBed) completes(at units.Time, e CQE) {
	b.e.RunUntil(at)
	b.nic.completions.complete(at, at, b.cq, e)
}

// An event is an element and an interrupt behind the completion, and the host's own
// time.
func TestEventTakesTime(t *testing.T) {
	for _, latency := range []units.Time{0, 3 * units.Microsecond} {
		b := newEventBed(t, func(c *config.Config) { c.Interrupt.Latency = latency })
		b.nic.ReqNotify(0, b.cq, false)
		b.completes(10*units.Microsecond, CQE{WRID: 1})
		b.e.RunUntil(units.Millisecond)
		cfg := b.nic.Config()
		p := cfg.PCIe
		// The completion's write has left the link before the element is made.
		element := b.written[0] + max(cfg.CoreClock.Begin(cfg.CQECycles), p.Rate.Serialize(64+24))
		want := element + p.Rate.Serialize(64+24+4+24) + p.WriteLatency + latency
		if len(b.events) != 1 || b.events[0] < want-2 || b.events[0] > want+2 {
			t.Errorf("latency %v: events at %v, want one at %v; the completion was visible at %v", latency, b.events, want, b.visible[0])
		}
		up, down := b.nic.PCIe().Traffic(pcie.Upstream, pcie.MemWr, pcie.ForEvent), b.nic.PCIe().Traffic(pcie.Downstream, pcie.MemWr, pcie.ForEvent)
		if up != (pcie.TLPs{Packets: 2, Bytes: 64 + 24 + 4 + 24}) || down != (pcie.TLPs{Packets: 1, Bytes: 8 + 24}) {
			t.Errorf("PCIe: %+v up, %+v down", up, down)
		}
		// One arming, one event.
		b.completes(2*units.Millisecond, CQE{WRID: 2})
		b.e.RunUntil(3 * units.Millisecond)
		if len(b.events) != 1 {
			t.Errorf("%d events of one arming", len(b.events))
		}
	}
}

// What an arming counts: completions that become visible after it.
func TestWhatAnArmingCounts(t *testing.T) {
	const us = units.Microsecond
	fails, solicited := CQE{Status: ib.WCRemAccessErr}, CQE{Solicited: true}
	for name, c := range map[string]struct {
		completes units.Time // the arming is at 10 us, and at the NIC 0.25 us later
		e         CQE
		solicited bool
		want      bool
	}{
		"before":                          {5 * us, CQE{}, false, false},
		"written before, visible after":   {10*us - 100*units.Nanosecond, CQE{}, false, true},
		"while the arming is on its way":  {10*us + 100*units.Nanosecond, CQE{}, false, true},
		"after":                           {12 * us, CQE{}, false, true},
		"after, not solicited":            {12 * us, CQE{}, true, false},
		"after, solicited":                {12 * us, solicited, true, true},
		"on its way, solicited":           {10*us + 100*units.Nanosecond, solicited, true, true},
		"on its way, not solicited":       {10*us + 100*units.Nanosecond, CQE{}, true, false},
		"before, solicited":               {5 * us, solicited, true, false},
		"failed counts as solicited does": {12 * us, fails, true, true},
	} {
		b := newEventBed(t, nil)
		if c.completes <= 10*us {
			b.completes(c.completes, c.e)
		}
		b.e.RunUntil(10 * us)
		b.nic.ReqNotify(10*us, b.cq, c.solicited)
		if c.completes > 10*us {
			b.completes(c.completes, c.e)
		}
		b.e.RunUntil(units.Millisecond)
		if got := len(b.events) == 1; got != c.want || len(b.events) > 1 {
			t.Errorf("%s: %d events", name, len(b.events))
		}
	}
}

// An event comes with the count-th completion, or the period after the first, by a
// model of one arming and completions at any times.
func TestModeration(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		count := rapid.SampledFrom([]uint16{0, 0, 1, 2, 3, 10, 300}).Draw(rt, "count")
		period := rapid.SampledFrom([]uint16{0, 1, 5, 50, 65535}).Draw(rt, "period")
		armAt := units.Time(rapid.IntRange(0, 100_000).Draw(rt, "arm")) * units.Nanosecond
		var times []units.Time
		for range rapid.IntRange(0, 20).Draw(rt, "completions") {
			times = append(times, units.Time(rapid.IntRange(0, 200_000).Draw(rt, "at"))*units.Nanosecond)
		}
		slices.Sort(times)

		b := newEventBed(t, nil)
		b.nic.ModerateCQ(b.cq, count, period)
		asked := false
		ask := func() {
			b.e.RunUntil(armAt)
			b.nic.ReqNotify(armAt, b.cq, false)
			asked = true
		}
		for i, at := range times {
			if at > armAt && !asked {
				ask()
			}
			b.completes(at, CQE{WRID: uint64(i)})
		}
		if !asked {
			ask()
		}
		b.e.RunUntil(units.Second)

		armed := armAt + 250*units.Nanosecond // and the store's bits
		var counted []units.Time
		for i, at := range b.written {
			if b.visible[i] > armAt {
				counted = append(counted, max(at, armed))
			}
		}
		want := units.Never
		if need := int(count); need > 0 && len(counted) >= need {
			want = counted[need-1]
		}
		if len(counted) > 0 && count == 0 && period == 0 {
			want = counted[0]
		}
		if len(counted) > 0 && period > 0 {
			want = min(want, counted[0]+units.Time(period)*units.Microsecond)
		}
		const way = 300 * units.Nanosecond
		switch {
		case want == units.Never && len(b.events) > 0, want != units.Never && len(b.events) != 1:
			rt.Fatalf("%d events; want one at %v", len(b.events), want)
		case want != units.Never && (b.events[0] < want+200*units.Nanosecond || b.events[0] > want+way):
			rt.Fatalf("an event at %v, want %v and the way to the host", b.events[0], want)
		}
		if n := b.nic.PollCQ(b.e.Now(), b.cq, make([]CQE, 32)); n != len(times) {
			rt.Fatalf("%d completions of %d", n, len(times))
		}
	})
}

// With sessions, what counts is what has been written.
func TestEventOfACompressedQueue(t *testing.T) {
	const timeout = 20 * units.Microsecond
	b := newEventBed(t, func(c *config.Config) { c.Compression = config.Compression{MaxNum: 8, Timeout: timeout} })
	b.nic.ReqNotify(0, b.cq, false)
	for i := range units.Time(3) {
		b.completes((10+i)*units.Microsecond, CQE{QPN: 1, WRID: uint64(i)})
	}
	b.e.RunUntil(units.Millisecond)
	if len(b.events) != 1 || b.events[0] <= b.visible[2] || b.events[0] > b.written[0]+timeout+units.Microsecond {
		t.Errorf("events at %v, the completions visible at %v", b.events, b.visible)
	}
}

func TestEventsDoNotAllocate(t *testing.T) {
	b := newEventBed(t, nil)
	b.nic.OnSpan(nil)
	b.nic.ModerateCQ(b.cq, 4, 10)
	out := make([]CQE, 16)
	events := 0
	b.nic.OnEvent(b.cq, func(now units.Time) {
		events++
		b.nic.PollCQ(now, b.cq, out)
		b.nic.ReqNotify(now, b.cq, false)
	})
	b.nic.ReqNotify(0, b.cq, false)
	at := units.Time(0)
	round := func() {
		for range 1000 {
			at += units.Microsecond
			b.completes(at, CQE{QPN: 1})
		}
	}
	round()
	if n := testing.AllocsPerRun(3, round); n > 0 || events < 500 {
		t.Errorf("%v allocations in 1000 completions, %d events", n, events)
	}
}

func TestInterruptConfig(t *testing.T) {
	for _, c := range []config.Interrupt{{Latency: -1}, {Latency: 2 * units.Second}} {
		cfg := preset(t, "cx5")
		cfg.Interrupt = c
		if err := cfg.Validate(); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}

// A period that is set while completions wait for their number begins with the next
// one.
func TestPeriodSetWhileWaiting(t *testing.T) {
	const us = units.Microsecond
	b := newEventBed(t, nil)
	b.nic.ModerateCQ(b.cq, 10, 0)
	b.nic.ReqNotify(0, b.cq, false)
	b.completes(10*us, CQE{})
	b.nic.ModerateCQ(b.cq, 10, 5)
	b.completes(20*us, CQE{})
	b.e.RunUntil(units.Millisecond)
	if len(b.events) != 1 || b.events[0] < 25*us || b.events[0] > 26*us {
		t.Errorf("events at %v, want one 5 us after 20 us", b.events)
	}
}

// A queue that is armed twice counts a completion once.
func TestArmedTwice(t *testing.T) {
	const us = units.Microsecond
	b := newEventBed(t, nil)
	b.nic.ModerateCQ(b.cq, 4, 0)
	b.nic.ReqNotify(0, b.cq, false)
	b.e.RunUntil(10 * us)
	b.nic.ReqNotify(10*us, b.cq, false)
	b.completes(10*us+100*units.Nanosecond, CQE{})
	b.completes(11*us, CQE{})
	b.completes(12*us, CQE{})
	b.e.RunUntil(20 * us)
	if len(b.events) != 0 {
		t.Errorf("an event at %v, after three completions of four", b.events)
	}
	b.completes(20*us, CQE{})
	b.e.RunUntil(30 * us)
	if len(b.events) != 1 {
		t.Errorf("%d events after four completions", len(b.events))
	}
}
