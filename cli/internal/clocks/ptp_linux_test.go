package clocks

import (
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/units"
)

// clockTime is a time in nanoseconds as the kernel hands it out.
func clockTime(ns int64) unix.PtpClockTime {
	return unix.PtpClockTime{Sec: ns / 1e9, Nsec: uint32(ns % 1e9)}
}

// kernelOf is the kernel of a world that knows the requests given. beforeRead is
// called before each.
func kernelOf(w *world, requests []uint, beforeRead func()) system {
	ns := func() int64 { w.pass(); return int64(w.now / units.Nanosecond) }
	real := func() unix.PtpClockTime { return clockTime(ns() + w.wall) }
	ptp := func() unix.PtpClockTime { w.pass(); return clockTime(w.ptp()) }
	return system{
		phc:   func(string) (int32, error) { return 3, nil },
		open:  func(string) (int, error) { return 7, nil },
		close: func(int) error { return nil },
		gettime: func(clock int32) (int64, error) {
			if clock == unix.CLOCK_REALTIME {
				return ns() + w.wall, nil
			}
			return ns() + w.raw, nil
		},
		ioctl: func(fd int, request uint, arg unsafe.Pointer) error {
			known := false
			for _, r := range requests {
				known = known || r == request
			}
			if !known || fd != 7 {
				return unix.EOPNOTSUPP
			}
			beforeRead()
			switch request {
			case unix.PTP_SYS_OFFSET_PRECISE:
				p := (*unix.PtpSysOffsetPrecise)(arg)
				w.pass()
				t := int64(w.now / units.Nanosecond)
				p.Device, p.Monoraw, p.Realtime = clockTime(w.ptp()), clockTime(t+w.raw), clockTime(t+w.wall)
			case unix.PTP_SYS_OFFSET_EXTENDED:
				p := (*unix.PtpSysOffsetExtended)(arg)
				for i := range p.Samples {
					p.Ts[i] = [3]unix.PtpClockTime{real(), ptp(), real()}
				}
			case unix.PTP_SYS_OFFSET:
				p := (*unix.PtpSysOffset)(arg)
				p.Ts[0] = real()
				for i := range p.Samples {
					p.Ts[2*i+1], p.Ts[2*i+2] = ptp(), real()
				}
			}
			w.pass()
			return nil
		},
	}
}

// The PTP clock showed what the sample says at some instant of its bracket,
// whichever way it is read, and whether or not somebody sets the wall clock.
func TestPTPSample(t *testing.T) {
	for _, c := range []struct {
		method   string
		requests []uint
	}{
		{"PTP_SYS_OFFSET_PRECISE", []uint{unix.PTP_SYS_OFFSET_PRECISE, unix.PTP_SYS_OFFSET_EXTENDED, unix.PTP_SYS_OFFSET}},
		{"PTP_SYS_OFFSET_EXTENDED", []uint{unix.PTP_SYS_OFFSET_EXTENDED, unix.PTP_SYS_OFFSET}},
		{"PTP_SYS_OFFSET", []uint{unix.PTP_SYS_OFFSET}},
	} {
		t.Run(c.method, rapid.MakeCheck(func(t *rapid.T) {
			w := &world{
				rng: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)), now: units.Second,
				wall: rapid.Int64Range(1e10, 2e18).Draw(t, "wall"), raw: rapid.Int64Range(-5e8, 1e15).Draw(t, "raw"),
				ptpPPM: rapid.Float64Range(-200, 200).Draw(t, "ppm"), ptpEpoch: rapid.Int64Range(0, 2e18).Draw(t, "epoch"),
			}
			steps := rapid.IntRange(0, 3).Draw(t, "steps")
			opened := false
			sys := kernelOf(w, c.requests, func() {
				if opened && steps > 0 && w.rng.IntN(2) == 0 {
					steps--
					w.wall += w.rng.Int64N(2e9) - 1e9
				}
			})
			src, err := sys.openPTP("eth7", func() units.Time { w.pass(); return w.now })
			if err != nil {
				t.Fatal(err)
			}
			opened = true
			if src.Method != c.method || src.Name != "/dev/ptp3 of eth7" {
				t.Fatalf("%q by %q", src.Name, src.Method)
			}
			for range 20 {
				began := w.now
				x, err := src.Sample()
				if err != nil {
					t.Fatal(err)
				}
				if x.HostAfter < x.HostBefore || x.HostBefore < began-units.Microsecond || x.HostAfter > w.now+units.Microsecond {
					t.Fatalf("read from %v to %v: bracket %v to %v", began, w.now, x.HostBefore, x.HostAfter)
				}
				// When the clock showed it, by its definition.
				at := units.Time(float64(int64(x.NIC)-w.ptpEpoch) * 1e3 / (1 + w.ptpPPM*1e-6))
				const rounding = 2 * units.Nanosecond
				if at < x.HostBefore-rounding || at > x.HostAfter+rounding {
					t.Fatalf("shown at %v, bracket %v to %v", at, x.HostBefore, x.HostAfter)
				}
			}
		}))
	}
}

func TestPTPIsReset(t *testing.T) {
	w := &world{rng: rand.New(rand.NewPCG(1, 2)), wall: 1e18}
	// A wall clock that is set before every reading can't be bracketed.
	sys := kernelOf(w, []uint{unix.PTP_SYS_OFFSET}, func() { w.wall += 1e9 })
	src, err := sys.openPTP("eth7", func() units.Time { w.pass(); return w.now })
	if err != nil {
		t.Fatal(err)
	}
	if x, err := src.Sample(); err == nil || !strings.Contains(err.Error(), "wall clock") {
		t.Errorf("%+v, %v; want the wall clock blamed", x, err)
	}
}

func TestPTPNotThere(t *testing.T) {
	w := &world{rng: rand.New(rand.NewPCG(1, 2))}
	all := []uint{unix.PTP_SYS_OFFSET_EXTENDED}
	for _, c := range []struct {
		name  string
		spoil func(*system)
		want  []string
		is    error
	}{
		{"no clock", func(s *system) { s.phc = func(string) (int32, error) { return -1, nil } }, []string{"eth7 has no PTP"}, nil},
		{"no ethtool", func(s *system) { s.phc = func(string) (int32, error) { return 0, unix.EOPNOTSUPP } }, []string{"eth7 has no PTP"}, nil},
		{"no interface", func(s *system) { s.phc = func(string) (int32, error) { return 0, unix.ENODEV } }, []string{"asking eth7"}, unix.ENODEV},
		{"not allowed", func(s *system) { s.open = func(string) (int, error) { return -1, unix.EACCES } }, []string{"/dev/ptp3", "as root"}, os.ErrPermission},
		{"gone", func(s *system) { s.open = func(string) (int, error) { return -1, unix.ENODEV } }, []string{"/dev/ptp3"}, unix.ENODEV},
		{"no way to read", func(s *system) {
			s.ioctl = func(int, uint, unsafe.Pointer) error { return unix.ENOTTY }
		}, []string{"/dev/ptp3 of eth7 can't be read"}, unix.ENOTTY},
		{"broken", func(s *system) {
			s.ioctl = func(_ int, r uint, _ unsafe.Pointer) error {
				if r == unix.PTP_SYS_OFFSET {
					t.Error("went on after an error that is none of the method's")
				}
				return unix.EIO
			}
		}, []string{"can't be read"}, unix.EIO},
	} {
		closed := 0
		sys := kernelOf(w, all, func() {})
		sys.close = func(int) error { closed++; return nil }
		c.spoil(&sys)
		_, err := sys.openPTP("eth7", func() units.Time { return 0 })
		if err == nil {
			t.Errorf("%s: opened", c.name)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v; want %q", c.name, err, want)
			}
		}
		if c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: %v is not %v", c.name, err, c.is)
		}
		if opened := strings.Contains(err.Error(), "can't be read"); opened != (closed == 1) {
			t.Errorf("%s: closed %d times", c.name, closed)
		}
	}
}

func TestTightestTakesNoNegativeBracket(t *testing.T) {
	got := tightest(func(i int) reading {
		if i == 4 {
			return reading{100, 5, 90} // the wall clock was set back in between
		}
		return reading{0, int64(i), int64(100 - i)}
	})
	if want := (reading{0, 8, 92}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestKernelAnswers(t *testing.T) {
	// Whatever there is on this machine, the loopback interface has no PTP clock.
	if _, err := kernel.openPTP("lo", func() units.Time { return 0 }); err == nil || !strings.Contains(err.Error(), "lo") {
		t.Errorf("lo: %v", err)
	}
	if _, err := kernel.openPTP("no-such-netdev-x", func() units.Time { return 0 }); err == nil {
		t.Error("an interface that does not exist was opened")
	}
	a, err := kernel.gettime(unix.CLOCK_MONOTONIC_RAW)
	b, err2 := kernel.gettime(unix.CLOCK_MONOTONIC_RAW)
	if err != nil || err2 != nil || b < a {
		t.Errorf("%d, then %d: %v, %v", a, b, err, err2)
	}
}
