package paced_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/cc/dcqcn"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

const day = 24 * time.Hour

// longLived is a device whose clock counts nanoseconds and shows any time: the world's
// and age more. Its counter is the world's.
type longLived struct {
	verbs.Device
	age time.Duration
}

func (d *longLived) Now() time.Duration         { return d.age + d.Device.Now() }
func (d *longLived) ReadClock() (uint64, error) { return d.Device.(verbs.ClockReader).ReadClock() }

// settle is an event-driven driver, as bench.run is, by the device's clock.
func (d *longLived) settle(p *bench) {
	p.t.Helper()
	for range 100_000 {
		at := p.w.Next()
		if due := p.shim.Deadline(); due != units.LongNever {
			left := max(due.Sub(p.shim.Clock()), 0)
			at = min(at, p.w.Now()+left+units.Nanosecond-1)
		}
		if at == units.Never {
			return
		}
		p.w.RunUntil(at)
		if err := p.shim.Progress(p.shim.Clock()); err != nil {
			p.t.Fatal(err)
		}
	}
	p.t.Fatalf("at %v the shim does not come to an end: %+v", p.shim.Clock(), p.shim.Stats())
}

// traceAt returns what a program sees of the shim whose device's clock shows age at first,
// and jumps before each of its rounds.
func traceAt(t *testing.T, age time.Duration, jumps []time.Duration) []string {
	e := &fixed{control: cc.Control{Rate: units.Gbps, Window: cc.Unlimited}}
	cfg := steered(e)
	cfg.CalibrateEvery = 10 * units.Millisecond
	d := &longLived{age: age}
	p := newBench(t, cfg, func(p *bench) {
		p.a.ClockHz = 1e9
		d.Device, p.over = p.a, d
	})
	q, _ := p.connect(defaultCap())
	var out []string
	for _, jump := range jumps {
		d.age += jump
		from, acks := p.w.Now(), len(e.acks)
		for id := range uint64(4) {
			p.post(q, p.write(id, 100<<10))
		}
		d.settle(p)
		for _, x := range p.posts {
			out = append(out, fmt.Sprintf("posted at %v, %d bytes", x.at-from, x.len))
		}
		p.posts = p.posts[:0]
		for _, a := range e.acks[acks:] {
			out = append(out, fmt.Sprintf("acked after %v, %v, scale %v", a.RTT, a.AppLimited, a.Scale))
			if a.Now-a.SentAt != a.RTT {
				t.Errorf("from %v to %v is not %v", a.SentAt, a.Now, a.RTT)
			}
		}
		for _, wc := range p.poll(p.cq) {
			out = append(out, fmt.Sprintf("%d completed: %v, %d bytes", wc.WRID, wc.Status, wc.ByteLen))
		}
		h := p.shim.Stats().Held
		out = append(out, fmt.Sprintf("held %v", h))
	}
	return out
}

// What the shim does depends on no date: not after 106 days, where the picoseconds of
// an int64 end, nor after ten years, nor where its instants are set back (13 days after
// they began) in the middle of a flow.
func TestTheClockDoesNotEnd(t *testing.T) {
	rest := 20 * time.Second // so that nothing of the round before is left over, and the NIC's clock is read anew
	want := traceAt(t, 0, []time.Duration{rest, rest, rest})
	for name, c := range map[string]struct {
		age   time.Duration
		jumps []time.Duration
	}{
		"a host up for 106 days":               {106*day + 18*time.Hour, []time.Duration{rest, rest, rest}},
		"a host up for ten years":              {3652 * day, []time.Duration{rest, rest, rest}},
		"after 13, 107 and 214 days":           {0, []time.Duration{1<<60/1000 - time.Millisecond, 94 * day, 107 * day}},
		"after 106.75 days":                    {0, []time.Duration{106*day + 18*time.Hour, rest, 107 * day}},
		"after ten years":                      {day, []time.Duration{rest, 3652 * day, 3652 * day}},
		"across the end of a run of instants":  {0, []time.Duration{1<<60/1000 - 1353*time.Microsecond, rest, rest}},
		"across the ends of runs":              {77, []time.Duration{1<<60/1000 - 500*time.Microsecond, 1<<60/1000 - 2500*time.Microsecond, 1<<60/1000 - 2100*time.Microsecond}},
		"across an end, after a very long one": {0, []time.Duration{300 * day, 1<<60/1000 - 4000*time.Microsecond, 1<<60/1000 - 5*time.Millisecond}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := traceAt(t, c.age, c.jumps); !slices.Equal(got, want) {
				for i := range min(len(got), len(want)) {
					if got[i] != want[i] {
						t.Fatalf("line %d of %d: %q, expected %q", i, len(got), got[i], want[i])
					}
				}
				t.Fatalf("%d lines, expected %d", len(got), len(want))
			}
		})
	}
}

// Segments that wait for their pace as the clock jumps, in a queue pair with an engine
// that has instants of its own, leave at once, and the shim goes on.
func TestTheClockJumpsWhileSegmentsWait(t *testing.T) {
	for _, jump := range []time.Duration{13 * day, 14 * day, 27 * day, 54 * day, 106 * day, 107 * day, 214 * day, 3652 * day} {
		t.Run(jump.String(), func(t *testing.T) {
			cfg := uncalibrated()
			cfg.Engine = func(env cc.Env) (cc.Engine, error) { return dcqcn.New(dcqcn.DefaultConfig(), env) }
			d := &longLived{}
			p := newBench(t, cfg, func(p *bench) { d.Device, p.over = p.a, d })
			q, _ := p.connect(defaultCap())
			for round := range 8 {
				p.post(q, p.write(uint64(round), 1<<20))
				d.age += jump
				if err := p.shim.Progress(p.shim.Clock()); err != nil {
					t.Fatal(err)
				}
				d.settle(p)
				if got := p.poll(p.cq); len(got) != 1 {
					t.Fatalf("round %d: %d requests completed", round, len(got))
				}
			}
		})
	}
}
