package paced

import (
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced/internal/fakenic"
)

// Each CQ that queue pairs send to has a shard for itself, which goes to another CQ when
// it is destroyed. Those beyond mostShards share.
func TestAShardOfItsOwn(t *testing.T) {
	s, err := Wrap(fakenic.New().NewDevice("a", 100*units.Gbps, units.Microsecond), DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	pd, err := s.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	type pair struct {
		cq *CQ
		q  verbs.QP
	}
	create := func() pair {
		cq, err := s.CreateCQ(verbs.CQInitAttr{CQE: 1})
		if err != nil {
			t.Fatal(err)
		}
		var q verbs.QP
		for i := range 2 { // the second changes nothing
			q, err = pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 1}})
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				if err := q.Destroy(); err != nil {
					t.Fatal(err)
				}
			}
		}
		return pair{cq.(*CQ), q}
	}
	destroy := func(p pair) {
		if err := p.q.Destroy(); err != nil {
			t.Fatal(err)
		}
		if err := p.cq.Destroy(); err != nil {
			t.Fatal(err)
		}
	}

	var pairs []pair
	of := map[*shard]int{}
	for range mostShards {
		p := create()
		pairs = append(pairs, p)
		of[p.cq.shard.Load()]++
	}
	if len(of) != mostShards || len(*s.shards.Load()) != mostShards {
		t.Fatalf("%d CQs on %d shards of %d", mostShards, len(of), len(*s.shards.Load()))
	}
	vacated := pairs[7].cq.shard.Load()
	destroy(pairs[7])
	pairs[7] = create()
	if pairs[7].cq.shard.Load() != vacated {
		t.Error("a CQ got a shard that another one has, and one had none")
	}
	for range mostShards {
		p := create()
		pairs = append(pairs, p)
		of[p.cq.shard.Load()]++
	}
	for _, n := range of {
		if n != 2 {
			t.Fatalf("a shard has %d CQs, expected 2", n)
		}
	}
	for _, p := range pairs {
		destroy(p)
	}
	for _, x := range *s.shards.Load() {
		if x.tenants != 0 || len(*x.cqs.Load()) != 1 {
			t.Fatalf("a shard of %d CQs, with %d of its own, expected 0 and 1", x.tenants, len(*x.cqs.Load()))
		}
	}
	if err := pd.Dealloc(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if n := len(s.byInner); n != 0 {
		t.Errorf("%d objects are still known", n)
	}
}

// A CQ forgets the shards of queue pairs that received there.
func TestOthersAreCounted(t *testing.T) {
	s := &Shim{}
	a, b := &shard{Shim: s}, &shard{Shim: s}
	send, recv := &CQ{shim: s}, &CQ{shim: s}
	for _, step := range []struct {
		x    *shard
		n    int
		left int
	}{{a, 1, 1}, {b, 1, 2}, {a, 1, 2}, {a, -1, 2}, {b, -1, 1}, {a, -1, 0}} {
		step.x.refer(send, recv, step.n)
		if n := len(*recv.others.Load()); n != step.left {
			t.Errorf("%d others, expected %d", n, step.left)
		}
	}
	a.refer(send, send, 1)
	if send.others.Load() != nil || send.refs != 2 {
		t.Errorf("others %v of a CQ that queue pairs send to as they receive there, %d references", send.others.Load(), send.refs)
	}
}
