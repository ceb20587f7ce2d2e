package fabric

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
)

// bell is an endpoint that notes its alarms, and as alarm 0 goes off sets alarm 3 to
// the same instant and alarm 1 to a later one.
type bell struct {
	n    *Network
	host int
	said *[]string
}

func (b *bell) say(now units.Time, what string) {
	*b.said = append(*b.said, fmt.Sprintf("%d: host %d, %s", int64(now), b.host, what))
}

func (b *bell) Arrive(x *Lane, now units.Time, h Handle, _ *Frame) {
	b.say(now, "arrival")
	x.Free(h)
}

func (b *bell) Pause(*Lane, units.Time, uint8) {}

func (b *bell) Wake(x *Lane, now units.Time, alarm uint32) {
	b.say(now, fmt.Sprint("alarm ", alarm))
	if alarm == 0 {
		b.n.SetAlarm(b.host, 3, now)
		b.n.SetAlarm(b.host, 1, now+3*units.Microsecond)
		x.Settle()
	}
}

// observer is the events of an engine that see the network from outside.
type observer struct {
	e    *des.Engine
	said *[]string
}

func (o *observer) Handle(ev des.Event) {
	*o.said = append(*o.said, fmt.Sprintf("%d: outside", int64(ev.At)))
}

// runWindows runs a network up to a time, on one worker.
func runWindows(e *des.Engine, n *Network, until units.Time) {
	d := n.Division()
	for d != nil {
		if d.Begin(until) {
			d.Run(0, 0, d.Nodes())
			d.End()
			continue
		}
		if e.Next() > until {
			break
		}
		e.RunUntil(e.Next())
	}
	e.RunUntil(until)
}

// At one instant an endpoint has arrivals, then what others do by the engine, then its
// alarms by number, in a divided network as in one that is not.
func TestOrderAtAnInstant(t *testing.T) {
	run := func(divide, single bool) (said []string, settled int, arrival units.Time) {
		e := des.New()
		n, err := New(e, Star(3, gig(100, us)), Default(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if divide {
			if err := n.Divide(1); err != nil {
				t.Fatal(err)
			}
			n.Division().SingleInstants(func(units.Time) bool { return single })
		}
		o := &observer{e, &said}
		id, src := e.AddHandler(o), e.NewSource()
		n.OnSettle(func() { settled++ })
		for h := range 3 {
			n.Attach(h, &bell{n, h, &said})
		}
		h := n.Alloc()
		n.Transmit(0, 0, h, &Frame{Size: 1000, Dst: 1})
		arrival = n.BaseDelay(0, 1, 1000)
		for _, at := range []units.Time{arrival, arrival + 3*us} {
			e.Schedule(at, &src, id, 0, 0)
		}
		n.SetAlarm(1, 2, arrival)
		n.SetAlarm(1, 0, arrival)
		runWindows(e, n, 20*us)
		if e.Now() != 20*us {
			t.Errorf("now is %v", e.Now())
		}
		return said, settled, arrival
	}
	undivided, settled, arrival := run(false, false)
	var want []string
	for _, what := range []string{"host 1, arrival", "outside", "host 1, alarm 0", "host 1, alarm 2", "host 1, alarm 3"} {
		want = append(want, fmt.Sprintf("%d: %s", int64(arrival), what))
	}
	for _, what := range []string{"outside", "host 1, alarm 1"} {
		want = append(want, fmt.Sprintf("%d: %s", int64(arrival+3*us), what))
	}
	if !slices.Equal(undivided, want) || settled != 1 {
		t.Errorf("undivided, settled %d times: expected\n%q\ngot\n%q", settled, want, undivided)
	}
	for _, single := range []bool{false, true} {
		if got, settled, _ := run(true, single); !slices.Equal(got, want) || settled == 0 {
			t.Errorf("single instants %v, settled %d times: expected\n%q\ngot\n%q", single, settled, want, got)
		}
	}
}

// Windows of single instants end at their events.
func TestSingleInstants(t *testing.T) {
	e := des.New()
	n, err := New(e, Star(2, gig(100, us)), Default(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Divide(1); err != nil {
		t.Fatal(err)
	}
	d := n.Division()
	d.SingleInstants(func(units.Time) bool { return true })
	h := n.Alloc()
	n.Transmit(0, 0, h, &Frame{Size: 1000, Dst: 1})
	for d.Begin(units.Never) {
		d.Run(0, 0, d.Nodes())
		d.End()
	}
	if want := n.BaseDelay(0, 1, 1000); e.Now() != want || n.Totals().Delivered != 1 {
		t.Errorf("the last window ended at %v, expected %v; %+v", e.Now(), want, n.Totals())
	}
}
