package rxetest

import (
	"slices"
	"testing"

	"github.com/sluice-rdma/sluice/internal/rxeguest"
)

// TestOneGuest is what of this package runs under -short: in one guest rping and
// ib_write_bw meet Sluice, each as client and as server, and an engine over the kernel's
// soft-RoCE gets telemetry.
func TestOneGuest(t *testing.T) {
	if !testing.Short() {
		t.Skipf("without -short, TestSluice and TestIBVerbs have all of this")
	}
	m := newMeeting(t)
	dir, missing := t.TempDir(), noLibibverbs(t)
	if missing == "" {
		dir = buildWithIBVerbs(t, ibvCommand)
	}
	m.boot(t, rxeguest.Options{Dir: dir, CPUs: 2})
	for _, p := range slices.Concat(
		rping("IPv4", "", 0),
		perftest("IPv4", "write_bw", "-s 65536 -n 100", " 65536 +100 ", 0),
	) {
		t.Run(p.name, func(t *testing.T) { m.run(t, p) })
	}
	t.Run("telemetry", func(t *testing.T) {
		if missing != "" {
			t.Skip(missing)
		}
		writeTags(t, m.h, "tap0")
		m.runTagged(t, taggedPairs(t, dir)[0])
	})
}
