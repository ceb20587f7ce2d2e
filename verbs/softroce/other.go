//go:build !linux

package softroce

import (
	"net"
	"net/netip"

	"github.com/sluice-rdma/sluice/verbs"
)

func (d *device) openWire() (wire, error) {
	return nil, verbs.Errorf("open", d.name, verbs.ErrNotSupported, "soft: devices require Linux")
}

// descriptor does not exist here.
type descriptor struct{}

func (*descriptor) set(bool) {}
func (*descriptor) close()   {}

func linkState(string) (verbs.PortState, int64) { return verbs.PortActive, defaultRate }

// addresses returns those of an interface. What would hold one is not known here.
func addresses(i *net.Interface) ([]address, error) {
	list, err := i.Addrs()
	var all []address
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok {
			if addr, ok := netip.AddrFromSlice(n.IP); ok {
				all = append(all, address{Addr: addr.Unmap()})
			}
		}
	}
	return all, err
}

func yieldThread() {}
