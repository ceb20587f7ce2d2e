package harness_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/internal/racedetector"
)

// TestFourPaths has two processes send by the plugin, in simulated time, over four queue pairs with a path each, one of
// them ten times as slow as the others (testdata/four-paths.yaml): by delay they get nearly what max-min gives the four,
// round robin four times the slow path's. docs/nccl.md has the table.
func TestFourPaths(t *testing.T) {
	simulates(t)
	// A packet of 4096 bytes has headers of 82 on the wire: Ethernet with preamble and gap, IPv4, UDP, BTH, ICRC.
	const maxMin = (3*25 + 2.5) * 4096 / (4096 + 82)
	const most = 1.01 // messages end several at a time, at either end of the measurement
	for _, c := range []struct {
		kib, messages int
		balance       string
		least, most   float64
		long          bool
	}{
		{512, 200, "delay", 0.9, most, false},
		{512, 200, "roundrobin", 0, 0.15, true},
		{64, 1000, "delay", 0.9, most, true},
		{64, 1000, "roundrobin", 0, 0.15, true},
		{4096, 40, "delay", 0.9, most, true},
		{4096, 40, "roundrobin", 0, 0.15, true},
	} {
		t.Run(fmt.Sprintf("%s, %d KiB", c.balance, c.kib), func(t *testing.T) {
			if c.long && testing.Short() {
				t.Skip("-short: each of these takes seconds, and half a minute on a loaded machine")
			}
			rate, out := simulatedRate(t, c.kib, c.messages, c.balance)
			t.Logf("%s, messages of %d KiB: %.2f Gbit/s, %.1f %% of the max-min share", c.balance, c.kib, rate, 100*rate/maxMin)
			if share := rate / maxMin; share < c.least || share > c.most {
				t.Errorf("%.1f %% of the max-min share of %.2f Gbit/s, expected %v to %v:\n%s", 100*share, maxMin, 100*c.least, 100*c.most, out)
			}
			if c.balance == "delay" && c.kib == 512 && !testing.Short() {
				if again, _ := simulatedRate(t, c.kib, c.messages, c.balance); again != rate {
					t.Errorf("%v Gbit/s, and %v in a second run", rate, again)
				}
			}
		})
	}
}

// simulates skips a test where programs do not run in simulated time.
func simulates(t *testing.T) {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skipf("programs run in simulated time on x86-64 alone, this is %s", runtime.GOARCH)
	}
	if racedetector.On {
		t.Skip("a simulation on one goroutine: the other tests have the command's goroutines for the race detector")
	}
	built(t)
	mlx5(t)
}

// simulatedRate runs the scenario, and fails if not all four paths carry data.
func simulatedRate(t *testing.T, kib, messages int, balance string) (gbps float64, out string) {
	t.Helper()
	scenario, err := filepath.Abs("testdata/four-paths.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "results.json")
	out, err = run(t, []string{
		"SLUICE_VIRTUAL_LIB=" + filepath.Join(dir, "libsluice-virtual.so"), "SLUICE_NCCL_FLOW_LABEL=12", "SLUICE_NCCL_BALANCE=" + balance,
		fmt.Sprintf("RATE_SIZE=%d", kib<<10), fmt.Sprintf("RATE_MESSAGES=%d", messages),
	}, "sluice", "run", scenario, "--json", file)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	m := regexp.MustCompile(`rate ([0-9.]+) Gbit/s`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("no rate:\n%s", out)
	}
	if gbps, err = strconv.ParseFloat(m[1], 64); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Results []struct {
			Topology struct {
				Links []struct{ Link string }
			}
			Systems []struct {
				LinkUse struct{ Busy []float64 } `json:"link_use"`
			}
		}
	}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	busy := 0
	for i, l := range all.Results[0].Topology.Links {
		if strings.HasPrefix(l.Link, "left->p") && all.Results[0].Systems[0].LinkUse.Busy[i] > 0.005 {
			busy++
		}
	}
	if busy != 4 {
		t.Fatalf("the four queue pairs take %d of four paths: another SLUICE_NCCL_FLOW_LABEL is needed", busy)
	}
	return gbps, out
}
