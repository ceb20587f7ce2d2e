package metrics

import (
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// A counting device keeps counters of its own, named as the kernel's where it has
// one for the same thing.
type counting interface{ Counters() map[string]uint64 }

// collectCounters tells what a device counts itself.
func collectCounters(device string, dev counting, log *complaints, ch chan<- prometheus.Metric) {
	emitCounters(dev.Counters(), device, "1", log, ch)
}

// emitCounters tells a port's counters. Where two names give one metric, which of the
// values it means can't be known: that metric is left out and named, others stay.
func emitCounters(values map[string]uint64, device, port string, log *complaints, ch chan<- prometheus.Metric) {
	of := map[string][]string{} // names by the metric's
	for _, name := range slices.Sorted(maps.Keys(values)) {
		of[plain(name)] = append(of[plain(name)], name)
	}
	for metric, names := range of {
		switch {
		case len(names) > 1:
			log.once(device+"/"+port+"/"+metric, "a metric is left out: several counters have its name",
				"metric", "rdma_"+metric+"_total", "device", device, "port", port, "counters", names)
		case ofInterface(metric):
			log.once(device+"/"+port+"/"+metric, "a counter is left out: a network interface's metric has its name",
				"metric", "rdma_"+metric+"_total", "device", device, "port", port)
		default:
			ch <- counter(metric, values[names[0]], device, port)
		}
	}
}

// counter is one counter of a device's port, by the metric's name: the help is the same
// for every device, or Prometheus' registry refuses the second.
func counter(metric string, value uint64, device, port string) prometheus.Metric {
	desc := prometheus.NewDesc("rdma_"+metric+"_total", "The counter "+metric+" of an RDMA device's port.", []string{"device", "port"}, nil)
	return prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(value), label(device), port)
}

// label is a name as a label's value, which has to be UTF-8; an interface's name may be
// any bytes.
func label(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }

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

// complaints logs each thing that is wrong once, until it is right again.
type complaints struct {
	log  *slog.Logger
	mu   sync.Mutex
	said map[string]bool
}

// maxComplaints bounds what is remembered, where devices come and go for months.
const maxComplaints = 10_000

func newComplaints(log *slog.Logger) *complaints {
	return &complaints{log: log, said: map[string]bool{}}
}

// once warns of what, if it has not done so yet.
func (c *complaints) once(what, message string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.said[what] || len(c.said) == maxComplaints {
		return
	}
	c.said[what] = true
	c.log.Warn(message, args...)
}

// right forgets what.
func (c *complaints) right(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.said, what)
}
