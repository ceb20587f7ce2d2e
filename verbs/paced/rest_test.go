package paced_test

import (
	"testing"

	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
)

// A thread that rests is woken once, by what makes its rest too long and by
// nothing else.
func TestRest(t *testing.T) {
	p := programs(t, units.Gbps)
	p.w.PollCost = 0
	kicks := 0
	rest := func() units.Time { return p.shim.Rest(50*us, func() { kicks++ }).Time() }
	kicked := func(want int, after string) {
		t.Helper()
		if kicks != want {
			t.Fatalf("%d kicks after %s, want %d", kicks, after, want)
		}
		kicks = 0
	}
	q, _ := p.connect(defaultCap())
	slow, _ := p.connect(defaultCap())
	if at := rest(); at != units.Never {
		t.Errorf("with nothing to do it rests until %v", at)
	}
	p.post(q, p.write(1, 32<<10))
	kicked(1, "the first post")
	if at := rest(); at != 50*us {
		t.Errorf("with a segment at the NIC it rests until %v, want a look at 50us", at)
	}
	p.post(q, p.write(2, 32<<10))
	kicked(0, "a post that has to wait")
	p.w.RunUntil(40 * us)
	if err := p.shim.Progress(p.w.Now().Long()); err != nil {
		t.Fatal(err)
	}
	kicked(0, "a completion")
	gap := units.Gbps.Serialize(16 * units.KiB)
	if at := rest(); at != gap {
		t.Errorf("it rests until %v, want the second segment's time, %v", at, gap)
	}
	// Something at the NIC needs a look, though nothing is due earlier.
	p.post(slow, p.write(3, 10))
	kicked(1, "a post with nothing at the NIC")
	p.post(slow, p.write(4, 10))
	kicked(0, "a second post before the next rest")
	p.shim.Rest(0, nil)
	p.run(units.Never)
	kicked(0, "nobody rests any more")
}

// The rest, and the deadline, are those of the shard that has something to do first.
func TestRestOfShards(t *testing.T) {
	for which := range 2 {
		p := programs(t, units.Gbps)
		p.w.PollCost = 0
		other := must(p.shim.CreateCQ(verbs.CQInitAttr{CQE: 64}))(t)
		q0, _ := p.connect(defaultCap())
		q1, _ := p.connectOn(other, other, defaultCap())
		q := []*paced.QP{q0, q1}[which]
		p.post(q, p.write(1, 16<<10))
		kicks := 0
		look := units.Millisecond
		if at := p.shim.Rest(look, func() { kicks++ }).Time(); at != look {
			t.Errorf("shard %d: with a segment at the NIC it rests until %v, want a look at %v", which, at, look)
		}
		p.post(q, p.write(2, 16<<10)) // due before that
		if kicks != 1 {
			t.Errorf("shard %d: %d kicks after a post that is due within the rest, want 1", which, kicks)
		}
		p.w.RunUntil(40 * us)
		if err := p.shim.Progress(p.w.Now().Long()); err != nil {
			t.Fatal(err)
		}
		gap := units.Gbps.Serialize(16 * units.KiB)
		if at := p.shim.Rest(look, nil).Time(); at != gap {
			t.Errorf("shard %d: it rests until %v, want the segment's time, %v", which, at, gap)
		}
		if at := p.shim.Deadline().Time(); at != gap {
			t.Errorf("shard %d: the deadline is %v, want the segment's time, %v", which, at, gap)
		}
		p.run(units.Never)
	}
}
