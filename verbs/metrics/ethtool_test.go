package metrics

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// mlx5Sysfs lays out a device of two ports, the first over a bond of two
// interfaces, and one of a link that is InfiniBand.
func mlx5Sysfs(t *testing.T) {
	t.Helper()
	sysfs(t, map[string]string{
		"mlx5_bond_0/ports/1/gid_attrs/ndevs/0":    "bond0\n",
		"mlx5_bond_0/ports/1/gid_attrs/ndevs/1":    "bond0\n",
		"mlx5_bond_0/ports/1/gid_attrs/ndevs/2":    "bond0.7\n",
		"mlx5_bond_0/ports/2/gid_attrs/ndevs/0":    "eth2\n",
		"mlx5_ib/ports/1/counters/port_xmit_data":  "1\n",
		"mlx5_none/ports/1/gid_attrs/ndevs/0":      "gone0\n",
		"mlx5_none/ports/1/counters/port_rcv_data": "2\n",
	})
	before := netClassDir
	netClassDir = t.TempDir()
	t.Cleanup(func() { netClassDir = before })
	for _, lower := range []string{"bond0/lower_eth0", "bond0/lower_eth1", "bond0.7/lower_bond0"} {
		if err := os.MkdirAll(filepath.Join(netClassDir, lower), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// mlx5Stats stands in for the ioctl over mlx5 interfaces: no machine of the tests
// has one. Names are those of the driver; values tell where they were read.
func mlx5Stats(netdev string) (map[string]uint64, error) {
	of := map[string]map[string]uint64{
		"bond0": {},
		"eth0": {
			"rx_prio3_pause": 11, "rx_prio3_pause_duration": 1_500_000, "rx_prio3_pause_transition": 5, "tx_prio3_pause": 12,
			"tx_prio3_pause_duration": 250_000,
			"rx_prio3_buf_discard":    13, "rx_prio3_cong_discard": 14, "rx_prio3_discards": 15, "rx_prio3_marked": 16,
			"rx_prio0_pause": 1, "rx_prio3_bytes": 99, "rx_prio8_pause": 99, "rx3_packets": 99, "rx_packets": 99,
		},
		"eth1": {"rx_prio3_pause": 21, "rx_global_pause": 22, "tx_global_pause_duration": 2_000_000, "rx_global_pause_duration": 3_000_000},
		"eth2": {"rx_discards_phy": 31, "tx_discards_phy": 32, "tx_pause_storm_error_events": 33, "rx_pause_ctrl_phy": 34},
	}
	if of[netdev] == nil {
		return nil, errors.New("no such device")
	}
	return maps.Clone(of[netdev]), nil
}

func TestPausesAndDiscards(t *testing.T) {
	mlx5Sysfs(t)
	samples := map[string][]string{
		"rx_prio_pause":                    {`netdev="eth0",port="1",priority="0"} 1`, `netdev="eth0",port="1",priority="3"} 11`, `netdev="eth1",port="1",priority="3"} 21`},
		"rx_prio_pause_duration_seconds":   {`netdev="eth0",port="1",priority="3"} 1.5`},
		"rx_prio_pause_transition":         {`netdev="eth0",port="1",priority="3"} 5`},
		"tx_prio_pause_duration_seconds":   {`netdev="eth0",port="1",priority="3"} 0.25`},
		"rx_global_pause_duration_seconds": {`netdev="eth1",port="1"} 3`},
		"tx_prio_pause":                    {`netdev="eth0",port="1",priority="3"} 12`},
		"rx_prio_buf_discard":              {`netdev="eth0",port="1",priority="3"} 13`},
		"rx_prio_cong_discard":             {`netdev="eth0",port="1",priority="3"} 14`},
		"rx_prio_discards":                 {`netdev="eth0",port="1",priority="3"} 15`},
		"rx_prio_marked":                   {`netdev="eth0",port="1",priority="3"} 16`},
		"rx_global_pause":                  {`netdev="eth1",port="1"} 22`},
		"tx_global_pause_duration_seconds": {`netdev="eth1",port="1"} 2`},
		"rx_discards_phy":                  {`netdev="eth2",port="2"} 31`},
		"tx_discards_phy":                  {`netdev="eth2",port="2"} 32`},
		"tx_pause_storm_error_events":      {`netdev="eth2",port="2"} 33`},
		"rx_pause_ctrl_phy":                {`netdev="eth2",port="2"} 34`},
	}
	var want strings.Builder
	for name, lines := range samples {
		statistic := strings.Replace(strings.TrimSuffix(name, "_seconds"), "_prio_", "_prioN_", 1)
		want.WriteString("# HELP rdma_" + name + "_total The ethtool statistic " + statistic + " of an RDMA device's network interface.\n")
		want.WriteString("# TYPE rdma_" + name + "_total counter\n")
		for _, line := range lines {
			want.WriteString("rdma_" + name + `_total{device="mlx5_bond_0",` + line + "\n")
		}
	}
	if err := testutil.CollectAndCompare(NewNetdevs(mlx5Stats, quiet), strings.NewReader(want.String())); err != nil {
		t.Error(err)
	}
	problems, err := testutil.CollectAndLint(NewNetdevs(mlx5Stats, quiet))
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// A device's interface is known without one that can be looked up.
func TestDeviceInfoNamesTheInterface(t *testing.T) {
	mlx5Sysfs(t)
	want := `
		# HELP rdma_device_info An RDMA device of the kernel and its network interface; always 1.
		# TYPE rdma_device_info gauge
		rdma_device_info{device="mlx5_bond_0",netdev="bond0"} 1
		rdma_device_info{device="mlx5_ib",netdev=""} 1
		rdma_device_info{device="mlx5_none",netdev="gone0"} 1
	`
	if err := testutil.CollectAndCompare(NewKernel(quiet), strings.NewReader(want), "rdma_device_info"); err != nil {
		t.Error(err)
	}
}
