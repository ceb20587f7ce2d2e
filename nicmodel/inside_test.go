package nicmodel

import (
	"fmt"
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/nicmodel/internal/chip"
	"github.com/sluice-rdma/sluice/nicmodel/internal/stage"
	"github.com/sluice-rdma/sluice/sim/fabric"

	"github.com/sluice-rdma/sluice/units"
)

// insides are runs that load the NIC in different ways.
var insides = []struct {
	name            string
	preset          string
	rate            units.Rate
	size            uint32
	window          int
	pairs           int
	lossy           bool
	cong            cc.Control
	saturated, idle string // a stage above 90 percent, one below
}{
	{name: "large writes", preset: "cx6dx", rate: 100 * units.Gbps, size: 1 << 16, window: 8, pairs: 2, saturated: "mac", idle: "doorbell"},
	{name: "small writes", preset: "cx5", rate: 100 * units.Gbps, size: 8, window: 32, pairs: 8, idle: "mac"},
	{name: "paced writes", preset: "cx6dx", rate: 100 * units.Gbps, size: 4096, window: 8, pairs: 4, cong: cc.Control{Rate: 5 * units.Gbps, Window: 64 << 10}, idle: "mac"},
	{name: "loss", preset: "cx6dx", rate: 25 * units.Gbps, size: 1 << 16, window: 8, pairs: 2, lossy: true, idle: "doorbell"},
}

func (b *bed) load(i int) []end {
	b.t.Helper()
	c := &insides[i]
	var xs []end
	for range c.pairs {
		send := plainSend
		send.AckReqEvery = 4
		var cong [2]Congestion
		if c.cong.Rate > 0 {
			cong[0] = Congestion{Engine: &pacer{control: c.cong}, BaseRTT: 5 * units.Microsecond}
		}
		to := 1
		if c.lossy {
			// Two senders overrun the receiver's link.
			x, y := b.connect(2, 1, cong, send, 1024)
			b.stream(x, y, c.size, c.window)
		}
		x, y := b.connect(0, to, cong, send, 1024)
		b.stream(x, y, c.size, c.window)
		xs = append(xs, x)
	}
	return xs
}

func insideBed(t testing.TB, i int) *bed {
	c := &insides[i]
	return newBed(t, 3, c.rate, preset(t, c.preset), func(f *fabric.Config) {
		if c.lossy {
			f.Switch.Buffer = 64 << 10
			for k := range f.Switch.Classes {
				f.Switch.Classes[k].PFC.Lossless = false
			}
		}
	})
}

// At any instant, busy, stalled and idle cycles of every stage add up to those
// elapsed, and those are the clock's.
func TestCyclesAreConserved(t *testing.T) {
	for i, c := range insides {
		t.Run(c.name, func(t *testing.T) {
			b := insideBed(t, i)
			b.load(i)
			before := map[string]stage.Account{}
			for at := 37 * units.Microsecond; at < 2*units.Millisecond; at += 311 * units.Microsecond {
				b.e.RunUntil(at)
				for _, nic := range b.nics {
					for _, a := range nic.Accounts(at) {
						sum := a.Busy + a.Idle
						for why, cycles := range a.Stalled {
							if cycles < 0 {
								t.Fatalf("%v: %s was stalled for %d cycles by %v", at, a.Stage, cycles, stage.Stall(why))
							}
							sum += cycles
						}
						if sum != a.Elapsed || a.Idle < 0 || a.Busy < 0 || a.Elapsed < a.Clock.CycleAfter(at) {
							t.Fatalf("%v: host %d: %+v: the parts add up to %d", at, nic.chip.Host, a, sum)
						}
						key := fmt.Sprint(nic.chip.Host, a.Stage)
						since := a.Since(before[key])
						sum = since.Busy + since.Idle
						for _, cycles := range since.Stalled {
							sum += cycles
						}
						if sum != since.Elapsed || since.Idle < 0 || since.Busy < 0 {
							t.Fatalf("%v: since the last look %+v", at, since)
						}
						before[key] = a
					}
				}
			}
			for _, a := range b.nics[0].Accounts(b.e.Now()) {
				share := float64(a.Busy) / float64(a.Elapsed)
				if a.Stage == c.saturated && share < 0.9 || a.Stage == c.idle && share > 0.9 {
					t.Errorf("%s is busy %.0f %%", a.Stage, 100*share)
				}
			}
		})
	}
}

// What the queues count of themselves agrees with what was seen of each piece of
// work by Little's law, L = lambda W: the time that each spent in a queue, summed, is
// the queue's content summed over time.
func TestLittlesLaw(t *testing.T) {
	for i, c := range insides {
		t.Run(c.name, func(t *testing.T) {
			b := insideBed(t, i)
			nic := b.nics[0]
			waited, came := map[string]units.Time{}, map[string]uint64{}
			count := func(queue string, n uint32, d units.Time) {
				waited[queue] += units.Time(n) * d
				came[queue] += uint64(n)
			}
			type packet struct {
				qpn uint32
				psn units.PSN
			}
			var made units.Time
			rung := map[[2]uint32]units.Time{}
			built := map[packet]units.Time{}
			nic.OnSpan(func(s *chip.Span) {
				each := func(do func(slot uint32)) {
					for k := range s.Count {
						do((s.Slot + k) & (s.Ring - 1))
					}
				}
				p := packet{s.QPN, s.PSN}
				switch {
				case s.Place == chip.AtStore:
					each(func(slot uint32) { rung[[2]uint32{s.QPN, slot}] = s.Begin })
				case s.Place == chip.AtWQE:
					each(func(slot uint32) { count("wqe", 1, s.End-rung[[2]uint32{s.QPN, slot}]) })
				case s.Place == chip.AtScheduler:
					built[p] = b.e.Now()
				case s.Place == chip.AtWire && !s.Response:
					count("transmit", 1, s.Begin-built[p])
				case s.Place == chip.AtCQE:
					made = b.e.Now()
				case s.Place == chip.AtCQEWrite:
					count("completions", 1, s.End-made) // its owner polls at once
				case s.Place == chip.AtReceive:
					count("receive", 1, s.End-s.Begin)
				}
			})
			b.load(i)
			// Requests are in the transport from the end of stage wqe to their completion,
			// which their owner here asks for with each. Long enough for what is in the
			// queues at the end to count for little.
			b.e.RunUntil(4 * units.Millisecond)
			for _, u := range nic.Queues(b.e.Now()) {
				if u.Queue == "requests" || u.Queue == "queue pairs" {
					if u.Now < 0 || u.Now > c.window*c.pairs || u.Came == 0 {
						t.Errorf("%+v", u)
					}
					continue
				}
				if u.Queue == "no receive" {
					if u.Came != 0 {
						t.Errorf("WRITEs take no receives, and yet: %+v", u)
					}
					continue
				}
				if n := u.Came; n == 0 || came[u.Queue] > n+16 || came[u.Queue]+uint64(u.Now)+n/50 < n {
					t.Errorf("%s: %d came, and %d were seen", u.Queue, n, came[u.Queue])
				}
				got, want := float64(u.Area), float64(waited[u.Queue])
				if got < 0.97*want-1e6 || got > 1.03*want+1e6 {
					t.Errorf("%s: %.0f ps in the queue, and %.0f of each piece together", u.Queue, got, want)
				}
			}
		})
	}
}

// Nobody pays for spans that nobody asked for, and who did gets them without
// allocation.
func TestSpansDoNotAllocate(t *testing.T) {
	b := insideBed(t, 0)
	spans := 0
	b.nics[0].OnSpan(func(*chip.Span) { spans++ })
	b.load(0)
	b.e.RunUntil(units.Millisecond)
	b.allocatesNothing()
	if spans == 0 {
		t.Error("no spans")
	}
	b.nics[0].OnSpan(nil)
	spans = 0
	b.e.RunUntil(2 * units.Millisecond)
	if spans > 0 {
		t.Errorf("%d spans after the end", spans)
	}
}

// A stage's spans do not overlap, and are as many cycles as it counts.
func TestStageSpansAreItsAccount(t *testing.T) {
	b := insideBed(t, 1)
	nic := b.nics[0]
	stages := map[chip.Place]string{chip.AtDoorbell: "doorbell", chip.AtWQE: "wqe", chip.AtScheduler: "scheduler", chip.AtPacketiser: "packetiser", chip.AtWire: "mac", chip.AtCQE: "cqe"}
	last, busy := map[chip.Place]units.Time{}, map[string]units.Time{}
	nic.OnSpan(func(s *chip.Span) {
		name, ok := stages[s.Place]
		if !ok {
			return
		}
		if s.Begin < last[s.Place] {
			t.Fatalf("%v begins at %v, before the end of the one ahead, %v", s.Place, s.Begin, last[s.Place])
		}
		last[s.Place] = s.End
		busy[name] += s.End - s.Begin
	})
	b.load(1)
	b.e.RunUntil(units.Millisecond)
	for _, a := range nic.Accounts(b.e.Now()) {
		if got, ok := busy[a.Stage]; ok && got != a.Clock.Begin(a.Busy) {
			t.Errorf("%s: spans of %v, busy for %v", a.Stage, got, a.Clock.Begin(a.Busy))
		}
	}
}
