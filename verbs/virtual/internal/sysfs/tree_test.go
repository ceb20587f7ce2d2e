package sysfs

import (
	"flag"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rdma/sluice/units"
)

var update = flag.Bool("update", false, "write testdata/tree.golden")

func device() Device {
	return Device{
		Name: "mlx5_0", Node: "uverbs0", PCI: "0000:c1:00.0", PartID: 0x101d, Firmware: "22.36.1010", BoardID: "MT_0000000359",
		NodeGUID: 0xec0d9a03007d7d1b, Rate: 100 * units.Gbps, Active: true, Interface: "eth0",
		GIDs: []netip.Addr{netip.MustParseAddr("fe80::ee0d:9aff:fe7d:7d1b"), netip.MustParseAddr("192.0.2.1")}, GIDTable: 4,
	}
}

// TestTree compares the tree with a listing of its files, their text and their links.
// What the machine itself has, its processors, it leaves out.
func TestTree(t *testing.T) {
	dir := t.TempDir()
	devices := []Device{device()}
	if err := Write(dir, devices, true); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		name := strings.TrimPrefix(path, dir)
		switch {
		case err != nil || strings.Contains(name, "/local_cpu"):
		case e.Type()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			fmt.Fprintf(&got, "%s -> %s\n", name, to)
			return err
		case !e.IsDir():
			b, err := os.ReadFile(path)
			fmt.Fprintf(&got, "%s: %s\n", name, strings.ReplaceAll(strings.TrimSuffix(string(b), "\n"), "\n", " "))
			return err
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "tree.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("the tree differs (-want +got), go test -update writes it anew:\n%s", diff)
	}
}

// TestLinks follows all links that lead to other places of the tree: wherever the tree
// lies, none is broken.
func TestLinks(t *testing.T) {
	dir := t.TempDir()
	second := device()
	second.Name, second.Node, second.PCI = "mlx5_1", "uverbs1", "0000:c0:00.0"
	if err := Write(dir, []Device{device(), second}, true); err != nil {
		t.Fatal(err)
	}
	links := 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.Type()&fs.ModeSymlink == 0 {
			return err
		}
		if to, err := os.Readlink(path); err != nil || filepath.IsAbs(to) { // the machine's
			return err
		}
		links++
		_, err = os.Stat(path)
		return err
	})
	if err != nil || links == 0 {
		t.Errorf("%d links, %v", links, err)
	}
	for name, want := range map[string]string{
		"mlx5_0/device/infiniband/mlx5_0/node_guid":  "ec0d:9a03:007d:7d1b\n",
		"mlx5_1/device/infiniband_verbs/uverbs1/dev": "1:3\n",
	} {
		got, err := os.ReadFile(filepath.Join(dir, "sys/class/infiniband", name))
		if err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, expected %q", name, got, err, want)
		}
	}
}

func TestMask(t *testing.T) {
	for list, want := range map[string]string{
		"0":       "00000001",
		"0-1":     "00000003",
		"0-3,8":   "0000010f",
		"31-32":   "00000001,80000000",
		"64":      "00000001,00000000,00000000",
		"":        "00000000",
		"nothing": "00000000",
	} {
		if got := mask(list); got != want {
			t.Errorf("mask of %q: %s, expected %s", list, got, want)
		}
	}
}

func TestRate(t *testing.T) {
	for r, want := range map[units.Rate]string{
		7 * units.Gbps:    "10 Gb/sec (1X QDR)",
		10 * units.Gbps:   "10 Gb/sec (1X QDR)",
		25 * units.Gbps:   "25 Gb/sec (1X EDR)",
		100 * units.Gbps:  "100 Gb/sec (4X EDR)",
		101 * units.Gbps:  "200 Gb/sec (4X HDR)",
		1000 * units.Gbps: "400 Gb/sec (4X NDR)",
	} {
		if got := rate(r); got != want {
			t.Errorf("rate of %v: %s, expected %s", r, got, want)
		}
	}
}

// TestFreePCI takes no address that a machine has.
func TestFreePCI(t *testing.T) {
	free := FreePCI(3)
	if len(free) != 3 {
		t.Fatalf("expected 3 addresses, got %q", free)
	}
	for _, a := range free {
		if _, err := os.Stat("/sys/bus/pci/devices/" + a); err == nil {
			t.Errorf("the machine has %s", a)
		}
	}
}

// TestCounters writes counters twice: files have the later values, and nothing else is
// left.
func TestCounters(t *testing.T) {
	dir, d := t.TempDir(), device()
	if err := Write(dir, []Device{d}, false); err != nil {
		t.Fatal(err)
	}
	for _, bytes := range []uint64{1, 4098} {
		if err := WriteCounters(dir, &d, map[string]uint64{"rcvd_bytes": bytes, "sent_pkts": 2, "out_of_sequence": 3, "rx_no_qp": 4}); err != nil {
			t.Fatal(err)
		}
	}
	port := dir + "/sys/class/infiniband/mlx5_0/ports/1"
	var got []string
	for _, pattern := range []string{"/*counters/*", "/.*"} {
		names, err := filepath.Glob(port + pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, strings.TrimPrefix(name, port)+"="+strings.TrimSpace(string(b)))
		}
	}
	want := []string{"/counters/port_rcv_data=1024", "/counters/port_xmit_packets=2", "/hw_counters/out_of_sequence=3"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
