package paced_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
)

// grouped configures groups, whose engines allow 5 Gbps.
func grouped(g paced.Grouping) paced.Config {
	c := uncalibrated()
	c.Group = g
	c.Engine = func(cc.Env) (cc.Engine, error) {
		return cc.Fixed{Keep: cc.Control{Rate: 5 * units.Gbps, Window: cc.Unlimited}}, nil
	}
	return c
}

// Queue pairs of a port share its group's rate, whichever CQ they send to.
func TestGroupOfAPort(t *testing.T) {
	p := newBench(t, grouped(paced.ByPort), nil)
	other := must(p.shim.CreateCQ(verbs.CQInitAttr{CQE: 64}))(t)
	a, _ := p.connect(defaultCap())
	b, _ := p.connectOn(other, other, defaultCap())
	for i := range 20 {
		p.post(a, p.write(uint64(i), 64<<10))
		p.post(b, p.write(uint64(i), 64<<10))
	}
	got := p.shim.Groups()
	if len(got) != 1 || got[0].Name != "port 1" || got[0].Members != 2 || got[0].Rate != 5*units.Gbps || got[0].Window != 0 || got[0].Outstanding == 0 {
		t.Fatalf("groups %+v, expected one of port 1 with two members", got)
	}
	from := p.posts[0].at
	p.run(from + units.Millisecond)
	sent := map[uint32]int{}
	for _, x := range p.posts {
		sent[x.qp] += x.len
	}
	sum, want := sent[a.Num()]+sent[b.Num()], int((5 * units.Gbps).BytesIn(units.Millisecond))
	if sum < want*98/100 || sum > want+32<<10 {
		t.Errorf("both sent %d bytes in a millisecond, expected %d at 5 Gbps", sum, want)
	}
	if d := sent[a.Num()] - sent[b.Num()]; d < -32<<10 || d > 32<<10 {
		t.Errorf("one sent %d bytes and the other %d", sent[a.Num()], sent[b.Num()])
	}
	if s := a.Control(); s.Rate != 5*units.Gbps {
		t.Errorf("a member's rate is %v, expected the group's", s.Rate)
	}
}

// connectTo is connect, to a peer of a GID by a flow label. The peer is never there.
func (p *bench) connectTo(gid string, label uint32) *paced.QP {
	p.t.Helper()
	q := must(p.pdA.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: p.cq, RecvCQ: p.cq, Cap: defaultCap()}))(p.t)
	rc := verbs.DefaultRC()
	rc.FlowLabel = label
	if err := verbs.ConnectRC(q, verbs.Endpoint{QPN: q.Num()}, verbs.Endpoint{GID: netip.MustParseAddr(gid), QPN: 77}, rc); err != nil {
		p.t.Fatal(err)
	}
	return q.(*paced.QP)
}

// Each grouping tells apart what it says. The last member of a group to leave ends it.
func TestGroupings(t *testing.T) {
	byName := grouped(paced.Ungrouped)
	byName.GroupOf = func(_ *paced.QP, a verbs.QPAttr) string {
		if a.AV.FlowLabel == 9 {
			return ""
		}
		return "bulk"
	}
	for _, c := range []struct {
		name   string
		config paced.Config
		want   string
	}{
		{"none", grouped(paced.Ungrouped), ""},
		{"destination", grouped(paced.ByDestination), "10.0.0.1: 3, 10.0.0.2: 1"},
		{"path", grouped(paced.ByPath), "10.0.0.1 flow 0x7: 2, 10.0.0.1 flow 0x9: 1, 10.0.0.2 flow 0x7: 1"},
		{"port", grouped(paced.ByPort), "port 1: 4"},
		{"the program's", byName, "bulk: 3"},
	} {
		p := newBench(t, c.config, nil)
		qps := []*paced.QP{p.connectTo("10.0.0.1", 7), p.connectTo("10.0.0.1", 9), p.connectTo("10.0.0.2", 7), p.connectTo("10.0.0.1", 7)}
		if got := groupsOf(p.shim); got != c.want {
			t.Errorf("%s: groups %q, expected %q", c.name, got, c.want)
		}
		for i, q := range qps {
			var err error
			if i%2 == 0 {
				err = q.Close()
			} else {
				err = q.Modify(verbs.QPAttr{State: ib.Reset}, verbs.AttrState)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if got := groupsOf(p.shim); got != "" {
			t.Errorf("%s: groups %q are left of no queue pair", c.name, got)
		}
	}
}

func groupsOf(s *paced.Shim) string {
	var all []string
	for _, g := range s.Groups() {
		all = append(all, g.Name+": "+string(rune('0'+g.Members)))
	}
	return strings.Join(all, ", ")
}

// Shares hold at once, before a group is joined and after; others are refused.
func TestSetShare(t *testing.T) {
	p := newBench(t, grouped(paced.ByPort), nil)
	a, _ := p.connect(defaultCap())
	b, _ := p.connect(defaultCap())
	for _, x := range [][2]int{{0, 0}, {paced.MaxWeight + 1, 0}, {1, -1}, {1, paced.Classes}} {
		if err := a.SetShare(x[0], x[1]); !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("weight %d in class %d: %v", x[0], x[1], err)
		}
	}
	if err := a.SetShare(3, 0); err != nil {
		t.Fatal(err)
	}
	share := func() float64 {
		before := len(p.posts)
		for i := range 60 {
			p.post(a, p.write(uint64(i), 64<<10))
			p.post(b, p.write(uint64(i), 64<<10))
		}
		from := p.w.Now()
		p.run(from + 4*units.Millisecond)
		sent := map[uint32]int{}
		for _, x := range p.posts[before:] {
			sent[x.qp] += x.len
		}
		for p.run(p.w.Now() + 100*units.Millisecond); len(p.poll(p.cq)) > 0; p.run(p.w.Now() + 100*units.Millisecond) {
		}
		return float64(sent[a.Num()]) / float64(sent[b.Num()])
	}
	if got := share(); got < 2.8 || got > 3.2 {
		t.Errorf("the share of weight 3 is %.2f times that of 1", got)
	}
	if err := b.SetShare(1, 1); err != nil {
		t.Fatal(err)
	}
	if got := share(); got > 0.05 {
		t.Errorf("a lower class has %.3f of what the higher one sent", got)
	}
}
