package metrics

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/Mellanox/rdmamap"
)

// portNetdevs are the network interfaces of a port's GIDs in this network
// namespace, that of GID 0 first. A port of an InfiniBand link has none.
func portNetdevs(device, port string) (names []string) {
	dir := filepath.Join(rdmamap.RdmaClassDir, device, "ports", port, "gid_attrs", "ndevs")
	entries, _ := os.ReadDir(dir) // no directory, no interface
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil { // as for an entry of the table without a GID
			continue
		}
		if name := strings.TrimSpace(string(text)); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// deviceNetdevs maps RDMA devices to their network interfaces. A device of several
// is given the first.
func deviceNetdevs(devices []string, log *slog.Logger) map[string]string {
	of := map[string]string{}
	for _, device := range devices {
		ports := rdmamap.GetPorts(device)
		slices.Sort(ports) // they come in no order
		for _, port := range ports {
			if names := portNetdevs(device, port); len(names) > 0 && of[device] == "" {
				of[device] = names[0]
			}
		}
	}
	if len(of) == len(devices) {
		return of
	}
	// InfiniBand's interfaces are found by the device's GUID in their address.
	interfaces, err := net.Interfaces()
	if err != nil {
		log.Debug("no network interfaces", "error", err)
	}
	for _, i := range interfaces {
		switch device, err := deviceOf(i.Name); {
		case err != nil:
			log.Debug("no RDMA device", "netdev", i.Name, "error", err)
		case of[device] == "":
			of[device] = i.Name
		}
	}
	return of
}

// deviceOf is the RDMA device of an interface. rdmamap panics where an interface of
// InfiniBand has no address, or a device's file with its GUID is empty; such a one
// costs its own name and nothing else.
func deviceOf(netdev string) (device string, err error) {
	defer func() {
		if p := recover(); p != nil {
			device, err = "", fmt.Errorf("looking for the RDMA device of %s: %v", netdev, p)
		}
	}()
	return rdmaDeviceOf(netdev)
}

// rdmaDeviceOf finds an interface's device; tests replace it.
var rdmaDeviceOf = rdmamap.GetRdmaDeviceForNetdevice

// netClassDir is where the kernel tells of network interfaces.
var netClassDir = "/sys/class/net"

// withLower are names and the interfaces that they lie on: a bond's, a VLAN's.
func withLower(names []string) []string {
	all := slices.Clone(names)
	for i := 0; i < len(all); i++ {
		below, _ := filepath.Glob(filepath.Join(netClassDir, all[i], "lower_*")) // the pattern is sound
		for _, path := range below {
			if name := strings.TrimPrefix(filepath.Base(path), "lower_"); !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	return all
}
