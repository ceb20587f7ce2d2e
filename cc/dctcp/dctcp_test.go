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
		"artefact":   func(c *Config) { *c = ArtefactConfig() },
	} {
		t.Run(name, func(t *testing.T) {
			c := DefaultConfig()
			change(&c)
			enginetest.Conform(t, enginetest.Subject{
				New: func(env cc.Env) (cc.Engine, error) { return New(c, env) },
				MinRate: func(env cc.Env) units.Rate {
					if c.RateStep > 0 {
						return min(c.MinRate, env.LineRate)
					}
					return env.LineRate
				},
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
	refuses("dctcp: rate_step is .* choose", func(c *Config) { c.RateStep = -1 })
	refuses("dctcp: min_rate is .* choose", func(c *Config) { c.MinRate = 0 })
	refuses("dctcp: g is .* choose", func(c *Config) { c.G = 0 }, func(c *Config) { c.G = 1.1 }, func(c *Config) { c.G = nan })
	refuses("dctcp: initial_alpha is .* choose", func(c *Config) { c.InitialAlpha = -1 }, func(c *Config) { c.InitialAlpha = 2 }, func(c *Config) { c.InitialAlpha = nan })
	refuses("dctcp: initial_cwnd is .* choose", func(c *Config) { c.InitialCwnd = 0.5 }, func(c *Config) { c.InitialCwnd = inf }, func(c *Config) { c.InitialCwnd = nan })
	refuses("dctcp: min_cwnd is .* choose", func(c *Config) { c.MinCwnd = 0 }, func(c *Config) { c.MinCwnd = inf }, func(c *Config) { c.MinCwnd = nan })
	if _, err := New(Config{}, testEnv); err == nil {
		t.Error("New accepted a configuration that Validate refuses")
	}
}

// A rate in place of the window, as HPCC's and PowerTCP's simulations have it: the line's at
// first; a mark takes half of alpha, once a round trip; a round trip without a cut adds a step;
// alpha moves once a round trip by the share of packets that were marked.
func TestRate(t *testing.T) {
	c := ArtefactConfig()
	c.G = 0.5
	e, err := New(c, testEnv)
	if err != nil {
		t.Fatal(err)
	}
	acked, sent := units.Bytes(0), units.Bytes(10_000)
	ack := func(ecn bool, want units.Rate) {
		t.Helper()
		acked += 1000
		got := e.OnAck(&cc.Ack{RTT: 40 * us, Bytes: 1000, Packets: 1, Acked: acked, Sent: sent, ECN: ecn})
		sent += 1000
		// What the rate fills in 40 us; the last packet may begin below that.
		if window := want.BytesIn(40*us) + 999; got != (cc.Control{Rate: want, Window: window}) {
			t.Fatalf("at %v: %+v, want %v and a window of %v", acked, got, want, window)
		}
	}
	const gbps = units.Gbps
	ack(true, 5*gbps) // the first mark finds an alpha of 1
	for range 9 {
		ack(true, 5*gbps)
	}
	for range 10 {
		ack(false, 6*gbps) // sent after the cut, in a round trip without one
	}
	// Ten packets were marked in the first round trip, of eleven that it counts. Of ten in
	// the second that which ends it is marked; it cuts, and nothing rises then.
	alpha := (1+10.0/11)/4 + 0.5/10
	ack(true, units.Rate(6e9*(1-alpha/2)))
	ack(true, units.Rate(6e9*(1-alpha/2)))
	if e.OnLoss(us) != e.Control() || e.OnTimeout(us) != e.Control() {
		t.Errorf("a loss or a timeout changed the rate to %v", e.Control().Rate)
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
