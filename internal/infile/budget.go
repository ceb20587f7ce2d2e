package infile

import (
	"runtime/metrics"
	"time"

	"github.com/sluice-rdma/sluice/units"
)

// What any document of up to 4 MB is read or refused within. Fuzz targets hold readers to
// it by Within.
const (
	Budget  = 256 * units.MiB
	Seconds = 5
)

// Allocated returns how many bytes the process allocates while f runs. What it has at a
// time is less.
func Allocated(f func()) units.Bytes {
	before := allocated()
	f()
	return units.Bytes(allocated() - before) //nolint:gosec // a count of bytes
}

// Within is Allocated for fuzz targets, whose input is short: t fails if f takes longer than
// Seconds, or allocates more than Budget.
func Within(t interface {
	Helper()
	Errorf(format string, args ...any)
}, f func(),
) units.Bytes {
	t.Helper()
	began := time.Now()
	used := Allocated(f)
	if took := time.Since(began); took > Seconds*time.Second {
		t.Errorf("took %v", took)
	}
	if used > Budget {
		t.Errorf("allocated %v", used)
	}
	return used
}

func allocated() uint64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
