package core

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/internal/ctest"
)

// BenchmarkC measures what C's core adds to a segment, with TIMELY on each or spared: the
// medians of testdata/overhead.c, in nanoseconds.
func BenchmarkC(b *testing.B) {
	const src = "../../../../libsluice/internal/ccore/src"
	program := filepath.Join(b.TempDir(), "overhead")
	ctest.Compile(b, "-O2", "-finline-functions", "-finline-limit=400", "-I"+src, "-o", program, "testdata/overhead.c", src+"/sluice_core.c")
	for _, how := range []string{"steered", "bypass"} {
		for _, qps := range []string{"1", "1000"} {
			b.Run(how+"/qps="+qps, func(b *testing.B) {
				least := 0.0
				for b.Loop() {
					out, err := exec.Command(program, qps, how).Output()
					if err != nil {
						b.Fatal(err)
					}
					ns, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
					if err != nil {
						b.Fatal(err)
					}
					if least == 0 || ns < least {
						least = ns
					}
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(least, "ns/segment")
			})
		}
	}
}
