package watcher

import (
	"errors"
	"fmt"
	"os"

	"github.com/sluice-rdma/sluice/verbs"
)

// rxeVendor is the vendor of the kernel's soft-RoCE devices; verbs/softroce has none.
const rxeVendor = 0xffffff

// Hardware reports whether dev is a NIC that does RoCE in hardware, which bypasses
// the hooks of the host's network stack, and names it.
func Hardware(dev verbs.Device) (vendor uint32, is bool) {
	vendor = dev.Attr().VendorID
	return vendor, vendor != 0 && vendor != rxeVendor
}

// Netdev returns the network interface of dev's port 1.
func Netdev(op string, dev verbs.Device) (string, error) {
	p, err := dev.Port(1)
	if err == nil && p.Netdev == "" {
		err = verbs.Errorf(op, dev.Name(), verbs.ErrInvalid, "port 1 has no network interface: name the one that the packets pass")
	}
	return p.Netdev, err
}

// Explain names what is missing where an eBPF program could not be attached to a network
// interface.
func Explain(netdev string, err error) error {
	if errors.Is(err, os.ErrPermission) {
		return fmt.Errorf("an eBPF program on %s requires CAP_BPF and CAP_NET_ADMIN: run as root, or setcap cap_bpf,cap_net_admin+ep PROGRAM: %w", netdev, err)
	}
	return fmt.Errorf("an eBPF program on %s: %w", netdev, err)
}
