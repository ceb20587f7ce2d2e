package fabric

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/units"
)

// ring is switches in a ring, each with hosts.
func ring(switches, hosts int, l Link) *Topology {
	t := &Topology{}
	var sw []Node
	for i := range switches {
		for h := range hosts {
			t.AddHost(fmt.Sprintf("h%d", i*hosts+h))
		}
	}
	for i := range switches {
		sw = append(sw, t.AddSwitch(fmt.Sprintf("s%d", i)))
	}
	for i := range switches {
		for h := range hosts {
			t.Connect(t.hosts[i*hosts+h], sw[i], l)
		}
	}
	for i := range switches {
		t.Connect(sw[i], sw[(i+1)%switches], l)
	}
	return t
}

func circleNames(all []Circle) string {
	var names []string
	for _, c := range all {
		var links []string
		for _, q := range c {
			links = append(links, fmt.Sprintf("%s/%d", q.Link, q.Priority))
		}
		names = append(names, strings.Join(links, " "))
	}
	return strings.Join(names, "; ")
}

// Flows two hops around a ring of five fill each other's buffers; the circle is named, for
// each priority by itself, and is still there later.
func TestARingDeadlocks(t *testing.T) {
	for _, prios := range []int{1, 2} {
		cfg := losslessConfig(PFC{XOFF: 40 * units.KiB})
		cfg.Switch.Classes[1].PFC = cfg.Switch.Classes[0].PFC
		r := newRig(t, ring(5, 2, gig(100, units.Microsecond)), cfg, 1)
		for p := range 2000 {
			for h := range int32(10) {
				r.send(0, whole{Size: 1000, Src: h, Dst: (h + 4) % 10, Priority: uint8(p % prios)})
			}
		}
		r.run()
		circles, stuck := r.n.Deadlocks()
		want := "s0->s1/0 s1->s2/0 s2->s3/0 s3->s4/0 s4->s0/0"
		if prios == 2 {
			want += "; " + strings.ReplaceAll(want, "/0", "/1")
		}
		if got := circleNames(circles); got != want || len(stuck) < 5*prios {
			t.Errorf("%d priorities: circles %q, %d stuck, want %q", prios, got, len(stuck), want)
		}
		for _, c := range circles {
			if c.Since() == 0 || c.Since() > r.e.Now() || c[0].Switch != "s0" || c[0].Bytes == 0 {
				t.Errorf("%+v since %v", c, c.Since())
			}
		}
	}
}

// Hosts that pause for ever root a tree of paused queues: nothing moves, and there is no
// circle. With a watchdog the ring's circles end.
func TestATreeOfPausesIsNoCircle(t *testing.T) {
	l := gig(100, units.Microsecond)
	r := newRig(t, Chain(3, 4, l, l), losslessConfig(PFC{XOFF: 30 * units.KB}), 1)
	r.n.sendPause(0, 0, 1)
	for h := int32(1); h < 12; h++ {
		for range 300 {
			r.send(0, whole{Size: 1000, Src: h})
		}
	}
	r.run()
	if r.n.Port(r.link(t, "tor2->tor1")).Paused() == 0 {
		t.Error("the pauses did not spread")
	}
	if c, stuck := r.n.Deadlocks(); len(c) > 0 || len(stuck) > 0 {
		t.Errorf("circles %q, %d stuck", circleNames(c), len(stuck))
	}
}

func TestAWatchdogLeavesNoCircle(t *testing.T) {
	r := newRig(t, ring(5, 2, gig(100, units.Microsecond)), losslessConfig(PFC{XOFF: 40 * units.KiB, Watchdog: 100 * units.Microsecond}), 1)
	for range 2000 {
		for h := range int32(10) {
			r.send(0, whole{Size: 1000, Src: h, Dst: (h + 4) % 10})
		}
	}
	r.run()
	if c, stuck := r.n.Deadlocks(); len(c) > 0 || len(stuck) > 0 {
		t.Errorf("circles %q, %d stuck", circleNames(c), len(stuck))
	}
}

// At no instant of a congested run without circular routes is there a circle, and what is
// found in a ring stays to the end.
func TestCirclesStay(t *testing.T) {
	l := gig(100, units.Microsecond)
	for name, topo := range map[string]*Topology{"ring": ring(5, 2, l), "chain": Chain(5, 2, l, l), "fat tree": FatTree(4, 2, l, l, l)} {
		r := newRig(t, topo, losslessConfig(PFC{XOFF: 20 * units.KiB}), 1)
		hosts := int32(topo.Hosts())
		for range 300 {
			for h := range hosts {
				r.send(0, whole{Size: 1000, Src: h, Dst: (h + 4) % hosts, FlowHash: uint32(h)})
				r.send(0, whole{Size: 1000, Src: h, Dst: (h + hosts - 1) % hosts, FlowHash: uint32(h)})
			}
		}
		before := 0
		for at := units.Microsecond; at < 200*units.Microsecond; at += units.Microsecond {
			r.e.RunUntil(at)
			_, queues := r.n.Deadlocks()
			stuck := len(queues)
			if stuck < before || stuck > 0 && name != "ring" {
				t.Fatalf("%s: %d stuck at %v, %d before", name, stuck, at, before)
			}
			before = stuck
		}
		r.run()
		if tot := r.n.Totals(); (tot.Delivered < tot.Sent) != (before > 0) {
			t.Errorf("%s: %d of %d delivered, %d queues stuck", name, tot.Delivered, tot.Sent, before)
		}
	}
}
