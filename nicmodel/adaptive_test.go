package nicmodel

import (
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel/internal/config"
	"github.com/sluice-rdma/sluice/nicmodel/internal/memory"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/sim/fault"
	"github.com/sluice-rdma/sluice/units"
)

// blackout is a wire that loses all until a time.
type blackout struct{ until units.Time }

func (w blackout) Carry(now units.Time, _, _ int) fault.Fate { return fault.Fate{Drop: now < w.until} }

// repairAfter writes once over a wire that loses all for a time, and returns when the write is complete and what
// the transport counts.
func repairAfter(t *testing.T, cfg config.Config, dark units.Time, send rc.SendConfig) (units.Time, rc.Counters) {
	t.Helper()
	b := newBed(t, 2, 100*units.Gbps, cfg, nil)
	for _, n := range b.nics {
		n.Impair(blackout{dark})
	}
	x, y := b.connect(0, 1, [2]Congestion{}, send, 1024)
	from, to := x.region(t, pattern(4096, 1)), y.region(t, make([]byte, 4096))
	b.post(x, WR{
		Request: rc.Request{Op: ib.WRRDMAWrite, Signaled: true, Length: 4096, RemoteAddr: to.Addr, RKey: to.Key},
		SGL:     []memory.SGE{{Addr: from.Addr, Length: 4096, Key: from.Key}},
	})
	const step = 10 * units.Microsecond
	for at := step; at < 10*units.Second; at += step {
		b.e.RunUntil(at)
		if all := b.poll(x); len(all) > 0 {
			if all[0].Status != ib.WCSuccess {
				t.Fatalf("the write ended with %v", all[0].Status)
			}
			return at, x.nic.Counters(x.qpn)
		}
	}
	t.Fatal("the write is not complete after 10 s")
	return 0, rc.Counters{}
}

// A card of a generation that has adaptive retransmission sends again long before the connection's timer. Scenarios
// can switch it off, and rto_high takes its place.
func TestAdaptiveRetransmissionOfPresets(t *testing.T) {
	const own = 4096 * units.Nanosecond << 14
	off := func(c *config.Config) { c.Transport.AdpRetrans.Enabled = false }
	for _, c := range []struct {
		name, preset string
		change       func(*config.Config)
		dark         units.Time
		want         units.Time // of the repetition that arrives
		adp, regular uint64
	}{
		// 4 us << 9 twice, then doubled.
		{"ConnectX-5", "cx5", nil, 5 * units.Millisecond, 4 * units.Microsecond * (512 + 512 + 1024), 3, 0},
		{"ConnectX-6 Dx", "cx6dx", nil, 5 * units.Millisecond, 4 * units.Microsecond * (1024 + 1024), 2, 0},
		{"ConnectX-3", "cx3", nil, 5 * units.Millisecond, own, 0, 1},
		{"switched off", "cx5", off, 5 * units.Millisecond, own, 0, 1},
		{"rto_high", "cx5", func(c *config.Config) { c.Transport.RTOHigh = units.Millisecond }, 5 * units.Millisecond, 5 * units.Millisecond, 0, 5},
		{
			"a profile", "cx5", func(c *config.Config) {
				c.Transport.AdpRetrans.TimeoutInitLowBound = 4
				c.Transport.AdpRetrans.TimeoutRange = []config.AdpRange{{RangeLowBound: 4, RangeSize: 1, TimeoutRetryNum: 2}, {RangeLowBound: 11}}
			},
			units.Millisecond, 4 * units.Microsecond * (16 + 16 + 16 + 32 + 32 + 2048), 6, 0,
		},
	} {
		cfg := preset(t, c.preset)
		if c.change != nil {
			c.change(&cfg)
		}
		if err := cfg.Validate(); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		at, ctr := repairAfter(t, cfg, c.dark, rc.SendConfig{Timeout: 14, RetryCount: 7})
		if late := at - c.want; late < 0 || late > 50*units.Microsecond {
			t.Errorf("%s: complete after %v, expected %v and what the write takes", c.name, at, c.want)
		}
		if ctr.RoceAdpRetrans != c.adp || ctr.LocalAckTimeoutErr != c.regular {
			t.Errorf("%s: %d timeouts of adaptive retransmission and %d others, expected %d and %d", c.name, ctr.RoceAdpRetrans, ctr.LocalAckTimeoutErr, c.adp, c.regular)
		}
	}
}

// Connections of a ConnectX-6 draw their first timeout from four.
func TestFirstTimeoutsDiffer(t *testing.T) {
	cfg := preset(t, "cx6")
	seen := map[uint8]int{}
	for number := range uint32(40) {
		var s rc.SendConfig
		cfg.Transport.SetSend(&s, number)
		seen[s.AdpInitial]++
	}
	for n := uint8(11); n < 15; n++ {
		if seen[n] != 10 {
			t.Errorf("of 40 connections %d begin with 4 us << %d, expected a quarter", seen[n], n)
		}
	}
}

func TestAdaptiveRetransmissionIsChecked(t *testing.T) {
	for want, change := range map[string]func(*config.AdpRetrans){
		"":                  func(*config.AdpRetrans) {},
		"time_base":         func(c *config.AdpRetrans) { c.TimeBase = 0 },
		"size":              func(c *config.AdpRetrans) { c.TimeoutInitLowBound, c.TimeoutInitRangeSize = 30, 3 },
		"start_range_index": func(c *config.AdpRetrans) { c.StartRangeIndex = 1 },
		"range_size":        func(c *config.AdpRetrans) { c.TimeoutRange = []config.AdpRange{{RangeLowBound: 9, RangeSize: 23}} },
		"range_low_bound":   func(c *config.AdpRetrans) { c.TimeoutRange = []config.AdpRange{{RangeLowBound: 9}, {RangeLowBound: 9}} },
		"prev_range_index":  func(c *config.AdpRetrans) { c.TimeoutRange = []config.AdpRange{{RangeLowBound: 9, PrevRangeIndex: 1}} },
		"dec_mode": func(c *config.AdpRetrans) {
			c.TimeoutRange = []config.AdpRange{{RangeLowBound: 9, DecMode: "to_nothing"}}
		},
	} {
		cfg := preset(t, "cx5")
		change(&cfg.Transport.AdpRetrans)
		err := cfg.Validate()
		if (err == nil) != (want == "") {
			t.Errorf("%s: %v", want, err)
		}
	}
}
