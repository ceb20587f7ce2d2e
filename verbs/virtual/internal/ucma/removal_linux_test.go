//go:build linux

package ucma

import (
	"net/netip"
	"testing"

	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/verbs"
)

// removable is a device that goes when its channel is closed, and whose port has no
// address then.
type removable struct {
	verbs.Device
	verbs.MADDevice
	gone chan struct{}
}

func (d *removable) Gone() <-chan struct{} { return d.gone }

func (d *removable) GID(port, index int) (netip.Addr, error) {
	select {
	case <-d.gone:
		return netip.IPv6Unspecified(), nil
	default:
		return d.Device.GID(port, index)
	}
}

// Identifiers of a device that goes get RDMA_CM_EVENT_DEVICE_REMOVAL, once; those of no
// device do not.
func TestDeviceRemoval(t *testing.T) {
	soft, err := verbs.Open("soft:127.0.29.1")
	if err != nil {
		t.Fatal(err)
	}
	dev := &removable{soft, soft.(verbs.MADDevice), make(chan struct{})}
	h, err := New(Config{Devices: []Device{{Verbs: dev, NodeGUID: guidA}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.Close()
		if err := soft.Close(); err != nil {
			t.Error(err)
		}
	})
	p := h.program(t)
	p.listen(1, roce.PortSpaceTCP, "0.0.0.0:0", 5)
	bound := p.create(2, roce.PortSpaceTCP)
	p.bind(bound, "127.0.29.1:0")
	h.Changed(dev) // which it has not
	close(dev.gone)
	h.Changed(dev)
	h.Changed(dev)
	p.expect(2, bound, evDeviceRemoval, 0)
	p.quiet()
}
