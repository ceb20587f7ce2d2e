package metrics

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/Mellanox/rdmamap"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/sluice-rdma/sluice/verbs"
)

// What is no count has no sample, others stay, and the log says so once.
func TestCountersThatCantBeReadAreLeftOut(t *testing.T) {
	for what, text := range map[string]string{
		"not available": "N/A (no PMA)\n", "empty": "", "garbage": "12x\n", "negative": "-1\n", "overflow": "18446744073709551616\n",
		"two numbers": "1 2\n", "endless": strings.Repeat("1", 1<<20), "hexadecimal": "0x10\n", "unreadable": "",
	} {
		t.Run(what, func(t *testing.T) {
			sysfs(t, map[string]string{
				"mlx5_0/ports/1/counters/port_xmit_data":    text,
				"mlx5_0/ports/1/hw_counters/out_of_buffer":  text,
				"mlx5_0/ports/1/counters/port_rcv_data":     " 5000000\n",
				"mlx5_0/ports/1/hw_counters/np_cnp_sent":    text,
				"mlx5_0/ports/1/counters/np_cnp_sent":       "7\n", // not the device's own: it does not stand in for it
				"mlx5_0/ports/1/hw_counters/np_ecn_marked2": "0\n",
			})
			path := filepath.Join(rdmamap.RdmaClassDir, "mlx5_0/ports/1/counters/port_xmit_data")
			if what == "unreadable" { // as EINVAL: a file that opens, or not, and can't be read
				if err := errors.Join(os.Remove(path), os.Symlink("/proc/self/mem", path)); err != nil {
					t.Fatal(err)
				}
			}
			var log bytes.Buffer
			k := NewKernel(slog.New(slog.NewTextHandler(&log, nil)))
			want := `
				# HELP rdma_device_info An RDMA device of the kernel and its network interface; always 1.
				# TYPE rdma_device_info gauge
				rdma_device_info{device="mlx5_0",netdev=""} 1
				# HELP rdma_np_ecn_marked2_total The counter np_ecn_marked2 of an RDMA device's port.
				# TYPE rdma_np_ecn_marked2_total counter
				rdma_np_ecn_marked2_total{device="mlx5_0",port="1"} 0
				# HELP rdma_port_rcv_data_total The counter port_rcv_data of an RDMA device's port.
				# TYPE rdma_port_rcv_data_total counter
				rdma_port_rcv_data_total{device="mlx5_0",port="1"} 5e+06
			`
			for range 3 {
				if err := testutil.CollectAndCompare(k, strings.NewReader(want)); err != nil {
					t.Error(err)
				}
			}
			if n := strings.Count(log.String(), "counter=port_xmit_data"); n != 1 {
				t.Errorf("said %d times:\n%s", n, &log)
			}
			// When it can be read again it is there, and may be told of again.
			if err := errors.Join(os.Remove(path), os.WriteFile(path, []byte("5\n"), 0o644)); err != nil {
				t.Fatal(err)
			}
			if n := testutil.CollectAndCount(k, "rdma_port_xmit_data_total"); n != 1 {
				t.Errorf("%d samples of a counter that can be read", n)
			}
			if err := os.WriteFile(path, []byte("N/A\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			testutil.CollectAndCount(k)
			if n := strings.Count(log.String(), "counter=port_xmit_data"); n != 2 {
				t.Errorf("said %d times, not twice:\n%s", n, &log)
			}
		})
	}
}

// gathered has no error, whatever a collector gives.
func gathered(t *testing.T, c prometheus.Collector) []string {
	t.Helper()
	reg := prometheus.NewRegistry()
	reg.MustRegister(c)
	return written(t, reg)
}

// Names that collide cost their own metric and no other.
func TestNamesThatCollide(t *testing.T) {
	sysfs(t, map[string]string{
		"mlx5_0/ports/1/counters/Foo":                "1\n",
		"mlx5_0/ports/1/counters/foo":                "2\n",
		"mlx5_0/ports/1/counters/a-b":                "3\n",
		"mlx5_0/ports/1/hw_counters/a_b":             "4\n",
		"mlx5_0/ports/1/hw_counters/rx_discards_phy": "5\n",
		"mlx5_0/ports/1/hw_counters/kept":            "6\n",
		"rxe0/ports/1/hw_counters/KEPT":              "7\n", // one metric of two devices, spelled in two ways
	})
	var log bytes.Buffer
	k := NewKernel(slog.New(slog.NewTextHandler(&log, nil)))
	for range 2 {
		all := strings.Join(gathered(t, k), "\n")
		for want, n := range map[string]int{
			`rdma_a_b_total{device="mlx5_0",port="1"} 4`: 1, `rdma_kept_total{device="mlx5_0",port="1"} 6`: 1, `rdma_kept_total{device="rxe0",port="1"} 7`: 1,
			"rdma_foo_total": 0, "rdma_rx_discards_phy_total": 0,
		} {
			if strings.Count(all, want) != n {
				t.Errorf("%d times %s in:\n%s", strings.Count(all, want), want, all)
			}
		}
	}
	for _, metric := range []string{"rdma_foo_total", "rdma_rx_discards_phy_total"} {
		if n := strings.Count(log.String(), "metric="+metric); n != 1 {
			t.Errorf("%s is named %d times:\n%s", metric, n, &log)
		}
	}
	// Of a device that counts itself too.
	devices := NewDevices()
	devices.once = newComplaints(quiet)
	devices.Add(struct {
		verbs.Device
		counts
	}{named("soft:lo"), counts{"A": 1, "a": 2, "b": 3}})
	all := strings.Join(gathered(t, devices), "\n")
	if strings.Contains(all, "rdma_a_total") || !strings.Contains(all, `rdma_b_total{device="soft:lo",port="1"} 3`) {
		t.Error(all)
	}
}

// An interface that makes rdmamap panic costs its own name and nothing else.
func TestAnInterfaceWithoutAddress(t *testing.T) {
	sysfs(t, map[string]string{
		"mlx5_0/ports/1/counters/port_xmit_data": "1\n",
		"mlx5_0/node_guid":                       "0002:c903:0000:0001\n",
	})
	before := rdmaDeviceOf
	t.Cleanup(func() { rdmaDeviceOf = before })
	calls := 0
	rdmaDeviceOf = func(string) (string, error) {
		if calls++; calls == 1 {
			var none []byte
			return fmt.Sprint(none[12:]), nil
		}
		return "mlx5_0", nil
	}
	all := strings.Join(gathered(t, NewKernel(quiet)), "\n")
	if calls == 0 || !strings.Contains(all, `rdma_port_xmit_data_total{device="mlx5_0",port="1"} 1`) {
		t.Errorf("%d calls:\n%s", calls, all)
	}
}

// A driver says by all ones that it has no statistic; an interface's name may be any
// bytes.
func TestStatisticsThatCantBeRead(t *testing.T) {
	sysfs(t, map[string]string{"mlx5_0/ports/1/gid_attrs/ndevs/0": "et\xffh\n", "mlx5_0/ports/1/counters/a": "1\n"})
	var log bytes.Buffer
	n := NewNetdevs(func(string) (map[string]uint64, error) {
		return map[string]uint64{"rx_prio3_pause": math.MaxUint64, "rx_discards_phy": 4}, nil
	}, slog.New(slog.NewTextHandler(&log, nil)))
	for range 2 {
		all := strings.Join(append(gathered(t, n), gathered(t, NewKernel(quiet))...), "\n")
		if strings.Contains(all, "rx_prio_pause") || !strings.Contains(all, "rdma_rx_discards_phy_total{device=\"mlx5_0\",netdev=\"et\uFFFDh\",port=\"1\"} 4") {
			t.Error(all)
		}
	}
	if n := strings.Count(log.String(), "statistic=rx_prio3_pause"); n != 1 {
		t.Errorf("said %d times:\n%s", n, &log)
	}
}
