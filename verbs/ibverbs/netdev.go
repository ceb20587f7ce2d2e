//go:build ibverbs

package ibverbs

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/Mellanox/rdmamap"

	"github.com/sluice-rdma/sluice/internal/netif"
)

// What netdevOf asks of the system; tests replace it.
var (
	interfaces   = net.Interfaces
	rdmaDeviceOf = rdmamap.GetRdmaDeviceForNetdevice
)

// netdevOf returns the network interface of a device's port, "" if there is none.
func netdevOf(ibdev string, port int) string {
	all, err := interfaces()
	if err != nil {
		return ""
	}
	all = slices.DeleteFunc(all, func(i net.Interface) bool { return i.Flags&net.FlagLoopback != 0 })
	// The first GID is the port's own, also where VLANs and bonds lie on top. Where it says, nothing
	// else is read: a table has up to a thousand entries, a file each, and Port is called often.
	own := sysfs(rdmamap.RdmaClassDir, ibdev, "ports", strconv.Itoa(port), "gid_attrs", "ndevs", "0")
	for i := range all {
		if all[i].Name == own {
			return own
		}
	}
	if len(rdmamap.GetPorts(ibdev)) != 1 {
		return ""
	}
	var of []string
	for i := range all {
		if dev, err := rdmaDeviceOf(all[i].Name); err == nil && dev == ibdev {
			of = append(of, all[i].Name)
		}
	}
	if len(of) == 1 {
		return of[0]
	}
	return ""
}

// sysfs reads a file of one line, "" if it can't be read.
func sysfs(elem ...string) string {
	text, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// Lanes and the rate of one, by the codes of the PortInfo attribute (IBA
// 14.2.5.6 and its successors): what goes over a lane after its encoding.
var (
	lanes    = map[uint8]int64{1: 1, 2: 4, 4: 8, 8: 12, 16: 2}
	laneRate = map[uint8]int64{1: 2e9, 2: 4e9, 4: 8e9, 8: 10e9, 16: 13.64e9, 32: 25e9, 64: 50e9, 128: 100e9}
)

// linkRate is a port's line rate in bits per second: the network interface's
// speed, or what the port says of its lanes; 0 if neither does.
func linkRate(netdev string, speed, width uint8) int64 {
	if netdev != "" {
		if f, err := netif.ByName(netdev); err == nil && f.Rate > 0 {
			return f.Rate
		}
	}
	return lanes[width] * laneRate[speed]
}
