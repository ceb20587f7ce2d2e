package metrics

import (
	"fmt"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
)

// Devices collects what the devices of this process do: of a paced.Shim, itself
// and its queue pairs as sluice_NAME; of a provider that counts for itself, such
// as soft:, rdma_NAME_total{device,port} under the kernel's names where it has one
// for the same thing.
type Devices struct {
	once *complaints
	mu   sync.Mutex
	devs map[string]verbs.Device // by the label
}

// NewDevices returns a collector of no device yet.
func NewDevices() *Devices {
	return &Devices{once: newComplaints(slog.Default()), devs: map[string]verbs.Device{}}
}

// Add has dev collected until remove is called, which waits for a collection that
// is under way. The device must be open until then. Its label is its name, for the
// second of one name with #2 behind it, and so on.
func (d *Devices) Add(dev verbs.Device) (remove func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	label := dev.Name()
	for n := 2; d.devs[label] != nil; n++ {
		label = fmt.Sprintf("%s#%d", dev.Name(), n)
	}
	d.devs[label] = dev
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.devs, label)
	}
}

// Describe implements prometheus.Collector. The names depend on the devices, so
// the collector is unchecked.
func (d *Devices) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (d *Devices) Collect(ch chan<- prometheus.Metric) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for label, dev := range d.devs {
		if shim, ok := dev.(*paced.Shim); ok {
			collectShim(label, shim, ch)
			dev = shim.Unwrap()
		}
		// A simulated device's counters are for those who run its time: a scrape has no part in it.
		if c, ok := dev.(counting); ok && !verbs.Simulated(dev) {
			collectCounters(label, c, d.once, ch)
		}
	}
}
