package paced_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced/internal/fakenic"
)

// waiting is a device that has no events, and on which waiting for one takes its time.
type waiting struct {
	*fakenic.Device
	waits func(timeout time.Duration)
}

func (d *waiting) AsyncEvent(_ context.Context, timeout time.Duration) (verbs.AsyncEvent, error) {
	d.waits(timeout)
	d.World.RunUntil(d.World.Now() + units.FromDuration(timeout))
	return verbs.AsyncEvent{}, verbs.ErrTimeout
}

// While a queue pair drains, who awaits an event makes progress every 200 us at least; else the
// wait is the provider's. It ends when the program says, and not before.
func TestWaitsForEvents(t *testing.T) {
	const longest = 200 * time.Microsecond
	for _, timeout := range []time.Duration{0, time.Microsecond, 150 * time.Microsecond, time.Millisecond, 10 * time.Millisecond} {
		w := fakenic.New()
		d := &waiting{Device: w.NewDevice("a", line, latency)}
		e := &fixed{control: cc.Control{Rate: 100 * units.Mbps, Window: cc.Unlimited}}
		p := newBench(t, steered(e), func(p *bench) { p.w, p.a, p.b, p.over = w, d.Device, w.NewDevice("b", line, latency), d })
		q, _ := p.connect(defaultCap())
		p.post(q, p.write(1, 3*16<<10)) // leaves within 2.6 ms
		if err := q.Modify(verbs.QPAttr{State: ib.SQD}, verbs.AttrState); err != nil {
			t.Fatal(err)
		}
		start := w.Now()
		left := func() time.Duration { return timeout - (w.Now() - start).Duration() }
		drained := false
		d.waits = func(nap time.Duration) {
			want := left()
			if !drained { // when it looked last
				want = min(want, longest)
			}
			below, _ := q.Unwrap().Query()
			drained = below.State == ib.SQD
			if nap != want {
				t.Errorf("%v: with %v left, drained %v: a wait of %v, want %v", timeout, left(), drained, nap, want)
			}
		}
		if _, err := p.shim.AsyncEvent(t.Context(), timeout); !errors.Is(err, verbs.ErrTimeout) || left() != 0 {
			t.Errorf("%v: %v, with %v left", timeout, err, left())
		}
		if drained != (timeout > 3*time.Millisecond) {
			t.Errorf("%v: drained %v", timeout, drained)
		}
	}
}
