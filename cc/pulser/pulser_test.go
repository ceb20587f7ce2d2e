package pulser

import (
	"fmt"
	"math"
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/cc/dctcp"
	"github.com/sluice-rdma/sluice/cc/enginetest"
	"github.com/sluice-rdma/sluice/units"
	"pgregory.net/rapid"
)

const us = units.Microsecond

var testEnv = cc.Env{LineRate: 10 * units.Gbps, BaseRTT: 40 * us, MTU: 1000}

func TestConforms(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"default":    func(*Config) {},
		"one packet": func(c *Config) { c.SafeCwnd, c.InitialCwnd, c.MinCwnd = 1, 1, 1 },
	} {
		t.Run(name, func(t *testing.T) {
			c := DefaultConfig()
			change(&c)
			enginetest.Conform(t, enginetest.Subject{
				New:     func(env cc.Env) (cc.Engine, error) { return New(c, env) },
				MinRate: func(env cc.Env) units.Rate { return env.LineRate },
			})
		})
	}
}

// path acknowledges the packets of one flow whose window is always full.
type path struct {
	*engine
	acked, sent units.Bytes
}

func newPath(t testing.TB, cwnd float64) *path {
	c := DefaultConfig()
	c.InitialCwnd = cwnd
	e, err := New(c, testEnv)
	if err != nil {
		t.Fatal(err)
	}
	return &path{engine: e.(*engine), sent: e.Control().Window}
}

func (p *path) ack(ecn, ein bool) units.Bytes {
	p.acked += 1000
	w := p.OnAck(&cc.Ack{RTT: 40 * us, Bytes: 1000, Packets: 1, Acked: p.acked, Sent: p.sent, ECN: ecn, EIN: ein}).Window
	p.sent = max(p.sent, p.acked+w/1000*1000)
	return w
}

// Equations 1 and 2: save and drop once, restore when a window's worth has come
// without a notice.
func TestDropsOnceAndRestoresAtOnce(t *testing.T) {
	p := newPath(t, 64)
	before := p.ack(false, false)
	if got := p.ack(true, true); got != 4000 {
		t.Fatalf("a notice leaves %v of %v, want four packets", got, before)
	}
	// More notices, each of which must not save the safe window, and marks.
	for i := range 30 {
		if got := p.ack(true, i%3 != 2); got != 4000 {
			t.Fatalf("notice %d in the incast leaves %v", i, got)
		}
	}
	p.ack(true, true)
	for i := range 3 {
		if got := p.ack(false, false); got != 4000 {
			t.Fatalf("%d acknowledgements without a notice give %v, want four packets", i+1, got)
		}
	}
	if got := p.ack(false, false); got != before {
		t.Errorf("a window's worth of acknowledgements without a notice gives %v, want %v again", got, before)
	}
}

// A flow whose window is below the safe one keeps it; one whose application holds it
// is not given a window back for that.
func TestSmallAndHeldFlows(t *testing.T) {
	p := newPath(t, 2)
	if got := p.ack(false, true); got != 2000 {
		t.Errorf("a notice takes a window of two packets to %v", got)
	}
	p = newPath(t, 64)
	p.ack(false, true)
	for range 10 {
		p.acked += 1000
		if got := p.OnAck(&cc.Ack{RTT: 40 * us, Bytes: 1000, Acked: p.acked, Sent: p.sent, AppLimited: true}); got.Window != 4000 {
			t.Fatalf("application-limited, the window is given back: %v", got.Window)
		}
	}
	if got := p.ack(false, false); got != 64_000 {
		t.Errorf("then it is %v, want 64 packets", got)
	}
}

func TestLossesAndTimeouts(t *testing.T) {
	p := newPath(t, 64)
	p.ack(false, true)
	if got := p.OnLoss(us).Window; got != 4000 {
		t.Errorf("a loss in an incast leaves %v", got)
	}
	for range 4 {
		p.ack(false, false)
	}
	if got := p.Control().Window; got != 32_000 {
		t.Errorf("after an incast with a loss the window is %v, want half of 64 packets", got)
	}
	p.ack(false, true)
	if got := p.OnTimeout(us).Window; got != 1000 || p.incast {
		t.Errorf("a timeout leaves %v, in an incast %v", got, p.incast)
	}
	if before := p.Control(); p.OnCNP(us) != before {
		t.Error("a CNP changed the control")
	}
}

// Between incasts it is DCTCP, whatever happens.
func TestIsDCTCPWithoutNotices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mine, err := New(DefaultConfig(), testEnv)
		if err != nil {
			t.Fatal(err)
		}
		its, err := dctcp.New(dctcp.DefaultConfig(), testEnv)
		if err != nil {
			t.Fatal(err)
		}
		a := cc.Ack{RTT: 40 * us, Packets: 1}
		for range rapid.IntRange(1, 200).Draw(t, "events") {
			var got, want cc.Control
			switch rapid.IntRange(0, 30).Draw(t, "event") {
			case 0:
				got, want = mine.OnLoss(a.Now), its.OnLoss(a.Now)
			case 1:
				got, want = mine.OnTimeout(a.Now), its.OnTimeout(a.Now)
			default:
				a.Bytes = units.Bytes(rapid.IntRange(1, 5000).Draw(t, "bytes"))
				a.Acked += a.Bytes
				a.Sent = max(a.Sent, a.Acked+its.Control().Window)
				a.ECN = rapid.IntRange(0, 3).Draw(t, "mark") == 0
				got, want = mine.OnAck(&a), its.OnAck(&a)
			}
			if got != want {
				t.Fatalf("%+v, DCTCP has %+v", got, want)
			}
		}
	})
}

func TestValidate(t *testing.T) {
	enginetest.Tags(t, Config{})
	enginetest.Accepts(t, DefaultConfig, func(c *Config) { c.SafeCwnd, c.G, c.InitialAlpha, c.InitialCwnd, c.MinCwnd = 1, 1, 0, 1, 1 })
	refuses := func(want string, changes ...func(*Config)) {
		t.Helper()
		enginetest.Refuses(t, DefaultConfig, want, changes...)
	}
	nan, inf := math.NaN(), math.Inf(1)
	refuses("pulser: safe_cwnd is .* choose", func(c *Config) { c.SafeCwnd = 0.5 }, func(c *Config) { c.SafeCwnd = nan }, func(c *Config) { c.SafeCwnd = inf })
	refuses("pulser: g is .* choose", func(c *Config) { c.G = 0 })
	refuses("pulser: initial_alpha is .* choose", func(c *Config) { c.InitialAlpha = 2 })
	refuses("pulser: initial_cwnd is .* choose", func(c *Config) { c.InitialCwnd = 0.5 })
	refuses("pulser: min_cwnd is .* choose", func(c *Config) { c.MinCwnd = 0 })
	if _, err := New(Config{}, testEnv); err == nil {
		t.Error("New accepted a configuration that Validate refuses")
	}
}

func ExampleNew() {
	config := DefaultConfig()
	config.InitialCwnd = 10
	e, err := New(config, testEnv)
	if err != nil {
		panic(err)
	}
	fmt.Println("start:", e.Control().Window)
	acked := units.Bytes(0)
	for _, notice := range []bool{true, true, false, false, false, false} {
		acked += 1000
		c := e.OnAck(&cc.Ack{RTT: 40 * us, Bytes: 1000, Packets: 1, Acked: acked, Sent: acked + 4000, EIN: notice})
		fmt.Println("notice", notice, c.Window)
	}
	// Output:
	// start: 10KB
	// notice true 4KB
	// notice true 4KB
	// notice false 4KB
	// notice false 4KB
	// notice false 4KB
	// notice false 10KB
}
