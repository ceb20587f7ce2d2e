package paced

import (
	"reflect"
	"testing"

	"github.com/sluice-rdma/sluice/units"
)

// Each field of a configuration has its bounds: what lies at them is taken, and what is one
// beyond refused.
func TestConfigBounds(t *testing.T) {
	type set func(*Config)
	for name, c := range map[string]struct{ good, bad []set }{
		"Segment": {
			[]set{func(c *Config) { c.Segment = 4 * units.KiB }, func(c *Config) { c.Segment = 64 * units.KiB }},
			[]set{func(c *Config) { c.Segment = 4*units.KiB - 1 }, func(c *Config) { c.Segment = 64*units.KiB + 1 }},
		},
		"MaxOutstanding": {
			[]set{func(c *Config) { c.MaxOutstanding = c.Segment }, func(c *Config) { c.MaxOutstanding = units.GiB }},
			[]set{func(c *Config) { c.MaxOutstanding = c.Segment - 1 }, func(c *Config) { c.MaxOutstanding = units.GiB + 1 }},
		},
		"LineRate": {[]set{func(c *Config) { c.LineRate = 1 }}, []set{func(c *Config) { c.LineRate = -1 }}},
		"BaseRTT": {
			[]set{func(c *Config) { c.BaseRTT = 1 }, func(c *Config) { c.BaseRTT = units.Second }},
			[]set{func(c *Config) { c.BaseRTT = 0 }, func(c *Config) { c.BaseRTT = units.Second + 1 }},
		},
		"NICRate": {
			[]set{func(c *Config) { c.NICRate = 1 }, func(c *Config) { c.LineRate, c.NICRate = 2, 1 }},
			[]set{func(c *Config) { c.NICRate = -1 }, func(c *Config) { c.LineRate, c.NICRate = 2, 2 }},
		},
		"CalibrateEvery": {
			[]set{func(c *Config) { c.CalibrateEvery = 0 }, func(c *Config) { c.CalibrateEvery = 60 * units.Second }},
			[]set{func(c *Config) { c.CalibrateEvery = -1 }, func(c *Config) { c.CalibrateEvery = 60*units.Second + 1 }},
		},
		"Clock": {[]set{func(c *Config) { c.Clock = SoftwareClock }}, []set{func(c *Config) { c.Clock = SoftwareClock + 1 }}},
		"CatchUp": {
			[]set{func(c *Config) { c.CatchUp = 0 }, func(c *Config) { c.CatchUp = units.Second }},
			[]set{func(c *Config) { c.CatchUp = -1 }, func(c *Config) { c.CatchUp = units.Second + 1 }},
		},
		"Batch": {
			[]set{func(c *Config) { c.Batch = 1 }, func(c *Config) { c.Batch = 256 }},
			[]set{func(c *Config) { c.Batch = 0 }, func(c *Config) { c.Batch = 257 }},
		},
	} {
		for i, all := range [][]set{c.bad, c.good} {
			for k, set := range all {
				cfg := DefaultConfig()
				set(&cfg)
				if err := cfg.Validate(); (err == nil) != (i == 1) {
					t.Errorf("%s, %d: %v", name, k, err)
				}
			}
		}
	}
}

// What is held is added, subtracted and summed by cause.
func TestHeldBySums(t *testing.T) {
	var a, b Held
	x, y := reflect.ValueOf(&a).Elem(), reflect.ValueOf(&b).Elem()
	sum := units.Time(0)
	for i := range x.NumField() {
		x.Field(i).Set(reflect.ValueOf((units.Time(1) << (2 * i)).Long()))
		y.Field(i).Set(reflect.ValueOf((units.Time(1000) << i).Long()))
		sum += 1 << (2 * i)
	}
	if got := a.Active(); got != sum.Long() {
		t.Errorf("%v altogether, want %v", got, sum)
	}
	both := a
	both.Add(b)
	for i := range x.NumField() {
		if got, want := reflect.ValueOf(both).Field(i).Interface(), (units.Time(1)<<(2*i) + 1000<<i).Long(); got != want {
			t.Errorf("%s: %v, want %v", x.Type().Field(i).Name, got, want)
		}
	}
	if got := both.Since(a); got != b {
		t.Errorf("since then %+v, want %+v", got, b)
	}
}

// The statistics of a Shim are the sums of its shards'.
func TestStatsMerge(t *testing.T) {
	var a, b Stats
	set := func(s *Stats, by uint64) {
		v := reflect.ValueOf(s).Elem()
		for i := range v.NumField() {
			switch f := v.Field(i); f.Kind() {
			case reflect.Uint64:
				f.SetUint(by * uint64(i+1))
			case reflect.Int64:
				f.SetInt(int64(by) * int64(i+1))
			}
		}
		for i := range s.Cuts {
			s.Cuts[i] = by * uint64(100+i)
		}
		s.Held = Held{Rate: units.Time(by).Long(), Sent: units.Time(2 * by).Long()}
	}
	set(&a, 1)
	set(&b, 10)
	a.merge(&b)
	var want Stats
	set(&want, 11)
	if a != want {
		t.Errorf("%+v\nwant %+v", a, want)
	}
	if n := want.Cuts.Total(); n != 11*(5*100+10) {
		t.Errorf("%d cuts", n)
	}
}

// One kick is on its way at a time, and is one segment.
func TestOneKickAtATime(t *testing.T) {
	g := &sendCQ{}
	for range 2 {
		if g.kick() || !g.kick() || g.inFlight != 1 || !g.kicked {
			t.Errorf("%d kicks are on their way", g.inFlight)
		}
		g.unkick()
		if g.inFlight != 0 || g.kicked {
			t.Errorf("%d kicks are on their way after one was taken back", g.inFlight)
		}
	}
}

// Each setting out of its range is named, with what it takes.
func TestConfigErrors(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"segment is 1KiB: choose 4KiB to 64KiB, such as 16KiB":                             func(c *Config) { c.Segment = units.KiB },
		"max_outstanding is 4KiB: choose at least segment, 16KiB":                          func(c *Config) { c.MaxOutstanding = 4 * units.KiB },
		"max_outstanding is 2GiB: choose a positive size up to 1GiB, or 0 for the default": func(c *Config) { c.MaxOutstanding = 2 * units.GiB },
		"line_rate is -1bps: choose a positive rate, or 0 for the port's":                  func(c *Config) { c.LineRate = -1 },
		"nic_rate is 2bps: choose less than line_rate, 2bps":                               func(c *Config) { c.LineRate, c.NICRate = 2, 2 },
		"Clock is RTTClock(3): choose calibrated, nic or software":                         func(c *Config) { c.Clock = SoftwareClock + 1 },
		"batch is 257: choose 1 to 256 segments":                                           func(c *Config) { c.Batch = 257 },
	} {
		c := DefaultConfig()
		change(&c)
		if err := c.Validate(); err == nil || err.Error() != "paced: "+want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
