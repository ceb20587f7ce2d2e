package clocks

import (
	"errors"
	"fmt"

	"github.com/sluice-rdma/sluice/calibration"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// Kind is the kind of a source; the lower, the better.
type Kind uint8

// Kinds.
const (
	Any  Kind = iota // no kind: Choose takes the best
	NIC              // the device's counter
	PTP              // the PTP hardware clock of the network interface
	Wire             // stamps of packets at the network interface
	Host             // the host's clock at the time of polling
)

var kindNames = [...]string{"any", "nic", "ptp", "wire", "host"}

// String returns the kind's name, as ParseKind reads it.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// ParseKind reads nic, ptp, wire, host or any.
func ParseKind(s string) (Kind, error) {
	for k, name := range kindNames {
		if s == name {
			return Kind(k), nil
		}
	}
	return 0, fmt.Errorf("unknown clock source %q, expected nic, ptp, wire, host or any", s)
}

// Source is a clock that can be compared with the host's. It is not safe for
// concurrent use.
type Source struct {
	Kind Kind
	// Name is which clock: "counter of ibv:mlx5_0", "/dev/ptp0 of eth2".
	Name string
	// Method is how it is read: "PTP_SYS_OFFSET_EXTENDED".
	Method string
	// Why says why it was chosen, or what it is there for.
	Why string
	// Hz is its nominal rate and Bits its width, as in calibration.Config.
	Hz   float64
	Bits int

	sample func() (calibration.Sample, error)
	close  func() error
}

// Sample reads the source between two readings of the device's host clock
// (verbs.PreciseClock where there is one, Now elsewhere). It does so a few times
// and returns the sample with the tightest bracket.
func (s *Source) Sample() (calibration.Sample, error) { return s.sample() }

// Close frees what reading it took. The device stays open.
func (s *Source) Close() error {
	if s.close == nil {
		return nil
	}
	return s.close()
}

// HostClock returns how dev's host clock is read: as precisely as it can be.
func HostClock(dev verbs.Device) func() units.Time {
	if p, ok := dev.(verbs.PreciseClock); ok {
		return p.NowPrecise
	}
	return func() units.Time { return units.FromDuration(dev.Now()) }
}

// counter is the source that dev's ReadClock is.
func counter(dev verbs.Device, kind Kind) (*Source, error) {
	reader, ok := dev.(verbs.ClockReader)
	if !ok {
		return nil, errors.New("the provider can't read the device's counter")
	}
	attr := dev.Attr()
	if attr.CoreClockHz <= 0 {
		return nil, errors.New("the device has no completion timestamps")
	}
	now := HostClock(dev)
	n := counterReadings
	if _, simulated := dev.(verbs.Runner); simulated {
		n = 1 // the model's brackets are all alike
	}
	return &Source{
		Kind: kind, Name: "counter of " + dev.Name(), Method: "ReadClock", Hz: attr.CoreClockHz, Bits: attr.ClockBits,
		sample: func() (best calibration.Sample, err error) {
			for i := range n {
				x := calibration.Sample{HostBefore: now()}
				if x.NIC, err = reader.ReadClock(); err != nil {
					return x, err
				}
				x.HostAfter = now()
				if i == 0 || x.HostAfter-x.HostBefore < best.HostAfter-best.HostBefore {
					best = x
				}
			}
			return best, nil
		},
	}, nil
}

// counterReadings is how often a counter is read for a sample. The tightest bracket
// counts: the first reading after a sleep meets cold caches.
const counterReadings = 5

// host is the source that is the host's clock itself.
func host(dev verbs.Device) *Source {
	now := HostClock(dev)
	return &Source{
		Kind: Host, Name: "host clock of " + dev.Name(), Method: "Now", Hz: 1e9, Bits: 63,
		sample: func() (calibration.Sample, error) {
			t := now()
			ticks := t / units.Nanosecond
			return calibration.Sample{HostBefore: t, NIC: uint64(max(ticks, 0)), HostAfter: now()}, nil
		},
	}
}

// isHostClock reports whether a source hands on the host's clock: every reading
// in nanoseconds lies between those of the host's clock around it. A counter of
// its own does not do that even once unless it started with the host's.
func isHostClock(s *Source) (bool, error) {
	for range 8 {
		x, err := s.Sample()
		if err != nil {
			return false, err
		}
		if s.Hz != 1e9 || x.NIC < uint64(x.HostBefore/units.Nanosecond) || x.NIC > uint64(x.HostAfter/units.Nanosecond)+1 {
			return false, nil
		}
	}
	return true, nil
}
