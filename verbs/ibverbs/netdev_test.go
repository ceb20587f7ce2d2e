//go:build ibverbs

package ibverbs

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/Mellanox/rdmamap"
)

// A port's interface is that of its first GID, for which no other is looked at, or else the only
// one of the device.
func TestNetdevOf(t *testing.T) {
	classes, list, device := rdmamap.RdmaClassDir, interfaces, rdmaDeviceOf
	t.Cleanup(func() { rdmamap.RdmaClassDir, interfaces, rdmaDeviceOf = classes, list, device })
	interfaces = func() ([]net.Interface, error) {
		return []net.Interface{{Name: "lo", Flags: net.FlagLoopback}, {Name: "eth0"}, {Name: "eth1"}, {Name: "eth1.7"}, {Name: "ib0"}}, nil
	}
	for _, c := range []struct {
		name  string
		own   string // of the first GID
		ports []string
		of    map[string]string
		looks int
		want  string
	}{
		{"its own", "eth1", []string{"1"}, map[string]string{"eth1": "rxe0"}, 0, "eth1"},
		{"its own, below a VLAN", "eth1", []string{"1"}, map[string]string{"eth1": "rxe0", "eth1.7": "rxe0"}, 0, "eth1"},
		{"of two ports", "eth1", []string{"1", "2"}, map[string]string{"eth0": "rxe0", "eth1": "rxe0"}, 0, "eth1"},
		{"of two ports, none", "", []string{"1", "2"}, map[string]string{"ib0": "rxe0"}, 0, ""},
		{"the device's only one", "", []string{"1"}, map[string]string{"ib0": "rxe0", "eth0": "rxe1"}, 4, "ib0"},
		{"one of two", "", []string{"1"}, map[string]string{"eth1": "rxe0", "eth1.7": "rxe0"}, 4, ""},
		{"the loopback's", "lo", []string{"1"}, map[string]string{"lo": "rxe0"}, 4, ""},
		{"in another namespace", "eth9", []string{"1"}, nil, 4, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			rdmamap.RdmaClassDir = t.TempDir()
			for _, port := range c.ports {
				dir := filepath.Join(rdmamap.RdmaClassDir, "rxe0", "ports", port, "gid_attrs", "ndevs")
				if err := os.MkdirAll(dir, 0o700); err != nil {
					t.Fatal(err)
				}
				if c.own != "" {
					if err := os.WriteFile(filepath.Join(dir, "0"), []byte(c.own+"\n"), 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			looks := 0
			rdmaDeviceOf = func(netdev string) (string, error) {
				looks++
				if dev := c.of[netdev]; dev != "" {
					return dev, nil
				}
				return "", errors.New("none")
			}
			if got := netdevOf("rxe0", 1); got != c.want || looks != c.looks {
				t.Errorf("%q after %d lookups, want %q after %d", got, looks, c.want, c.looks)
			}
		})
	}
}
