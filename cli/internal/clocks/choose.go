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
	c := &chooser{Choice: Choice{Device: dev}, Options: o, dev: dev, sys: sys, netdev: o.Netdev}
	_, c.simulated = dev.(verbs.Runner)
	c.stamper, _ = dev.(stamper)
	if c.netdev == "" && !c.simulated {
		if p, err := dev.Port(1); err == nil {
			c.netdev = p.Netdev
		}
	}
	// In the order of their quality.
	c.tryNIC()
	if err := c.tryPTP(); err != nil {
		return nil, err
	}
	if c.Source == nil {
		c.tryWire()
	}
	if c.Source == nil && c.wanted(Host) {
		c.takeHost()
	}
	if c.Source == nil {
		last := c.Passed[len(c.Passed)-1]
		return nil, fmt.Errorf("clock source %v of %s: %s", o.Only, dev.Name(), last.Why)
	}
	return &c.Choice, nil
}

// chooser is a choice that is being made.
type chooser struct {
	Choice
	Options
	dev       verbs.Device // as it was given
	sys       system
	simulated bool
	netdev    string
	stamper   stamper // the device, if its completions are stamped at an interface
	nic       *Source // the counter of its completions, nil if it can't be read
	hostsOwn  bool    // which is the host's clock
}

func (c *chooser) wanted(k Kind) bool { return c.Only == Any || c.Only == k }

// pass notes why a source was not taken.
func (c *chooser) pass(k Kind, err error) {
	if k <= c.Only || c.Only == Any {
		c.Passed = append(c.Passed, Passed{k, err.Error()})
	}
}

func (c *chooser) errUnasked() error { return fmt.Errorf("only %v was asked for", c.Only) }

// tryNIC takes the counter that stamps completions.
func (c *chooser) tryNIC() {
	nic, err := counter(c.Device, NIC)
	if err == nil && !c.simulated { // a model's counter may have started with its host's clock
		if c.hostsOwn, err = isHostClock(nic); err != nil {
			err = fmt.Errorf("reading it fails: %w", err)
		}
	}
	if err != nil {
		c.pass(NIC, err)
		return
	}
	c.nic = nic
	switch {
	case c.stamper != nil:
		c.pass(NIC, errors.New("the device's stamps are those of packets at "+c.stamper.Netdev()))
	case c.hostsOwn:
		c.pass(NIC, errors.New("its counter is the host's clock: what stamps completions is software"))
	case !c.wanted(NIC):
		c.pass(NIC, c.errUnasked())
	default:
		c.Source = nic
		nic.Why = "the counter that stamps completions can be read"
	}
}

// tryPTP takes the interface's PTP clock, or opens it for comparison with a better source.
func (c *chooser) tryPTP() error {
	ptp, err := openPTP(c.Device, c.netdev, c.simulated, c.sys)
	switch {
	case err != nil:
		if c.Source == nil {
			c.pass(PTP, err)
		}
		return nil
	case c.Source != nil:
		ptp.Why = "to tell whether it is the clock that stamps completions"
		c.PTP = ptp
		return nil
	case c.Only == PTP:
		ptp.Why = "it was asked for"
		c.Source = ptp
		return nil
	case c.Only != Any:
		c.pass(PTP, c.errUnasked())
	case c.nic != nil:
		c.pass(PTP, fmt.Errorf("%s does not stamp the device's completions: software does", ptp.Name))
	case c.Device.Attr().CoreClockHz != 1e9:
		c.pass(PTP, fmt.Errorf("the device's completions have no timestamps in nanoseconds, which %s could be calibrated for", ptp.Name))
	default:
		ptp.Why = "completions carry nanoseconds, and the counter behind them can't be read; whether it is this clock was not checked"
		c.Source = ptp
		return nil
	}
	return ptp.Close()
}

// tryWire takes stamps at the interface, which change the device: only where nothing better is
// taken.
func (c *chooser) tryWire() {
	switch {
	case c.stamper != nil && c.nic != nil && c.wanted(Wire):
		c.nic.Kind, c.nic.Why = Wire, "the device is stamped already"
		c.nic.stampedBy(c.stamper)
		c.Source = c.nic
		return
	case !c.wanted(Wire):
		c.pass(Wire, c.errUnasked())
		return
	case c.simulated:
		c.pass(Wire, errors.New("a simulated device has no packets to stamp"))
		return
	case c.Wire == nil:
		c.pass(Wire, errors.New("stamping packets was not offered"))
		return
	}
	wrapped, err := c.Wire(c.Device, c.netdev)
	if err != nil {
		c.pass(Wire, err)
		return
	}
	c.Device = wrapped
	if c.Source, err = counter(wrapped, Wire); err != nil {
		c.pass(Wire, err)
		return
	}
	c.Source.Name, c.Source.Method = "stamps at "+c.netdev, "eBPF"
	c.Source.Why = "packets pass the kernel's hooks, where an eBPF program stamps them"
	if s, ok := wrapped.(stamper); ok {
		c.Source.stampedBy(s)
	}
}

func (s *Source) stampedBy(by stamper) {
	s.Name, s.Method = "stamps at "+by.Netdev(), "eBPF, "+by.Hook()
}

// takeHost takes the host's clock: that of the device's software where it stamps by it.
func (c *chooser) takeHost() {
	if c.nic != nil && c.hostsOwn {
		c.nic.Kind, c.nic.Why = Host, "the device's software stamps completions with the host's clock as their acknowledgements arrive"
		c.Source = c.nic
		return
	}
	c.Source = host(c.dev)
	c.Source.Why = "there is no better one: completions have the time at which they are polled"
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
