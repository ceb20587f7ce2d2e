package metrics

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/Mellanox/rdmamap"
	"github.com/prometheus/client_golang/prometheus"
)

// Kernel collects the counters that the kernel keeps for each port of each RDMA
// device (/sys/class/infiniband/DEVICE/ports/PORT/counters and hw_counters) as
// rdma_NAME_total{device,port}, under the kernel's own names. A counter that can't be
// read has no sample, and is logged once. rdmamap finds the devices; it would read
// such a counter as 0, so values are read here.
type Kernel struct {
	log  *slog.Logger
	once *complaints
}

// NewKernel returns the collector. Devices are looked up at each collection, so
// it follows devices that come and go; what can't be read is logged.
func NewKernel(log *slog.Logger) *Kernel { return &Kernel{log, newComplaints(log)} }

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
		ch <- prometheus.MustNewConstMetric(infoDesc, prometheus.GaugeValue, 1, label(device), label(netdevs[device]))
		for _, port := range rdmamap.GetPorts(device) {
			if _, err := strconv.Atoi(port); err != nil {
				continue
			}
			// A name in both directories would be two samples of one metric:
			// the device's own counter goes first, also where it can't be read.
			values, taken := map[string]uint64{}, map[string]bool{}
			for _, dir := range []string{rdmamap.RdmaHwCountersDir, rdmamap.RdmaCountersDir} {
				k.read(device, port, dir, values, taken)
			}
			emitCounters(values, device, port, k.once, ch)
		}
	}
}

// read adds the counters of a directory whose metrics are not taken by another.
func (k *Kernel) read(device, port, dir string, values map[string]uint64, taken map[string]bool) {
	dir = filepath.Join(rdmamap.RdmaClassDir, device, rdmamap.RdmaPortsdir, port, dir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		k.log.Debug("no counters", "device", device, "port", port, "directory", dir, "error", err)
		return
	}
	var names []string
	for _, e := range entries {
		// lifespan is a setting of sysfs, not a counter.
		if name := e.Name(); !e.IsDir() && name != "lifespan" && !taken[plain(name)] {
			names = append(names, name)
		}
	}
	for _, name := range names {
		taken[plain(name)] = true
		path := filepath.Join(dir, name)
		v, err := readCounter(path)
		if err != nil {
			k.once.once(path, "a counter can't be read and is left out", "device", device, "port", port, "counter", name, "error", err)
			continue
		}
		k.once.right(path)
		values[name] = v
	}
}

// maxCounterBytes is more than any number in a file of sysfs has.
const maxCounterBytes = 64

// readCounter reads a file that holds one number.
func readCounter(path string) (uint64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxCounterBytes))
	if err := errors.Join(err, f.Close()); err != nil {
		return 0, err
	}
	v, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is no count", text)
	}
	return v, nil
}
