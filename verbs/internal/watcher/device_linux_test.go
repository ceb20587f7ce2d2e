package watcher

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/verbs"
)

// device is one of a vendor, whose port 1 has an interface.
type device struct {
	verbs.Device
	vendor uint32
	netdev string
	err    error
}

func (device) Name() string             { return "ibv:rxe0" }
func (d device) Attr() verbs.DeviceAttr { return verbs.DeviceAttr{VendorID: d.vendor} }
func (d device) Port(num int) (verbs.PortAttr, error) {
	if num != 1 {
		return verbs.PortAttr{}, verbs.ErrInvalid
	}
	return verbs.PortAttr{Netdev: d.netdev}, d.err
}

func TestHardware(t *testing.T) {
	for vendor, want := range map[uint32]bool{0: false, 0xffffff: false, 0x2c9: true} {
		if v, is := Hardware(device{vendor: vendor}); v != vendor || is != want {
			t.Errorf("vendor %#x: %#x, %v", vendor, v, is)
		}
	}
}

func TestNetdev(t *testing.T) {
	if name, err := Netdev("wrap", device{netdev: "eth0"}); name != "eth0" || err != nil {
		t.Errorf("%q, %v", name, err)
	}
	if _, err := Netdev("wrap", device{}); !errors.Is(err, verbs.ErrInvalid) || !strings.Contains(err.Error(), "wrap ibv:rxe0") {
		t.Errorf("%v", err)
	}
	down := errors.New("no such port")
	if _, err := Netdev("wrap", device{err: down}); !errors.Is(err, down) {
		t.Errorf("%v", err)
	}
}

func TestExplain(t *testing.T) {
	for _, c := range []struct {
		err   error
		needs bool
	}{{fs.ErrPermission, true}, {errors.New("no memory"), false}} {
		if err := Explain("eth0", c.err); !errors.Is(err, c.err) || strings.Contains(err.Error(), "CAP_BPF") != c.needs || !strings.Contains(err.Error(), "eth0") {
			t.Errorf("%v", err)
		}
	}
}
