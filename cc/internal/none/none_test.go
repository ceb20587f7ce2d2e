package none_test

import (
	"fmt"
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/cc/enginetest"
	"github.com/sluice-rdma/sluice/cc/internal/none"
	"github.com/sluice-rdma/sluice/units"
)

func TestConforms(t *testing.T) {
	enginetest.Conform(t, enginetest.Subject{
		New:     func(env cc.Env) (cc.Engine, error) { return none.New(none.DefaultConfig(), env) },
		MinRate: func(env cc.Env) units.Rate { return env.LineRate },
	})
}

func TestWindowIsUnlimited(t *testing.T) {
	e, err := none.New(none.DefaultConfig(), cc.Env{LineRate: units.Gbps, BaseRTT: units.Microsecond, MTU: 1024})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []cc.Control{e.Control(), e.OnAck(&cc.Ack{ECN: true}), e.OnLoss(0), e.OnTimeout(0), e.OnCNP(0)} {
		if c.Window != cc.Unlimited {
			t.Errorf("the window is %v", c.Window)
		}
	}
}

func Example() {
	e, err := none.New(none.DefaultConfig(), cc.Env{
		LineRate: 100 * units.Gbps, BaseRTT: 10 * units.Microsecond, MTU: 4096,
	})
	if err != nil {
		panic(err)
	}
	c := e.OnTimeout(units.Millisecond)
	fmt.Println(c.Rate, c.Window == cc.Unlimited)
	// Output: 100Gbps true
}

func BenchmarkOnAck(b *testing.B) {
	e, err := none.New(none.DefaultConfig(), cc.Env{LineRate: units.Gbps, BaseRTT: units.Microsecond, MTU: 1024})
	if err != nil {
		b.Fatal(err)
	}
	a := cc.Ack{}
	b.ReportAllocs()
	for b.Loop() {
		e.OnAck(&a)
	}
}
