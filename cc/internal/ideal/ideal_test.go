package ideal

import (
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/units"
)

func TestDirected(t *testing.T) {
	env := cc.Env{LineRate: 100 * units.Gbps, BaseRTT: units.Microsecond, MTU: 4096}
	e, err := New(DefaultConfig(), env)
	if err != nil {
		t.Fatal(err)
	}
	if got := (cc.Control{Rate: env.LineRate, Window: 4096}); e.Control() != got {
		t.Errorf("before it is told anything the engine says %+v", e.Control())
	}
	for told, want := range map[units.Rate]units.Rate{units.Gbps: units.Gbps, 200 * units.Gbps: env.LineRate, 0: 1} {
		e.(cc.Directed).Direct(told)
		for _, got := range []cc.Control{e.Control(), e.OnAck(&cc.Ack{}), e.OnLoss(0), e.OnTimeout(0), e.OnCNP(0)} {
			if got != (cc.Control{Rate: want, Window: cc.Unlimited}) {
				t.Errorf("told %v the engine says %+v", told, got)
			}
		}
	}
	if _, err := New(DefaultConfig(), cc.Env{}); err == nil {
		t.Error("an empty environment was accepted")
	}
}
