package completions

import (
	"fmt"
	"testing"

	"github.com/sluice-rdma/sluice/calibration"
	"github.com/sluice-rdma/sluice/units"
)

// TIMELY section 3.1: "in a 10 Gbps network, serialization of 64 KB takes 51 us".
// (52.4 for 64 KiB.)
func ExampleMeasure() {
	s := Segment{Bytes: 64 * units.KB, PostedAt: 1000 * units.Microsecond}
	m := Measure(&s, 1100*units.Microsecond, 10*units.Gbps)
	fmt.Println(m.RTT, m.NetRTT)
	// Output: 100us 48.8us
}

func TestMeasure(t *testing.T) {
	const us = units.Microsecond
	for _, c := range []struct {
		n         units.Bytes
		took, net units.Time
		rate      units.Rate
		clamped   bool
	}{
		{0, 5 * us, 5 * us, units.Gbps, false},
		{1250, 15 * us, 5 * us, units.Gbps, false},
		{1250, 10 * us, 0, units.Gbps, false},
		{1250, 9 * us, 0, units.Gbps, true},
		{0, -us, 0, units.Gbps, true},
		{0, 0, 0, units.Gbps, true},
	} {
		s := Segment{Bytes: c.n, PostedAt: 100 * us}
		m := Measure(&s, 100*us+c.took, c.rate)
		if m.NetRTT != c.net || m.RTT != max(c.took, 1) || m.Clamped != c.clamped || m.Bytes != c.n || m.PostedAt != 100*us || m.CompletedAt != 100*us+c.took {
			t.Errorf("%v in %v: %+v", c.n, c.took, m)
		}
	}
}

func TestClock(t *testing.T) {
	const us = units.Microsecond
	var none *Clock
	if at, ok := none.HostTime(5, 7*us); at != 7*us || ok || none.Due() != units.Never {
		t.Error("a clock that is not there tells the time")
	}
	if r := none.Status(0).Reason; r == calibration.Trusted {
		t.Error("it is even trusted")
	}
	if _, err := NewClock(3, 1e9, units.Second); err == nil {
		t.Error("a counter of 3 bits")
	}
	c, err := NewClock(48, 1e9, 100*units.Microsecond)
	if err != nil {
		t.Fatal(err)
	}
	if at, ok := c.HostTime(5, 7*us); at != 7*us || ok {
		t.Error("a clock that was never read tells the time")
	}
	for i := range 20 {
		now := units.Time(i) * 100 * us
		if due := c.Due(); i > 0 && (due > now+us || due < now-100*us) {
			t.Errorf("at %v, the next reading is due at %v", now, due)
		}
		c.Add(now, uint64(now/units.Nanosecond)+12345, now+10*units.Nanosecond)
	}
	// 1.85 ms by the host is 1,850,000 ticks and the offset.
	at, ok := c.HostTime(1_850_000+12345, 3000*us)
	if off := at - 1850*us; !ok || off < -20*units.Nanosecond || off > 20*units.Nanosecond {
		t.Errorf("%v, %v", at, ok)
	}
	if at, ok := c.HostTime(1_850_000+12345, 1849*us); at != 1849*us || !ok {
		t.Errorf("a completion was polled at 1849us and came about at %v", at)
	}
}
