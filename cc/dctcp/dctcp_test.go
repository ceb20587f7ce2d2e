package dctcp

import (
	"fmt"
	"math"
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/cc/enginetest"
	"github.com/sluice-rdma/sluice/units"
)

const us = units.Microsecond

var testEnv = cc.Env{LineRate: 10 * units.Gbps, BaseRTT: 40 * us, MTU: 1000}

func TestConforms(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"default":    func(*Config) {},
		"one packet": func(c *Config) { c.InitialCwnd, c.MinCwnd = 1, 1 },
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

// A mark, a loss and a timeout, as the engine answers them.
func TestEvents(t *testing.T) {
	config := DefaultConfig()
	config.InitialCwnd = 10
	e, err := New(config, testEnv)
	if err != nil {
		t.Fatal(err)
	}
	want := func(what string, got cc.Control, window units.Bytes) {
		t.Helper()
		if got != (cc.Control{Rate: testEnv.LineRate, Window: window}) || e.Control() != got {
			t.Errorf("%s: %+v, Control %+v, want %v", what, got, e.Control(), window)
		}
	}
	want("at first", e.Control(), 10_000)
	want("an acknowledgement", e.OnAck(&cc.Ack{RTT: 40 * us, Bytes: 1000, Acked: 1000, Sent: 11_000}), 11_000)
	// Half of what was seen is marked: 11000 (1 - (15/16 + 1/32)/2).
	want("a mark", e.OnAck(&cc.Ack{RTT: 40 * us, Bytes: 1000, Acked: 11_000, Sent: 22_000, ECN: true}), 5671)
	want("a CNP", e.OnCNP(us), e.Control().Window)
	before := e.Control().Window
	want("a loss in the same window", e.OnLoss(us), before)
	want("a timeout", e.OnTimeout(us), 1000)
}

func TestValidate(t *testing.T) {
	enginetest.Tags(t, Config{})
	enginetest.Accepts(t, DefaultConfig, func(c *Config) { c.G, c.InitialAlpha, c.InitialCwnd, c.MinCwnd = 1, 0, 1, 1 })
	refuses := func(want string, changes ...func(*Config)) {
		t.Helper()
		enginetest.Refuses(t, DefaultConfig, want, changes...)
	}
	nan, inf := math.NaN(), math.Inf(1)
	refuses("dctcp: g is .* choose", func(c *Config) { c.G = 0 }, func(c *Config) { c.G = 1.1 }, func(c *Config) { c.G = nan })
	refuses("dctcp: initial_alpha is .* choose", func(c *Config) { c.InitialAlpha = -1 }, func(c *Config) { c.InitialAlpha = 2 }, func(c *Config) { c.InitialAlpha = nan })
	refuses("dctcp: initial_cwnd is .* choose", func(c *Config) { c.InitialCwnd = 0.5 }, func(c *Config) { c.InitialCwnd = inf }, func(c *Config) { c.InitialCwnd = nan })
	refuses("dctcp: min_cwnd is .* choose", func(c *Config) { c.MinCwnd = 0 }, func(c *Config) { c.MinCwnd = inf }, func(c *Config) { c.MinCwnd = nan })
	if _, err := New(Config{}, testEnv); err == nil {
		t.Error("New accepted a configuration that Validate refuses")
	}
}

func ExampleNew() {
	config := DefaultConfig()
	config.InitialCwnd = 10
	e, err := New(config, cc.Env{LineRate: 10 * units.Gbps, BaseRTT: 40 * us, MTU: 1000})
	if err != nil {
		panic(err)
	}
	fmt.Println("start:", e.Control().Window)
	acked := units.Bytes(0)
	for _, mark := range []bool{false, false, true, false} {
		acked += 1000
		c := e.OnAck(&cc.Ack{RTT: 40 * us, Bytes: 1000, Packets: 1, Acked: acked, Sent: acked + e.Control().Window, ECN: mark})
		fmt.Println("marked", mark, c.Window)
	}
	// Output:
	// start: 10KB
	// marked false 11KB
	// marked false 12KB
	// marked true 6KB
	// marked false 6KB
}
