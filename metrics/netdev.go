package metrics

import (
	"log/slog"
	"net"

	"github.com/Mellanox/rdmamap"
)

// netdevs maps RDMA devices to their network interfaces. A device of several
// ports is given the first that is found.
func netdevs(log *slog.Logger) map[string]string {
	of := map[string]string{}
	interfaces, err := net.Interfaces()
	if err != nil {
		log.Debug("no network interfaces", "error", err)
	}
	for _, i := range interfaces {
		if device, err := rdmamap.GetRdmaDeviceForNetdevice(i.Name); err == nil && of[device] == "" {
			of[device] = i.Name
		}
	}
	return of
}
