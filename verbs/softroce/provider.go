package softroce

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/internal/netif"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/softroce/internal/endpoint"
)

func init() { verbs.Register("soft", provider{}) }

type provider struct{}

// options are what the query of a device's name may say.
type options struct {
	Port    uint16     `yaml:"port" range:"[1,65535]"` // of UDP
	Mode    mode       `yaml:"mode" one:"udp packet xdp"`
	GSO     bool       `yaml:"gso"`
	Turns   *bool      `yaml:"turnaround"` // ask peers how long they take to answer; nil: on the loopback alone
	Window  int        `yaml:"window" range:"[1,2^16]" of:"packets" zero:"the usual window"`
	MaxQP   int        `yaml:"maxqp" range:"[1,2^16]" of:"queue pairs"`
	Class   uint8      `yaml:"tclass"` // traffic class of what an address vector leaves at 0
	Rate    units.Rate `yaml:"rate" range:"(0,)" zero:"what the interface says"`
	Shape   Shape      `yaml:",inline"`
	Reports reports    `yaml:",inline"`
	collect `yaml:"-"` // what Reports says
}

var ofOptions = field.Of[options]("soft")

// mode is the kind of sockets that a device has.
type mode string

const (
	modeUDP    mode = "udp"
	modePacket mode = "packet"
	modeXDP    mode = "xdp"
)

const (
	defaultRate = 40_000_000_000
	maxWindow   = 1 << 16

	// windowBytes is what a connection may have under way by default: about what the
	// receive buffer holds that most systems give to a program without privileges.
	windowBytes = 256 << 10
	// windowPackets bounds the default for small MTUs: in a receive buffer a packet
	// takes about 1 KiB besides its bytes.
	windowPackets = 256
	// lateWindow is for how long a link of a shape can go on sending while acknowledgements
	// wait for a processor, as far as lateBytes go.
	lateWindow = 10 * units.Millisecond
	lateBytes  = 4 << 20
)

// windowOf is how many packets a connection may have under way: by default the usual
// window, what a link of a shape holds both ways, and what it sends in lateWindow.
func windowOf(chosen int, s *Shape, mtu ib.MTU) int {
	if chosen > 0 {
		return chosen
	}
	more := s.Rate.BytesIn(2*s.Delay) + min(s.Rate.BytesIn(lateWindow), lateBytes)
	onLink := (more + units.Bytes(mtu) - 1) / units.Bytes(mtu)
	return min(windowPackets, windowBytes/int(mtu)) + int(min(onLink, maxWindow/2))
}

// Open implements verbs.Provider: INTERFACE or ADDRESS, and options behind a
// question mark.
func (provider) Open(name string) (verbs.Device, error) {
	object := "soft:" + name
	where, query, _ := strings.Cut(name, "?")
	o, err := parseOptions(query)
	if err != nil {
		return nil, verbs.Errorf("open", object, verbs.ErrInvalid, "%v", err)
	}
	link, err := findLink(where)
	if err != nil {
		return nil, verbs.Errorf("open", object, verbs.ErrNoDevice, "%v", err)
	}
	return open(object, link, o)
}

// Devices implements verbs.Provider: the interfaces that are up and have an
// address.
func (provider) Devices() ([]string, error) {
	all, err := interfaces()
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range all {
		if l, err := newLink(&all[i]); err == nil {
			names = append(names, "soft:"+l.name)
		}
	}
	return names, nil
}

func parseOptions(query string) (options, error) {
	o := options{Port: roce.Port, Mode: modeUDP, GSO: true, MaxQP: endpoint.MaxQP}
	values, err := parseQuery(query)
	if err != nil {
		return o, fmt.Errorf("options %q: %w; write window=128&gso=off", query, err)
	}
	if err := ofOptions.Parse(&o, values); err != nil {
		return o, err
	}
	if values.Has("seed") && o.Shape.Loss == 0 {
		return o, errors.New("option seed requires loss, such as loss=0.1%")
	}
	o.collect, err = o.Reports.collect(values.Has, o.Mode)
	return o, err
}

// link is a network interface as it is when a device is opened on it, with those of
// its addresses that the device uses.
type link struct {
	name  string
	index int
	mtu   int
	rate  int64 // bits per second, 0 for unknown
	mac   net.HardwareAddr
	addrs []netip.Addr
	held  []address // that can't be used
	only  bool      // the device was opened by an address, and has no other
	up    bool
	ready bool // up, with carrier
	loop  bool // the loopback
}

// address is one of an interface's; held says why it can't be used, if it can't.
type address struct {
	netip.Addr
	held string
}

// newLink describes an interface that is up and has an address that can be used.
func newLink(f *netif.Facts) (link, error) {
	l := link{
		name: f.Name, index: f.Index, mtu: f.MTU, rate: f.Rate, mac: f.MAC, up: f.Up, ready: f.Active(), loop: f.Loopback,
	}
	if !l.up {
		return l, fmt.Errorf("interface %s is down", f.Name)
	}
	l.addrs, l.held = addresses(f)
	switch {
	case len(l.addrs) > 0:
	case len(l.held) > 0:
		return l, fmt.Errorf("interface %s has no IP address that can be used: %v is %s", f.Name, l.held[0], l.held[0].held)
	default:
		return l, fmt.Errorf("interface %s has no IP address", f.Name)
	}
	return l, nil
}

// addresses returns the addresses of an interface that a device can use, each
// once, and the others. IPv4 comes first, as the addresses that most will
// write, and link-local ones last.
func addresses(f *netif.Facts) (usable []netip.Addr, held []address) {
	for _, a := range f.Addrs {
		switch why := unusable(int(a.Flags)); {
		case why != "":
			held = append(held, address{a.Addr(), why})
		case !slices.Contains(usable, a.Addr()): // of several networks
			usable = append(usable, a.Addr())
		}
	}
	slices.SortStableFunc(usable, func(a, b netip.Addr) int { return addrRank(a) - addrRank(b) })
	return usable, held
}

func addrRank(a netip.Addr) int {
	switch {
	case a.Is4():
		return 0
	case a.IsLinkLocalUnicast():
		return 2
	}
	return 1
}

// findLink finds the interface of that name, or the one with that address, which
// is then the device's only one. Any address of a network that a loopback
// interface has is its own: 127.0.0.2.
func findLink(where string) (link, error) {
	addr, notAddr := netip.ParseAddr(where)
	addr = addr.Unmap()
	all, err := interfaces()
	if err != nil {
		return link{}, err
	}
	var known []string
	var held error
	for i := range all {
		l, err := newLink(&all[i])
		switch {
		case notAddr != nil && l.name == where:
			return l, err
		case notAddr == nil && err == nil && owns(&all[i], l.addrs, addr):
			l.addrs, l.only = []netip.Addr{addr}, true
			return l, nil
		}
		for _, a := range l.held {
			if a.Addr == addr {
				held = fmt.Errorf("%v of %s is %s", a, l.name, a.held)
			}
		}
		if err != nil {
			continue
		}
		known = append(known, l.name)
	}
	if held != nil {
		return link{}, held
	}
	if notAddr == nil {
		return link{}, fmt.Errorf("no interface that is up has the address %v", addr)
	}
	return link{}, fmt.Errorf("unknown interface %s, expected one of %s, or an address of one", where, strings.Join(known, ", "))
}

// owns reports whether an interface with these usable addresses has an address.
func owns(f *netif.Facts, usable []netip.Addr, addr netip.Addr) bool {
	return slices.Contains(usable, addr) ||
		f.Loopback && addr.Is4() && slices.ContainsFunc(f.Addrs, func(a netif.Address) bool { return a.Contains(addr) })
}

// pathMTU is the largest path MTU that fits an interface: the Linux driver's rule,
// which leaves 80 bytes for headers, with room for what telemetry adds.
func (l *link) pathMTU(more int) (ib.MTU, error) {
	if m := pathMTU(l.mtu, more); m > 0 {
		return m, nil
	}
	return 0, fmt.Errorf("the MTU of %s is %d, expected at least %d", l.name, l.mtu, 256+linkHeaders+more)
}

const linkHeaders = 80

// pathMTU is that of an interface's MTU, or 0 if none fits.
func pathMTU(mtu, more int) ib.MTU {
	for _, m := range []ib.MTU{4096, 2048, 1024, 512, 256} {
		if int(m)+linkHeaders+more <= mtu {
			return m
		}
	}
	return 0
}
