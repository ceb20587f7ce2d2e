package netif

import (
	"net"
	"net/netip"
	"slices"
)

// Facts are what the kernel says of an interface at an instant.
type Facts struct {
	Index     int
	Name      string
	MAC       net.HardwareAddr // empty for the loopback, and for tunnels
	MTU       int
	Loopback  bool
	Up        bool // an administrator wants it up (IFF_UP)
	Carrier   bool // it is up, and its lower layer can carry frames (IFF_LOWER_UP)
	OperState OperState
	Rate      int64 // of the line, in bits per second; 0 where the driver knows none
	Addrs     []Address
	Gone      bool // the interface is no more; what else stands here is what was last known
}

// Active reports whether packets can go by the interface: what the kernel calls an
// active port of an RDMA device (ib_get_curr_port_state).
func (f *Facts) Active() bool { return f.Up && f.Carrier && !f.Gone }

// Equal reports whether two readings say the same.
func (f *Facts) Equal(g *Facts) bool {
	return f.Index == g.Index && f.Name == g.Name && slices.Equal(f.MAC, g.MAC) && f.MTU == g.MTU && f.Loopback == g.Loopback &&
		f.Up == g.Up && f.Carrier == g.Carrier && f.OperState == g.OperState && f.Rate == g.Rate && f.Gone == g.Gone &&
		slices.Equal(f.Addrs, g.Addrs)
}

// Address is one of an interface's.
type Address struct {
	netip.Prefix        // the address, and the length of its network's prefix
	Flags        uint32 // IFA_F_*
}

// OperState is RFC 2863's state of an interface, as the kernel has it (IF_OPER_*).
type OperState uint8

// States of an interface. Drivers that set none, as the loopback's, leave
// OperUnknown.
const (
	OperUnknown OperState = iota
	OperNotPresent
	OperDown
	OperLowerLayerDown
	OperTesting
	OperDormant
	OperUp
)

// String names the state as sysfs and ip do.
func (s OperState) String() string {
	names := [...]string{"unknown", "notpresent", "down", "lowerlayerdown", "testing", "dormant", "up"}
	if int(s) < len(names) {
		return names[s]
	}
	return "unknown"
}
