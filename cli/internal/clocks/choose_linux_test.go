package clocks

import (
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

func TestChoose(t *testing.T) {
	newDevice := func() *device {
		return &device{
			w: &world{
				rng: rand.New(rand.NewPCG(3, 4)), now: 5 * units.Second, wall: 1e18,
				nicHz: 156.25e6, nicBits: 48, nicStart: 12345, ptpEpoch: 1.7e18,
			},
			attr: verbs.DeviceAttr{CoreClockHz: 156.25e6, ClockBits: 48}, netdev: "eth7",
		}
	}
	with := func(d *device, f func(*device)) *device { f(d); return d }
	hasPTP := func(w *world) system { return kernelOf(w, []uint{unix.PTP_SYS_OFFSET_EXTENDED}, func() {}) }
	noPTP := func(w *world) system {
		s := hasPTP(w)
		s.phc = func(string) (int32, error) { return -1, nil }
		return s
	}
	wire := func(dev verbs.Device, netdev string) (verbs.Device, error) {
		if netdev != "eth7" {
			t.Errorf("to be stamped at %q", netdev)
		}
		d := newDevice()
		d.attr = verbs.DeviceAttr{CoreClockHz: 1e9, ClockBits: 64}
		return atNetdev{readable{d}}, nil
	}
	for _, c := range []struct {
		name    string
		dev     func() verbs.Device
		sys     func(*world) system
		options Options
		kind    Kind
		ptp     bool
		passed  []string
		err     string
	}{
		{name: "NIC and PTP", dev: func() verbs.Device { return readable{newDevice()} }, sys: hasPTP, kind: NIC, ptp: true},
		{name: "NIC alone", dev: func() verbs.Device { return readable{newDevice()} }, sys: noPTP, kind: NIC},
		{
			name: "wall clock stamps, counter can't be read",
			dev: func() verbs.Device {
				return readable{with(newDevice(), func(d *device) { d.fails, d.attr.CoreClockHz = errTest, 1e9 })}
			},
			sys: hasPTP, kind: PTP, passed: []string{"nic: reading it fails: test: refused"},
		},
		{
			name: "raw stamps, counter can't be read",
			dev:  func() verbs.Device { return readable{with(newDevice(), func(d *device) { d.fails = errTest })} },
			sys:  hasPTP, kind: Host,
			passed: []string{"nic: reading it fails", "ptp: the device's completions have no timestamps in nanoseconds", "wire: stamping packets was not offered"},
		},
		{
			name: "no timestamps, packets can be stamped",
			dev:  func() verbs.Device { return with(newDevice(), func(d *device) { d.attr.CoreClockHz = 0 }) },
			sys:  noPTP, options: Options{Wire: wire}, kind: Wire,
			passed: []string{"nic: the provider can't read", "ptp: the network interface eth7 has no PTP"},
		},
		{
			name: "packets can't be stamped",
			dev:  func() verbs.Device { return with(newDevice(), func(d *device) { d.attr.CoreClockHz = 0 }) },
			sys:  noPTP,
			options: Options{Wire: func(verbs.Device, string) (verbs.Device, error) {
				return nil, errTest
			}},
			kind: Host, passed: []string{"nic: the provider", "ptp: the network", "wire: test: refused"},
		},
		{
			name: "the host's clock in a NIC's clothes",
			dev: func() verbs.Device {
				return readable{with(newDevice(), func(d *device) { d.hostClock, d.attr.CoreClockHz, d.attr.ClockBits = true, 1e9, 63 })}
			},
			sys: hasPTP, kind: Host,
			passed: []string{"nic: its counter is the host's clock", "ptp: /dev/ptp3 of eth7 does not stamp", "wire: stamping"},
		},
		{
			name: "stamped already", dev: func() verbs.Device { return atNetdev{readable{newDevice()}} }, sys: noPTP, kind: Wire,
			passed: []string{"nic: the device's stamps are those of packets at eth7", "ptp: "},
		},
		{
			name: "only PTP", dev: func() verbs.Device { return readable{newDevice()} }, sys: hasPTP, options: Options{Only: PTP}, kind: PTP,
			passed: []string{"nic: only ptp was asked for"},
		},
		{
			name: "only host", dev: func() verbs.Device { return readable{newDevice()} }, sys: hasPTP, options: Options{Only: Host}, kind: Host,
			passed: []string{"nic: only host", "ptp: only host", "wire: only host"},
		},
		{
			name: "only PTP, and there is none", dev: func() verbs.Device { return readable{newDevice()} }, sys: noPTP, options: Options{Only: PTP},
			err: "clock source ptp of test:nic: the network interface eth7 has no PTP hardware clock",
		},
		{
			name: "only NIC, and there is none", dev: func() verbs.Device { return newDevice() }, sys: hasPTP, options: Options{Only: NIC},
			err: "clock source nic of test:nic: the provider can't read",
		},
		{
			name: "no netdev", dev: func() verbs.Device { return with(newDevice(), func(d *device) { d.netdev = "" }) }, sys: hasPTP, kind: Host,
			passed: []string{"nic: ", "ptp: the device has no known network interface", "wire: "},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			opened := 0
			dev := c.dev()
			sys := c.sys(worldOf(dev))
			sys.open = func(string) (int, error) { opened++; return 7, nil }
			sys.close = func(int) error { opened--; return nil }
			got, err := choose(dev, c.options, sys)
			if err != nil || c.err != "" {
				if err == nil || c.err == "" || !strings.HasPrefix(err.Error(), c.err) {
					t.Errorf("%v, want %q", err, c.err)
				}
				if opened != 0 {
					t.Error("a PTP clock stays open")
				}
				return
			}
			if got.Source.Kind != c.kind || (got.PTP != nil) != c.ptp || got.Source.Why == "" || got.Source.Name == "" || got.Source.Method == "" {
				t.Errorf("source %+v, PTP %+v; want %v, PTP %v", got.Source, got.PTP, c.kind, c.ptp)
			}
			if len(got.Passed) != len(c.passed) {
				t.Errorf("passed %v, want %q", got.Passed, c.passed)
			} else {
				for i, p := range got.Passed {
					if text := p.Kind.String() + ": " + p.Why; !strings.HasPrefix(text, c.passed[i]) {
						t.Errorf("passed %q, want %q", text, c.passed[i])
					}
				}
			}
			if _, err := got.Source.Sample(); err != nil {
				t.Error(err)
			}
			if err := got.Close(); err != nil || opened != 0 {
				t.Errorf("Close: %v; %d PTP clocks stay open", err, opened)
			}
		})
	}
}

// worldOf is the world of one of the devices here.
func worldOf(dev verbs.Device) *world {
	switch d := dev.(type) {
	case *device:
		return d.w
	case readable:
		return d.w
	case atNetdev:
		return d.w
	}
	panic("another device")
}

func TestChooseSimulated(t *testing.T) {
	d := runner{&device{w: &world{rng: rand.New(rand.NewPCG(3, 4))}, netdev: "eth7"}}
	ptp := kernelOf(d.w, []uint{unix.PTP_SYS_OFFSET}, func() {})
	c, err := choose(d, Options{}, ptp)
	if err != nil || c.Source.Kind != Host || len(c.Passed) != 3 || !strings.Contains(c.Passed[1].Why, "simulated") {
		t.Errorf("%+v, %v", c, err)
	}
	// Both clocks of a model begin at 0.
	d.attr = verbs.DeviceAttr{CoreClockHz: 1e9, ClockBits: 41}
	d.hostClock = true
	if c, err = choose(simulatedNIC{d}, Options{}, ptp); err != nil || c.Source.Kind != NIC || c.PTP != nil {
		t.Errorf("%+v, %v", c, err)
	}
}

// simulatedNIC is a runner whose counter can be read.
type simulatedNIC struct{ runner }

func (s simulatedNIC) ReadClock() (uint64, error) { return readable{s.device}.ReadClock() }

// Of a sample's readings the tightest counts, and an error of any is the sample's.
func TestCounterSample(t *testing.T) {
	d := &device{w: &world{rng: rand.New(rand.NewPCG(3, 4)), nicHz: 1e9, nicBits: 64}, attr: verbs.DeviceAttr{CoreClockHz: 1e9, ClockBits: 64}}
	src, err := counter(readable{d}, NIC)
	if err != nil {
		t.Fatal(err)
	}
	var sum units.Time
	for range 100 {
		x, err := src.Sample()
		if err != nil {
			t.Fatal(err)
		}
		if at := units.Time(x.NIC) * units.Nanosecond; at < x.HostBefore-units.Nanosecond || at > x.HostAfter {
			t.Errorf("read %v, bracket %v to %v", at, x.HostBefore, x.HostAfter)
		}
		sum += x.HostAfter - x.HostBefore
	}
	// A bracket holds three waits that average 1.02 us; the least of five is well
	// below that.
	if mean := sum / 100; mean > 2500*units.Nanosecond {
		t.Errorf("brackets of %v on average", mean)
	}
	d.fails = errTest
	if _, err := src.Sample(); err != errTest {
		t.Error(err)
	}
}
