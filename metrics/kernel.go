package metrics

import (
	"log/slog"
	"strconv"

	"github.com/Mellanox/rdmamap"
	"github.com/prometheus/client_golang/prometheus"
)

// Kernel collects the counters that the kernel keeps for each port of each RDMA
// device (/sys/class/infiniband/DEVICE/ports/PORT/counters and hw_counters) as
// rdma_NAME_total{device,port}, under the kernel's own names. A counter that the
// kernel lists and can't read is 0: rdmamap does not tell the two apart.
type Kernel struct{ log *slog.Logger }

// NewKernel returns the collector. Devices are looked up at each collection, so
// those that come and go are followed; what can't be read is logged.
func NewKernel(log *slog.Logger) *Kernel { return &Kernel{log} }

var infoDesc = prometheus.NewDesc("rdma_device_info", "An RDMA device of the kernel and its network interface; always 1.",
	[]string{"device", "netdev"}, nil)

// Describe implements prometheus.Collector. The names depend on the devices, so
// the collector is unchecked.
func (k *Kernel) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (k *Kernel) Collect(ch chan<- prometheus.Metric) {
	devices := rdmamap.GetRdmaDeviceList()
	netdevs := deviceNetdevs(devices, k.log)
	for _, device := range devices {
		ch <- prometheus.MustNewConstMetric(infoDesc, prometheus.GaugeValue, 1, device, netdevs[device])
		for _, name := range rdmamap.GetPorts(device) {
			port, err := strconv.Atoi(name)
			if err != nil {
				continue
			}
			hw, err := rdmamap.GetRdmaSysfsHwStats(device, port)
			k.unread(err, device, port, rdmamap.RdmaHwCountersDir)
			sw, err := rdmamap.GetRdmaSysfsStats(device, port)
			k.unread(err, device, port, rdmamap.RdmaCountersDir)
			// A name in both directories would be two samples of one metric,
			// which fails the whole scrape: the device's own counter goes first.
			seen := map[string]bool{}
			for _, s := range append(hw, sw...) {
				if s.Name == "lifespan" || seen[s.Name] { // lifespan is a setting of sysfs, not a counter
					continue
				}
				seen[s.Name] = true
				ch <- counter(s.Name, s.Value, device, name)
			}
		}
	}
}

func (k *Kernel) unread(err error, device string, port int, dir string) {
	if err != nil {
		k.log.Debug("no counters", "device", device, "port", port, "directory", dir, "error", err)
	}
}
