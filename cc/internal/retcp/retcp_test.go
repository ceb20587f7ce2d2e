package retcp

import (
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/cc/enginetest"
	"github.com/sluice-rdma/sluice/units"
)

const us = units.Microsecond

var testEnv = cc.Env{LineRate: 25 * units.Gbps, BaseRTT: 24 * us, MTU: 1000}

func TestConform(t *testing.T) {
	enginetest.Conform(t, enginetest.Subject{New: func(env cc.Env) (cc.Engine, error) { return New(DefaultConfig(), env) }})
}

// flow acknowledges packets of a flow whose window is always full.
type flow struct {
	cc.Engine
	acked, sent units.Bytes
}

func newFlow(t *testing.T, c Config) *flow {
	t.Helper()
	e, err := New(c, testEnv)
	if err != nil {
		t.Fatal(err)
	}
	return &flow{Engine: e, sent: e.Control().Window}
}

func (f *flow) ack(circuit bool) units.Bytes {
	f.acked += 1000
	c := f.OnAck(&cc.Ack{RTT: 24 * us, Bytes: 1000, Packets: 1, Acked: f.acked, Sent: f.sent, Circuit: circuit})
	f.sent = max(f.sent, f.acked+c.Window/1000*1000)
	return c.Window
}

func TestWindowJumps(t *testing.T) {
	c := DefaultConfig()
	c.InitialCwnd, c.JumpUp, c.JumpDown = 40, 4, 2
	f := newFlow(t, c)
	f.ack(false)
	f.OnLoss(0) // 41 packets: from now on it grows by a packet a round trip
	if got := f.Control().Window; got != 20_500 {
		t.Fatalf("after a loss the window is %v", got)
	}
	for range 45 { // the window of the loss is over
		f.ack(false)
	}
	before := f.Control().Window
	if got := f.ack(true); got < 4*before || got > 4*before+4000 {
		t.Errorf("a circuit took a window of %v to %v", before, got)
	}
	high := f.Control().Window
	for range 20 {
		f.ack(true)
	}
	if got := f.Control().Window; got < high || got > high+2000 {
		t.Errorf("while it is there, a window of %v went to %v", high, got)
	}
	high = f.Control().Window
	if got := f.ack(false); got < high/2 || got > high/2+1000 {
		t.Errorf("without the circuit, a window of %v went to %v", high, got)
	}
	if low := f.Control().Window; f.ack(false) > low+1000 {
		t.Errorf("it jumped again, from %v to %v", low, f.Control().Window)
	}
}

// RFC 5681: slow start doubles the window each round trip, and begins again after a
// timeout.
func TestTCP(t *testing.T) {
	f := newFlow(t, DefaultConfig())
	for want := units.Bytes(4000); want < 100_000; want *= 2 {
		if got := f.Control().Window; got != want {
			t.Fatalf("the window is %v, want %v", got, want)
		}
		for range want / 1000 {
			f.ack(false)
		}
	}
	if got := f.OnTimeout(0).Window; got != 1000 {
		t.Errorf("after a timeout the window is %v", got)
	}
	if got := f.OnCNP(0); got != f.Control() {
		t.Errorf("a notification changed the window to %+v", got)
	}
}

// An application-limited flow does not jump up, but jumps down.
func TestApplicationLimited(t *testing.T) {
	f := newFlow(t, DefaultConfig())
	before := f.Control().Window
	if got := f.OnAck(&cc.Ack{RTT: us, Circuit: true, AppLimited: true}).Window; got != before {
		t.Errorf("the window went from %v to %v", before, got)
	}
	if got := f.OnAck(&cc.Ack{RTT: us, Circuit: true}).Window; got != 2*before {
		t.Errorf("then it went to %v", got)
	}
	if got := f.OnAck(&cc.Ack{RTT: us, AppLimited: true}).Window; got != before {
		t.Errorf("without a circuit it went to %v", got)
	}
}

func TestValidate(t *testing.T) {
	enginetest.Tags(t, Config{})
	enginetest.Accepts(t, DefaultConfig, func(c *Config) { c.JumpUp, c.JumpDown = 1, 1 }, func(c *Config) { c.InitialCwnd = 10 })
	enginetest.Refuses(t, DefaultConfig, "retcp: jump_up is .* choose", func(c *Config) { c.JumpUp = 0 }, func(c *Config) { c.JumpUp = 1001 })
	enginetest.Refuses(t, DefaultConfig, "retcp: jump_down is .* choose", func(c *Config) { c.JumpDown = 0.5 })
	enginetest.Refuses(t, DefaultConfig, "retcp: min_cwnd is .* choose", func(c *Config) { c.MinCwnd = 0 })
	enginetest.Refuses(t, DefaultConfig, "retcp: initial_cwnd is .* choose", func(c *Config) { c.InitialCwnd = 0.5 })
	if _, err := New(Config{}, testEnv); err == nil {
		t.Error("New accepted a configuration that Validate refuses")
	}
}
