package harness_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Two NICs a side, of which the plugin makes one device.
var merged = []string{"FAKEVERBS_DEVICES=fake0,fake1,fake2,fake3", "HARNESS_MERGE=2", "SLUICE_NCCL_QPS=2"}

// properties are those that RCCL's tests of its network plugin state (ROCm/rocm-systems #6145, twelve by name; #5931 and
// #6948), each as a test of testdata/harness.c, which has what it does. Those of threads and of a queue pair's type
// that are RCCL's own are stated as what they are for.
var properties = []struct {
	name, test string
	env        []string
}{
	{"FailoverErrorCodeWhitelist", "fault_statuses", nil},
	{"FailoverCqeErrorRecovered", "fault_each", merged},
	{"FailoverSingleDeviceTopology", "fault_all", []string{"SLUICE_NCCL_QPS=1"}},
	{"FailoverAllDevicesFailed", "fault_all", merged},
	{"FailoverLargeMessageDataIntegrity", "fault_device", merged},
	{"FailoverDeviceOneFailure", "fault_device", merged},
	{"FailoverMultiRequestInFlight", "fault_in_flight", merged},
	{"RecoveryThreadStartedOnlyWithParam", "fault_no_back", append([]string{"NCCL_IB_RESILIENCY_PORT_RECOVERY=0", "SLUICE_NCCL_PROBE=1"}, merged...)},
	{"RecoverySuccessRestoresTraffic", "fault_back", append([]string{"SLUICE_NCCL_PROBE=1"}, merged...)},
	{"RecoveryPendingWhileLinkDown", "fault_pending", append([]string{"SLUICE_NCCL_PROBE=1"}, merged...)},
	{"RecoveryDeviceOneFailure", "fault_back", append([]string{"SLUICE_NCCL_PROBE=1"}, merged...)},
	{"RecoveryUdTimeoutExhaustsAttempts", "fault_pending", append([]string{"SLUICE_NCCL_PROBE=1"}, merged...)},
	{"FaultInjCastQpErrorIsFatal", "fault_refused", nil},
	{"FaultInjCastSingleQpErrorIsFatal", "fault_refused", merged},
	{"FaultInjCastOpsPostSendErrno", "fault_refused", nil},
	{"FaultInjCastDelayDataIntegrity", "fault_slow", nil},
	{"FaultInjCastSlowQpRebalances", "fault_slow", merged}, // and TestFourPaths, which measures it
	{"one device, several queue pairs", "fault_each fault_in_flight", nil},
	{"one device, back", "fault_back fault_pending", []string{"SLUICE_NCCL_PROBE=1"}},
	{"the receiver is idle", "fault_idle", nil},
	{"the socket is of no use", "fault_deaf", nil},
	{"failover is off", "fault_no_over", []string{"NCCL_IB_RESILIENCY_PORT_FAILOVER=0"}},
	{"round robin", "fault_each fault_device fault_in_flight", append([]string{"SLUICE_NCCL_BALANCE=roundrobin"}, merged...)},
}

// TestFailures has queue pairs fail, by two threads with the sanitizers.
func TestFailures(t *testing.T) {
	built(t)
	for _, p := range properties {
		t.Run(p.name, func(t *testing.T) {
			out, err := run(t, fake(t, p.env...), "asan/harness", append([]string{"./asan/plugin.so", "12", "threads"}, strings.Fields(p.test)...)...)
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestMerged: what holds of a device holds of one that is made of two, in each version that has this.
func TestMerged(t *testing.T) {
	built(t)
	for _, v := range []string{"9", "10", "11", "12"} {
		args := append([]string{"./asan/plugin.so", v, "threads"}, strings.Fields(both)...)
		if out, err := run(t, fake(t, merged...), "asan/harness", args...); err != nil {
			t.Errorf("v%s: %v\n%s", v, err, out)
		}
	}
}

// TestStorm does random things to queue pairs at random times, by seed. docs/nccl.md says how many have run once.
func TestStorm(t *testing.T) {
	built(t)
	seeds := 50
	if testing.Short() {
		seeds = 10
	}
	for name, env := range map[string][]string{"one device": nil, "two devices": merged} {
		t.Run(name, func(t *testing.T) {
			env := append([]string{"SLUICE_NCCL_PROBE=1", fmt.Sprintf("STORM_SEEDS=%d", seeds)}, env...)
			out, err := run(t, fake(t, env...), "asan/harness", "./asan/plugin.so", "12", "threads", "storm")
			if err != nil || !strings.Contains(out, fmt.Sprintf("storm: seeds 1 to %d: ", seeds)) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestFailuresOnMLX5 is the same over the system's libibverbs and libmlx5, by two processes on emulated ConnectX.
func TestFailuresOnMLX5(t *testing.T) {
	built(t)
	mlx5(t)
	env := append([]string{"SLUICE_VIRTUAL_LIB=" + filepath.Join(dir, "libsluice-virtual.so"), "SLUICE_NCCL_PROBE=5", "STORM_SEEDS=20"}, merged[1:]...)
	tests := "fault_statuses fault_each fault_in_flight fault_device fault_all fault_back fault_idle storm"
	if testing.Short() {
		tests = "fault_each fault_all"
	}
	args := append([]string{"virtual", "-n", "4", "--", "./harness", "./" + plugin, "12", "processes"}, strings.Fields(tests)...)
	if out, err := run(t, env, "sluice", args...); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestLatePackets has a path hold its packets for longer than a queue pair waits, and then deliver them, in simulated time:
// what they carry has gone by other paths meanwhile, and its memory is used again. The queue pairs come back. Twice the
// same.
func TestLatePackets(t *testing.T) {
	simulates(t)
	scenario, err := filepath.Abs("testdata/late.yaml")
	if err != nil {
		t.Fatal(err)
	}
	late := func() string {
		out, err := run(t, []string{
			"SLUICE_VIRTUAL_LIB=" + filepath.Join(dir, "libsluice-virtual.so"), "SLUICE_NCCL_FLOW_LABEL=12",
			"SLUICE_NCCL_PROBE=5", "NCCL_IB_TIMEOUT=8", "NCCL_IB_RETRY_CNT=2",
		}, "sluice", "run", scenario)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return regexp.MustCompile(`late: .*`).FindString(out)
	}
	first := late()
	t.Log(first)
	var messages, again int
	if n, err := fmt.Sscanf(first, "late: %d messages, %d queue pairs", &messages, &again); n != 2 || again == 0 {
		t.Errorf("%q: no queue pair failed and came back (%v)", first, err)
	}
	if testing.Short() {
		return
	}
	if second := late(); second != first {
		t.Errorf("%q, and in a second run %q", first, second)
	}
}

// TestPortDies has a host's port die for 2 ms under an all-reduce of eight ranks, in simulated time. docs/nccl.md has what it
// costs.
func TestPortDies(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: eight programs in simulated time take half a minute")
	}
	simulates(t)
	scenario, err := filepath.Abs("testdata/port.yaml")
	if err != nil {
		t.Fatal(err)
	}
	out, err := run(t, []string{
		"SLUICE_VIRTUAL_LIB=" + filepath.Join(dir, "libsluice-virtual.so"), "SLUICE_NCCL_FLOW_LABEL=100", "SLUICE_NCCL_QPS=16",
		"SLUICE_NCCL_PROBE=1", "NCCL_IB_TIMEOUT=6", "NCCL_IB_RETRY_CNT=2", "RING_SIZE=1048576", "RING_TIMES=24", "HARNESS_LOUD=1",
	}, "sluice", "run", scenario)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var ranks, times, size int
	var all, median, longest, last float64
	ring := out[max(0, strings.Index(out, "ring: ")):]
	if _, err := fmt.Sscanf(ring, "ring: %d ranks, %d all-reduces of %d bytes in %f s: median %f ms, longest %f ms, last %f ms",
		&ranks, &times, &size, &all, &median, &longest, &last); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	failed, back, repeated := strings.Count(out, "is given up"), strings.Count(out, "carries messages again"), 0
	for _, m := range regexp.MustCompile(`(\d+) bytes are sent again`).FindAllStringSubmatch(out, -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		repeated += n
	}
	t.Logf("an all-reduce takes %.3f ms, the longest %.3f; %d ends of queue pairs failed, %d came back, %d bytes were sent again", median, longest, failed, back, repeated)
	const retries = 3 * 0.262144 // ms, in which a queue pair gives up
	if failed == 0 || back != failed || repeated == 0 || last > 1.1*median {
		t.Errorf("expected failures, all back, something sent again, and then %v ms again:\n%s", median, out)
	}
	if outage := longest - median; outage < retries || outage > 4*retries {
		t.Errorf("an outage of %v ms, expected that of one queue pair that gives up, %v ms, to four", outage, retries)
	}
}
