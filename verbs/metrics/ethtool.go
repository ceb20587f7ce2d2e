package metrics

import (
	"log/slog"
	"math"
	"regexp"
	"strings"

	"github.com/Mellanox/rdmamap"
	"github.com/prometheus/client_golang/prometheus"
)

// Netdevs collects what network interfaces below RDMA devices count of priority
// flow control (PFC), of pauses and of discards in their ethtool statistics, as
// rdma_NAME_total{device,port,netdev} and, by priority,
// rdma_NAME_total{device,port,netdev,priority}. Names are those of the driver mlx5
// without the priority's number; durations are in seconds. Statistics of other
// names are left out.
type Netdevs struct {
	stats func(netdev string) (map[string]uint64, error)
	log   *slog.Logger
	once  *complaints
}

// NewNetdevs returns the collector. stats reads an interface's statistics by name,
// as github.com/safchain/ethtool does (ETHTOOL_GSTATS); it may be called from several
// goroutines at once. Devices are looked up at each collection; what can't be read is
// logged.
func NewNetdevs(stats func(netdev string) (map[string]uint64, error), log *slog.Logger) *Netdevs {
	return &Netdevs{stats, log, newComplaints(log)}
}

// Describe implements prometheus.Collector. The names depend on the devices, so
// the collector is unchecked.
func (n *Netdevs) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (n *Netdevs) Collect(ch chan<- prometheus.Metric) {
	for _, device := range rdmamap.GetRdmaDeviceList() {
		for _, port := range rdmamap.GetPorts(device) {
			for _, netdev := range withLower(portNetdevs(device, port)) {
				stats, err := n.stats(netdev)
				if err != nil {
					n.log.Debug("no ethtool statistics", "device", device, "netdev", netdev, "error", err)
				}
				for name, value := range stats {
					m := ethtoolCounter(name, value, device, port, netdev)
					if m == nil {
						continue
					}
					if what := netdev + "/" + name; value == unreadStatistic {
						n.once.once(what, "a statistic can't be read and is left out", "netdev", netdev, "statistic", name)
					} else {
						n.once.right(what)
						ch <- m
					}
				}
			}
		}
	}
}

// unreadStatistic is what drivers give for a statistic that their firmware does not
// know; no count of the names below reaches it.
const unreadStatistic = math.MaxUint64

// mlx5's names (drivers/net/ethernet/mellanox/mlx5/core/en_stats.c): pauses are of a
// priority or, with IEEE 802.3x, global.
var (
	ofPriority = regexp.MustCompile(`^(rx|tx)_prio([0-7])_(pause|pause_duration|pause_transition|buf_discard|cong_discard|discards|marked)$`)
	ofPort     = regexp.MustCompile(`^((rx|tx)_global_(pause|pause_duration|pause_transition)|(rx|tx)_(discards|pause_ctrl)_phy|tx_pause_storm_(warning|error)_events)$`)
)

// ofMetric are the names that ofPriority's statistics have as metrics.
var ofMetric = regexp.MustCompile(`^(rx|tx)_prio_(pause|pause_duration_seconds|pause_transition|buf_discard|cong_discard|discards|marked)$`)

// ofInterface says whether a metric's name is one of a network interface's.
func ofInterface(metric string) bool {
	return ofMetric.MatchString(metric) || ofPort.MatchString(strings.TrimSuffix(metric, "_seconds"))
}

// ethtoolCounter is an interface's statistic, or nil if its name is none of the above.
func ethtoolCounter(name string, value uint64, device, port, netdev string) prometheus.Metric {
	labels, values := []string{"device", "port", "netdev"}, []string{label(device), port, label(netdev)}
	metric, help := name, name
	if m := ofPriority.FindStringSubmatch(name); m != nil {
		metric, help = m[1]+"_prio_"+m[3], m[1]+"_prioN_"+m[3]
		labels, values = append(labels, "priority"), append(values, m[2])
	} else if !ofPort.MatchString(name) {
		return nil
	}
	v := float64(value)
	if strings.HasSuffix(metric, "_duration") { // microseconds
		metric, v = metric+"_seconds", v/1e6
	}
	desc := prometheus.NewDesc("rdma_"+metric+"_total", "The ethtool statistic "+help+" of an RDMA device's network interface.", labels, nil)
	return prometheus.MustNewConstMetric(desc, prometheus.CounterValue, v, values...)
}
