package clocks

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sluice-rdma/sluice/calibration"
	"github.com/sluice-rdma/sluice/units"
)

// system is what PTP clocks are reached through; tests have another.
type system struct {
	phc     func(netdev string) (index int32, err error)
	open    func(path string) (fd int, err error)
	close   func(fd int) error
	ioctl   func(fd int, request uint, arg unsafe.Pointer) error
	gettime func(clock int32) (ns int64, err error)
}

var kernel = system{
	phc: func(netdev string) (int32, error) {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return -1, err
		}
		defer func() { _ = unix.Close(fd) }()
		info, err := unix.IoctlGetEthtoolTsInfo(fd, netdev)
		if err != nil {
			return -1, err
		}
		return info.Phc_index, nil
	},
	open:  func(path string) (int, error) { return unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0) },
	close: unix.Close,
	ioctl: func(fd int, request uint, arg unsafe.Pointer) error {
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), uintptr(arg)); errno != 0 {
			return errno
		}
		return nil
	},
	gettime: func(clock int32) (int64, error) {
		var t unix.Timespec
		err := unix.ClockGettime(clock, &t)
		return t.Nano(), err
	},
}

// reading is one of a PTP clock between two of a clock of the kernel's, all in
// nanoseconds.
type reading struct{ before, ptp, after int64 }

// method is a way to read a PTP clock (include/uapi/linux/ptp_clock.h).
type method struct {
	name  string
	clock int32 // that the kernel reads along with it
	read  func(sys *system, fd int) (reading, error)
}

// The ways, best first: both clocks at one instant by hardware, then the system's
// clock around the very register read, then around the driver's call.
var methods = []method{
	{"PTP_SYS_OFFSET_PRECISE", unix.CLOCK_MONOTONIC_RAW, func(sys *system, fd int) (reading, error) {
		var p unix.PtpSysOffsetPrecise
		err := sys.ioctl(fd, unix.PTP_SYS_OFFSET_PRECISE, unsafe.Pointer(&p))
		raw := nanos(p.Monoraw)
		return reading{raw, nanos(p.Device), raw}, err
	}},
	{"PTP_SYS_OFFSET_EXTENDED", unix.CLOCK_REALTIME, func(sys *system, fd int) (reading, error) {
		p := unix.PtpSysOffsetExtended{Samples: readings}
		err := sys.ioctl(fd, unix.PTP_SYS_OFFSET_EXTENDED, unsafe.Pointer(&p))
		return tightest(func(i int) reading {
			return reading{nanos(p.Ts[i][0]), nanos(p.Ts[i][1]), nanos(p.Ts[i][2])}
		}), err
	}},
	{"PTP_SYS_OFFSET", unix.CLOCK_REALTIME, func(sys *system, fd int) (reading, error) {
		p := unix.PtpSysOffset{Samples: readings}
		err := sys.ioctl(fd, unix.PTP_SYS_OFFSET, unsafe.Pointer(&p))
		return tightest(func(i int) reading {
			return reading{nanos(p.Ts[2*i]), nanos(p.Ts[2*i+1]), nanos(p.Ts[2*i+2])}
		}), err
	}},
}

// readings is how many the kernel takes a call; the tightest counts.
const readings = 9

func nanos(t unix.PtpClockTime) int64 { return t.Sec*1e9 + int64(t.Nsec) }

func tightest(at func(i int) reading) reading {
	best := at(0)
	for i := 1; i < readings; i++ {
		if r := at(i); r.after >= r.before && (best.after < best.before || r.after-r.before < best.after-best.before) {
			best = r
		}
	}
	return best
}

// ptpClock is an open PTP clock.
type ptpClock struct {
	sys    *system
	fd     int
	method *method
	host   func() units.Time
	base   int64 // an early reading of the kernel's clock, to count from
}

// openPTP opens the PTP clock of a network interface (ETHTOOL_GET_TS_INFO) and
// finds the best way in which it can be read.
func (sys system) openPTP(netdev string, host func() units.Time) (*Source, error) {
	index, err := sys.phc(netdev)
	switch {
	case errors.Is(err, unix.EOPNOTSUPP) || err == nil && index < 0:
		return nil, fmt.Errorf("the network interface %s has no PTP hardware clock", netdev)
	case err != nil:
		return nil, fmt.Errorf("asking %s for its PTP hardware clock: %w", netdev, err)
	}
	path := fmt.Sprintf("/dev/ptp%d", index)
	fd, err := sys.open(path)
	if err != nil {
		err = &os.PathError{Op: "open", Path: path, Err: err}
		if errors.Is(err, os.ErrPermission) {
			return nil, fmt.Errorf("%w: run as root, or let your user read and write it", err)
		}
		return nil, err
	}
	p := &ptpClock{sys: &sys, fd: fd, host: host}
	for i := range methods {
		m := &methods[i]
		_, err = m.read(&sys, fd)
		if err == nil {
			p.base, err = sys.gettime(m.clock)
		}
		if err == nil {
			p.method = m
			break
		}
		if !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.ENOTTY) && !errors.Is(err, unix.EINVAL) {
			break // not a lack of it
		}
	}
	if p.method == nil {
		return nil, errors.Join(fmt.Errorf("%s of %s can't be read: %w", path, netdev, err), sys.close(fd))
	}
	return &Source{
		Kind: PTP, Name: path + " of " + netdev, Method: p.method.name, Hz: 1e9, Bits: 64,
		sample: p.sample, close: func() error { return sys.close(fd) },
	}, nil
}

// relation says how the kernel's clock relates to the device's host clock while the
// latter went from from to to: the offset to add to the kernel's clock lies between
// lo and hi.
type relation struct{ from, to, lo, hi units.Time }

func (p *ptpClock) relate() (relation, error) {
	from := p.host()
	ns, err := p.sys.gettime(p.method.clock)
	to := p.host()
	t := p.since(ns)
	// The kernel's clock may be a nanosecond further than it shows.
	return relation{from, to, from - t - units.Nanosecond, to - t}, err
}

func (p *ptpClock) since(ns int64) units.Time { return units.Time(ns-p.base) * units.Nanosecond }

// slew is how fast the kernel may steer one of its clocks against another: NTP's
// limit of 500 ppm.
const slew = 500e-6

// sample brackets a reading by the device's host clock. The kernel brackets it by
// one of its own clocks. sample reads that clock's relation before and after; if
// the two do not agree (the wall clock was set), it reads everything again.
func (p *ptpClock) sample() (calibration.Sample, error) {
	for range 4 {
		a, err := p.relate()
		if err != nil {
			return calibration.Sample{}, err
		}
		r, err := p.method.read(p.sys, p.fd)
		if err != nil {
			return calibration.Sample{}, fmt.Errorf("%s: %w", p.method.name, err)
		}
		b, err := p.relate()
		if err != nil {
			return calibration.Sample{}, err
		}
		slack := units.Time(float64(b.to-a.from) * slew)
		lo, hi := max(a.lo, b.lo)-slack, min(a.hi, b.hi)+slack
		if lo > hi || r.ptp < 0 || r.after < r.before {
			continue
		}
		return calibration.Sample{HostBefore: p.since(r.before) + lo, NIC: uint64(r.ptp), HostAfter: p.since(r.after) + units.Nanosecond + hi}, nil
	}
	return calibration.Sample{}, errors.New("the host's wall clock was set again and again while it was read")
}
