package sysfs

import (
	"os"
	"path/filepath"
	"strconv"
)

// portCounters are the files of a port's counters directory, which are the PortCounters
// of InfiniBand (IBA 16.1.3.5 and PortCountersExtended): the names by which a soft:
// device counts the same, and how many of these make 1. Data are in words of 4 bytes.
var portCounters = map[string]struct {
	of  string
	per uint64
}{
	"port_rcv_packets":  {"rcvd_pkts", 1},
	"port_rcv_data":     {"rcvd_bytes", 4},
	"port_xmit_packets": {"sent_pkts", 1},
	"port_xmit_data":    {"sent_bytes", 4},
}

// hardwareCounters are the files of hw_counters that the mlx5 driver has and a soft: or
// sim: device counts, under the same names.
var hardwareCounters = []string{
	"duplicate_request", "implied_nak_seq_err", "local_ack_timeout_err", "np_cnp_sent", "np_ecn_marked_roce_packets",
	"out_of_buffer", "out_of_sequence", "packet_seq_err", "req_remote_access_errors", "req_remote_invalid_request",
	"resp_local_length_error", "resp_remote_access_errors", "rnr_nak_retry_err", "roce_adp_retrans", "roce_adp_retrans_to",
	"roce_slow_restart", "roce_slow_restart_cnps", "roce_slow_restart_trans", "rp_cnp_handled", "rp_cnp_ignored",
	"rx_atomic_requests", "rx_read_requests", "rx_write_requests",
}

// WriteCounters writes what a device has counted, by the names of a soft: or sim: device, into
// its port's counters and hw_counters in the tree at dir. What it does not count has no
// file. Programs may read them meanwhile.
func WriteCounters(dir string, d *Device, counted map[string]uint64) error {
	port := dir + d.dir() + "/infiniband/" + d.Name + "/ports/1"
	for name, c := range portCounters {
		if n, ok := counted[c.of]; ok {
			if err := replace(port+"/counters", name, strconv.FormatUint(n/c.per, 10)); err != nil {
				return err
			}
		}
	}
	for _, name := range hardwareCounters {
		if n, ok := counted[name]; ok {
			if err := replace(port+"/hw_counters", name, strconv.FormatUint(n, 10)); err != nil {
				return err
			}
		}
	}
	return nil
}

// replace has a file be either what it was or what it is to be.
func replace(dir, name, text string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	fresh := filepath.Join(filepath.Dir(dir), "."+name)
	if err := os.WriteFile(fresh, []byte(text+"\n"), 0o444); err != nil {
		return err
	}
	return os.Rename(fresh, filepath.Join(dir, name))
}
