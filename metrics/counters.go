package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// A counting device keeps counters of its own, named as the kernel's where it has
// one for the same thing.
type counting interface{ Counters() map[string]uint64 }

// collectCounters tells what a device counts itself.
func collectCounters(device string, dev counting, ch chan<- prometheus.Metric) {
	for name, value := range dev.Counters() {
		ch <- counter(name, value, device, "1")
	}
}

// counter is one counter of a device's port.
func counter(name string, value uint64, device, port string) prometheus.Metric {
	desc := prometheus.NewDesc("rdma_"+plain(name)+"_total", "The counter "+name+" of an RDMA device's port.", []string{"device", "port"}, nil)
	return prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(value), device, port)
}

// plain is a counter's name without what a metric's may not hold.
func plain(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '_':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '_'
	}, name)
}
