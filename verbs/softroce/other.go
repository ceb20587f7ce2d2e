//go:build !linux

package softroce

import (
	"net"
	"net/netip"

	"github.com/sluice-rdma/sluice/internal/netif"
	"github.com/sluice-rdma/sluice/verbs"
)

func (d *device) openWire() (wire, error) {
	return nil, verbs.Errorf("open", d.name, verbs.ErrNotSupported, "soft: devices require Linux")
}

// descriptor does not exist here.
type descriptor struct{}

func (*descriptor) set(bool) {}
func (*descriptor) close()   {}

// watch does not exist here.
type watch struct{}

func (*watch) Stop()  {}
func (*watch) Close() {}

func (d *device) startWatch() error { return nil }
func (d *device) follow()           {}

// interfaces returns what is known of them everywhere.
func interfaces() ([]netif.Facts, error) {
	list, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var all []netif.Facts
	for _, i := range list {
		f := netif.Facts{
			Index: i.Index, Name: i.Name, MAC: i.HardwareAddr, MTU: i.MTU, Loopback: i.Flags&net.FlagLoopback != 0,
			Up: i.Flags&net.FlagUp != 0, Carrier: i.Flags&net.FlagRunning != 0,
		}
		addrs, _ := i.Addrs()
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				f.Addrs = append(f.Addrs, netif.Address{Prefix: p})
			}
		}
		all = append(all, f)
	}
	return all, nil
}

// unusable would say what holds an address, which is not known here.
func unusable(int) string { return "" }

func yieldThread() {}
