package clocks

import (
	"errors"
	"fmt"

	"github.com/sluice-rdma/sluice/verbs"
)

// Options say what Choose may take.
type Options struct {
	// Netdev is the network interface whose PTP clock and packets count; ""
	// takes that of port 1.
	Netdev string
	// Only is the one kind to take, or Any.
	Only Kind
	// Wire stamps completions from packets at a network interface, as wirestamp.Wrap
	// does: it returns a device to use and to close in place of dev. nil means no such
	// stamps.
	Wire func(dev verbs.Device, netdev string) (verbs.Device, error)
}

// Passed is a source that was not taken.
type Passed struct {
	Kind Kind
	Why  string
}

// Choice is what Choose found.
type Choice struct {
	// Device is the one to use: dev, or what Options.Wire made of it.
	Device verbs.Device
	// Source is the one to calibrate against.
	Source *Source
	// PTP is the PTP clock, for comparison, of a device that also has a better source;
	// nil if there is none.
	PTP *Source
	// Passed are the better sources, in the order of their quality, that were
	// not taken.
	Passed []Passed
}

// Close closes the sources and not the device.
func (c *Choice) Close() error {
	err := c.Source.Close()
	if c.PTP != nil {
		err = errors.Join(err, c.PTP.Close())
	}
	return err
}

// stamper is a device whose completions are stamped at a network interface.
type stamper interface {
	Netdev() string
	Hook() string
}

// Choose finds the best source for dev's completion timestamps. It fails if
// Options name one kind that can't be had. On a simulated device it must be called
// in verbs.Run: reading a counter takes simulated time.
func Choose(dev verbs.Device, o Options) (*Choice, error) { return choose(dev, o, kernel) }

func choose(dev verbs.Device, o Options, sys system) (*Choice, error) {
	c := &Choice{Device: dev}
	_, simulated := dev.(verbs.Runner)
	netdev := o.Netdev
	if netdev == "" && !simulated {
		if p, err := dev.Port(1); err == nil {
			netdev = p.Netdev
		}
	}
	wanted := func(k Kind) bool { return o.Only == Any || o.Only == k }
	pass := func(k Kind, err error) {
		if k <= o.Only || o.Only == Any {
			c.Passed = append(c.Passed, Passed{k, err.Error()})
		}
	}
	errUnasked := fmt.Errorf("only %v was asked for", o.Only)

	// NIC.
	nic, err := counter(dev, NIC)
	hostsOwn := false
	if err == nil && !simulated { // a model's counter may have started with its host's clock
		if hostsOwn, err = isHostClock(nic); err != nil {
			err = fmt.Errorf("reading it fails: %w", err)
		}
	}
	s, stamped := dev.(stamper)
	switch {
	case err != nil:
		pass(NIC, err)
		nic = nil
	case stamped:
		pass(NIC, errors.New("the device's stamps are those of packets at "+s.Netdev()))
	case hostsOwn:
		pass(NIC, errors.New("its counter is the host's clock: what stamps completions is software"))
	case !wanted(NIC):
		pass(NIC, errUnasked)
	default:
		c.Source = nic
		nic.Why = "the counter that stamps completions can be read"
	}

	// PTP: also to be compared with a better source.
	ptp, err := openPTP(dev, netdev, simulated, sys)
	switch {
	case err != nil:
		if c.Source == nil {
			pass(PTP, err)
		}
	case c.Source != nil:
		ptp.Why = "to tell whether it is the clock that stamps completions"
		c.PTP = ptp
	case o.Only == PTP:
		ptp.Why = "it was asked for"
		c.Source = ptp
	case o.Only != Any:
		pass(PTP, errUnasked)
	case nic != nil:
		pass(PTP, fmt.Errorf("%s does not stamp the device's completions: software does", ptp.Name))
	case dev.Attr().CoreClockHz != 1e9:
		pass(PTP, fmt.Errorf("the device's completions have no timestamps in nanoseconds, which %s could be calibrated for", ptp.Name))
	default:
		ptp.Why = "completions carry nanoseconds, and the counter behind them can't be read; whether it is this clock was not checked"
		c.Source = ptp
	}
	if ptp != nil && c.Source != ptp && c.PTP != ptp {
		if err := ptp.Close(); err != nil {
			return nil, err
		}
	}

	// Wire, which changes the device: only where nothing better is taken.
	switch {
	case c.Source != nil:
	case stamped && nic != nil && wanted(Wire):
		nic.Kind, nic.Name, nic.Method = Wire, "stamps at "+s.Netdev(), "eBPF, "+s.Hook()
		nic.Why = "the device is stamped already"
		c.Source = nic
	case !wanted(Wire):
		pass(Wire, errUnasked)
	case simulated:
		pass(Wire, errors.New("a simulated device has no packets to stamp"))
	case o.Wire == nil:
		pass(Wire, errors.New("stamping packets was not offered"))
	default:
		wrapped, err := o.Wire(dev, netdev)
		if err != nil {
			pass(Wire, err)
			break
		}
		c.Device = wrapped
		if c.Source, err = counter(wrapped, Wire); err != nil {
			pass(Wire, err)
			break
		}
		c.Source.Name, c.Source.Why = "stamps at "+netdev, "packets pass the kernel's hooks, where an eBPF program stamps them"
		c.Source.Method = "eBPF"
		if s, ok := wrapped.(stamper); ok {
			c.Source.Name, c.Source.Method = "stamps at "+s.Netdev(), "eBPF, "+s.Hook()
		}
	}

	// Host.
	if c.Source == nil && wanted(Host) {
		c.Source = host(dev)
		c.Source.Why = "there is no better one: completions have the time at which they are polled"
		if nic != nil && hostsOwn {
			nic.Kind, nic.Why = Host, "the device's software stamps completions with the host's clock as their acknowledgements arrive"
			c.Source = nic
		}
	}
	if c.Source == nil {
		last := c.Passed[len(c.Passed)-1]
		return nil, fmt.Errorf("clock source %v of %s: %s", o.Only, dev.Name(), last.Why)
	}
	return c, nil
}

// openPTP finds and opens the PTP clock of a network interface.
func openPTP(dev verbs.Device, netdev string, simulated bool, sys system) (*Source, error) {
	switch {
	case simulated:
		return nil, errors.New("a simulated device has none")
	case netdev == "":
		return nil, errors.New("the device has no known network interface: name it")
	}
	return sys.openPTP(netdev, HostClock(dev))
}
