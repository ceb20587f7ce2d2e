package core_test

import (
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced/internal/core"
)

// spared is an engine that need not see round trips below 50 us.
type spared struct {
	cc.Fixed
	acks int
}

func (e *spared) BypassBelow() units.Time { return 50 * units.Microsecond }

func (e *spared) OnAck(*cc.Ack) cc.Control {
	e.acks++
	return e.Keep
}

// An engine is spared a round trip that found no queue at line rate, and no other.
func TestBypass(t *testing.T) {
	for name, c := range map[string]struct {
		bypass, watched bool
		rate            units.Rate
		net             units.Time
		spared          bool
	}{
		"no queue":         {true, false, line, 50*units.Microsecond - 1, true},
		"a queue":          {true, false, line, 50 * units.Microsecond, false},
		"below line rate":  {true, false, line - 1, 0, false},
		"watched":          {true, true, line, 0, false},
		"bypass is not on": {false, false, line, 0, false},
	} {
		k, err := core.New(core.Config{Batch: 4, BaseRTT: 20 * units.Microsecond, Bypass: c.bypass}, nil)
		if err != nil {
			t.Fatal(err)
		}
		q := &core.QP{}
		if err := k.Add(q, &core.QPConfig{
			Cap: verbs.QPCap{MaxSendWR: 8, MaxSendSGE: 1}, Segment: segment, Depth: depth, Limit: limit, Line: line, MTU: 1024,
		}); err != nil {
			t.Fatal(err)
		}
		e := &spared{Fixed: cc.Fixed{Keep: cc.Control{Rate: c.rate, Window: cc.Unlimited}}}
		q.Start(0, e, line, limit, 0)
		q.Resume(0)
		wc, x := complete(t, k, q, verbs.SendWR{Opcode: ib.WRRDMAWrite, SGL: []verbs.SGE{{Length: uint32(segment)}}}, units.Millisecond)
		x.Watched = c.watched
		k.Measure(units.Millisecond+line.Serialize(segment)+c.net, q, wc, x)
		if got := x.Marks&core.Bypassed != 0; got != c.spared || (e.acks == 0) != c.spared {
			t.Errorf("%s: bypassed %v, %d acknowledgements to the engine; expected %v", name, got, e.acks, c.spared)
		}
		if x.RTT != line.Serialize(segment)+c.net {
			t.Errorf("%s: a round trip of %v, expected %v", name, x.RTT, line.Serialize(segment)+c.net)
		}
	}
}
