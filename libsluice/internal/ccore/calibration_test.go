package ccore

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/sluice-rdma/sluice/calibration"
	"github.com/sluice-rdma/sluice/internal/ctest"
	"github.com/sluice-rdma/sluice/units"
)

// calls of testdata/calibrate.c.
const (
	calAdd = iota
	calToHost
	calToNIC
	calStatus
	calSetBack
	calStart
)

var calibrationCalls = []string{"add", "to host", "to NIC", "status", "set back", "start"}

// C's calibration maps as Go's does, over 10^6 samples and as many questions: clocks
// that drift and step, counters that wrap and start over, brackets that make no sense.
func TestTheCalibrationIsGoBitForBit(t *testing.T) {
	n := 4_000_000
	if testing.Short() {
		n = 100_000
		t.Logf("%d calls, not 4000000: -short", n)
	}
	for _, options := range [][]string{{"-O2"}, {"-O3", "-march=native"}} {
		program := filepath.Join(t.TempDir(), "calibrate")
		ctest.Compile(t, append(options, "-Isrc", "-o", program, "testdata/calibrate.c", core(t, options...))...)
		c := converse(t, program, calibrationCalls)
		asked, mapped := 0, 0
		for round := 0; c.total < n/2; round++ {
			a, m := calibrate(t, c, round, min(n/2, 100_000))
			asked, mapped = asked+a, mapped+m
		}
		if mapped < asked/4 || mapped == asked {
			t.Errorf("of %d timestamps %d were mapped: expected some trusted and some not", asked, mapped)
		}
	}
}

// calibrate runs one device's clock for a number of calls.
func calibrate(t testing.TB, c *conversation, round, calls int) (asked, mapped int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(22, uint64(round)))
	bits := []int{41, 48, 64, 32, 63, 24}[round%6]
	hz := []float64{156.25e6, 1e9, 1e6, 312.5e6}[round%4]
	cfg := calibration.DefaultConfig(bits, hz)
	cfg.MaxInterval = []units.Time{250 * units.Millisecond, 50 * units.Millisecond}[round%2]
	cal, err := calibration.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c.call(t, calStart, int64(bits), int64(math.Float64bits(hz)), int64(cfg.MaxInterval))
	now := units.Time(rng.Int64N(1e15) - 5e14)
	ticks, drift := rng.Float64()*1e12, 1+(rng.Float64()-0.5)*1e-4
	for range calls {
		step := units.Time(rng.Int64N(int64(20 * units.Millisecond)))
		switch rng.IntN(5000) {
		case 0:
			step = units.Time(rng.Int64N(int64(3600 * units.Second)))
		case 1:
			now += units.Time(rng.Int64N(2e11) - 1e11) // the host's clock steps
		case 2:
			ticks = 0 // the device is reset
		case 3:
			drift += (rng.Float64() - 0.5) * 1e-5
		}
		now += step
		ticks += float64(float64(step)*hz*drift) / 1e12
		mask := uint64(math.MaxUint64) >> (64 - bits)
		nic := uint64(math.Mod(ticks, 1<<62)) & mask
		switch what := rng.IntN(10); {
		case what < 5:
			s := calibration.Sample{HostBefore: now - units.Time(rng.Int64N(int64(2*us))), NIC: nic, HostAfter: now + units.Time(rng.Int64N(int64(2*us)))}
			if rng.IntN(2000) == 0 {
				s.NIC = rng.Uint64()
			}
			if rng.IntN(2000) == 0 {
				s.HostBefore, s.HostAfter = s.HostAfter, s.HostBefore
			}
			if rng.IntN(20_000) == 0 {
				s.HostAfter = units.Never - 1
			}
			v := cal.Add(s)
			c.call(t, calAdd, int64(s.HostBefore), int64(s.NIC), int64(s.HostAfter), int64(v), int64(cal.NextSample()))
		case what < 8:
			at := nic + uint64(rng.Int64N(1<<20)) - 1<<19
			if rng.IntN(100) == 0 {
				at = rng.Uint64()
			}
			m, ok := cal.ToHost(at)
			asked++
			if ok {
				mapped++
			} else {
				m = calibration.Mapping{}
			}
			c.call(t, calToHost, int64(at), 0, 0, int64(m.Host), int64(m.Bound))
		case what < 9:
			host := now + units.Time(rng.Int64N(1e10)-5e9)
			at, bound, ok := cal.ToNIC(host)
			if !ok {
				at, bound = 0, 0
			}
			c.call(t, calToNIC, int64(host), 0, 0, int64(at), int64(bound))
		default:
			s := cal.Status(now)
			a := int64(s.Reason) + 16*int64(s.Generation) + int64(s.Samples)<<40
			b := int64(s.Bound) ^ int64(math.Float64bits(s.DriftPPM)) ^ int64(math.Float64bits(s.DriftBoundPPM))<<1
			c.call(t, calStatus, int64(now), 0, 0, a, b)
			if rng.IntN(1000) == 0 {
				by := units.Time(rng.Int64N(1e13))
				cal.SetBack(by)
				c.call(t, calSetBack, int64(by), 0, 0)
				now -= by
			}
		}
		if now > units.Never/4 {
			break
		}
	}
	c.flush(t)
	return asked, mapped
}
