package libsluice_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"
	"time"
)

// TestSimulatedIncast has two unmodified ib_write_bw send to one host in simulated time,
// under the preload library: TIMELY's round trips are shorter than those of segments
// without congestion control. SLUICE_METRICS changes nothing there: no scraper shares the time.
func TestSimulatedIncast(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skipf("programs run in simulated time on x86-64 alone, this is %s", runtime.GOARCH)
	}
	perftest, err := exec.LookPath("ib_write_bw")
	if err != nil {
		t.Skipf("perftest is not installed: %v", err)
	}
	sluice, lib := sluiceCommand(t)
	median := func(engine, config string) time.Duration {
		start := fmt.Sprintf("export LD_PRELOAD=$LD_PRELOAD:%s/libsluice-preload.so LD_LIBRARY_PATH=%[1]s SLUICE_CC=%s SLUICE_CC_CONFIG=\"%s\" SLUICE_STATS=1 SLUICE_METRICS=1; exec %s -d mlx5_0 -F -n 200", lib, engine, config, perftest)
		text := "name: incast\nduration: 20s\ntopology: {kind: star, hosts: 3}\nsystems: [{engine: none}]\nmeasure: {sample: 0, window: 100ms}\nprograms:\n"
		for i := range 2 {
			text += fmt.Sprintf("  - {host: h0, run: [sh, -c, '%s -p %d']}\n", start, 20000+i)
			text += fmt.Sprintf("  - {host: h%d, run: [sh, -c, '%s -p %d h0'], start: 1ms}\n", i+1, start, 20000+i)
		}
		file := filepath.Join(t.TempDir(), "incast.yaml")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		out := run(t, exec.CommandContext(t.Context(), sluice, "run", file))
		all := regexp.MustCompile(`ibv:mlx5_0, engine `+engine+`: 1 queue pairs, 200 requests \(0 failed\), 800 segments, 13107200 bytes, RTT p50 ([0-9.]+us)`).FindAllStringSubmatch(out, -1)
		if len(all) != 2 {
			t.Fatalf("%d programs were paced, expected 2\n%s", len(all), out)
		}
		d, err := time.ParseDuration(all[0][1])
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	free, steered := median("none", ""), median("timely", "t_low: 10us, t_high: 40us")
	if steered >= free {
		t.Errorf("round trips of %v with TIMELY and of %v without", steered, free)
	}
	t.Logf("median round trips: %v without an engine, %v with TIMELY", free, steered)
}

// sluiceCommand builds the command and libsluice-virtual.so.
func sluiceCommand(t *testing.T) (sluice, lib string) {
	dir, lib := build(t)
	for _, name := range []string{"libibverbs.so.1", "libmlx5.so.1"} {
		if found, err := filepath.Glob("/usr/lib/*/" + name); err != nil || len(found) == 0 {
			t.Skipf("%s is not installed: apt-get install ibverbs-providers", name)
		}
	}
	sluice = filepath.Join(dir, "sluice")
	if _, err := os.Stat(sluice); err != nil {
		if err := command("make", "-s", "-C", "..", "command", "libsluice-virtual", "BIN="+dir, "LIB="+filepath.Join(dir, "lib")); err != nil {
			t.Fatal(err)
		}
	}
	return sluice, lib
}
