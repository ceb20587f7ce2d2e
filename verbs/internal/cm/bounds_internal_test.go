package cm

import (
	"bytes"
	"testing"

	"github.com/sluice-rdma/sluice/units"
)

// The ACK timeout is twice a packet's lifetime and the other device's delay (IBA 12.7.34), as a
// power of two: the larger of the two, or twice that where the other is at least half of it.
func TestAckTimeout(t *testing.T) {
	for delay := range uint8(32) {
		for lifetime := range uint8(32) {
			twice, d := uint64(2)<<lifetime, uint64(1)<<delay
			larger, smaller := max(twice, d), min(twice, d)
			want := uint8(0)
			for uint64(1)<<want < larger {
				want++
			}
			if smaller >= larger/2 {
				want++
			}
			if got := ackTimeout(delay, lifetime); got != min(want, 31) {
				t.Errorf("delay %d, lifetime %d: %d, want %d", delay, lifetime, got, min(want, 31))
			}
		}
	}
}

// Waits last the other side's time plus the way there and back, from 10 ms to 69 s.
func TestWait(t *testing.T) {
	const unit = 4096 * units.Nanosecond
	for _, c := range []struct {
		timeout, lifetime uint8
		want              units.Time
	}{
		{0, 0, 10 * units.Millisecond}, {11, 0, 10 * units.Millisecond}, {12, 0, unit<<12 + 2*unit}, {12, 12, 3 * unit << 12},
		{20, 18, unit<<20 + 2*unit<<18}, {24, 0, unit<<24 + 2*unit}, {31, 31, 69 * units.Second}, {0, 31, 69 * units.Second},
	} {
		if got, want := wait(c.timeout, c.lifetime), min(max(c.want, minWait), maxWait); got != want {
			t.Errorf("timeout %d, lifetime %d: %v, want %v", c.timeout, c.lifetime, got, want)
		}
	}
}

// Each field of a configuration has its bounds.
func TestConfigBounds(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		ok     bool
	}{
		"as it is": {func(*Config) {}, true},
		"the largest": {func(c *Config) {
			c.AckDelay, c.PacketLifetime, c.RemoteTimeout, c.LocalTimeout, c.ServiceTimeout, c.MaxRetries = 31, 31, 31, 31, 31, 15
		}, true},
		"the smallest":  {func(c *Config) { *c = Config{Rand: c.Rand, MTU: 256, MaxConnections: 1} }, true},
		"delay":         {func(c *Config) { c.AckDelay = 32 }, false},
		"lifetime":      {func(c *Config) { c.PacketLifetime = 32 }, false},
		"remote":        {func(c *Config) { c.RemoteTimeout = 32 }, false},
		"local":         {func(c *Config) { c.LocalTimeout = 32 }, false},
		"service":       {func(c *Config) { c.ServiceTimeout = 32 }, false},
		"retries":       {func(c *Config) { c.MaxRetries = 16 }, false},
		"no connection": {func(c *Config) { c.MaxConnections = 0 }, false},
	} {
		cfg := DefaultConfig()
		cfg.Rand = bytes.NewReader(make([]byte, 64))
		c.change(&cfg)
		if _, err := New(cfg); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
