package workload_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/scenario"
)

// sized is a scenario whose flows have sizes from a file beside it, or as given.
func sized(t *testing.T, file, sizes string) (*scenario.Scenario, error) {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "sizes.cdf", file)
	return scenario.Load(write(t, dir, "sized.yaml", network16+"workloads:\n  - {kind: poisson, load: 0.5, flows: 2000, sizes: "+sizes+"}\n"))
}

// The field's forms of one distribution are read alike.
func TestSizeFiles(t *testing.T) {
	for name, c := range map[string]struct{ file, sizes string }{
		"HPCC's percent":    {"0 0\n10000 50\n30000 100\n", "sizes.cdf"},
		"htsim's fractions": {"0 0.0\n10000 0.5\n30000 1.0\n", "sizes.cdf"},
		"Homa's":            {"12500\n0 0\n10000 0.5\n30000 1\n", "./sizes.cdf"},
		"ABM's CSV":         {"0,0\r\n10000,0.5\r\n30000,1", "sizes.cdf"},
		"a heading":         {"size,cdf\n# bytes\n\n0, 0\n10000, 0.5\n30000, 1\n", "sizes.cdf"},
		"points":            {"", "[[0, 0], [10KB, 50], [30000, 100]]"},
	} {
		s, err := sized(t, c.file, c.sizes)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if n := s.Notes(); len(n) != 1 || !strings.HasSuffix(n[0], "flow sizes of 3 points, with a mean of 12500 bytes") {
			t.Errorf("%s: notes %q", name, n)
		}
		sum, n := 0., 0.
		for _, f := range take(s, 1, 2000) {
			sum, n = sum+float64(f.Size), n+1
		}
		if mean := sum / n; math.Abs(mean-12500) > 800 {
			t.Errorf("%s: mean %v of %v", name, mean, n)
		}
		text, err := s.YAML()
		if err != nil {
			t.Fatal(err)
		}
		again, err := scenario.Parse("again.yaml", text)
		if err != nil {
			t.Errorf("%s: %v in\n%s", name, err, text)
		} else if a, b := take(s, 1, 20), take(again, 1, 20); fmt.Sprint(a) != fmt.Sprint(b) {
			t.Errorf("%s: read back, the scenario has other flows", name)
		}
	}
}

func TestSizeFileErrors(t *testing.T) {
	for name, c := range map[string]struct{ file, want string }{
		"empty":          {"", "sizes.cdf:1: there is no point"},
		"comments alone": {"# a\n", "there is no point"},
		"not rising":     {"0 0\n100 10\n100 20\n200 100\n", "sizes.cdf:3: the size 100 does not rise, after 100"},
		"falling":        {"0 0\n100 60\n150 20\n200 100\n", "sizes.cdf:3: the share 20 falls, after 60"},
		"no end":         {"0 0\n100 0.5\n200 0.9\n", "sizes.cdf:3: the last share is 0.9: end at 1"},
		"no end percent": {"0 0\n100 50\n200 99\n", "sizes.cdf:3: the last share is 99: end at 1"},
		"above":          {"0 0\n100 50\n200 101\n", `sizes.cdf:3: "101" is no share`},
		"negative size":  {"-5 0\n100 1\n", `sizes.cdf:1: "-5" is no size in bytes`},
		"negative share": {"5 -0.5\n100 1\n", `sizes.cdf:1: "-0.5" is no share`},
		"NaN":            {"0 0\nNaN 0.5\n100 1\n", `sizes.cdf:2: "NaN" is no size in bytes`},
		"NaN share":      {"0 0\n50 nan\n100 1\n", `sizes.cdf:2: "nan" is no share`},
		"infinite":       {"0 0\nInf 1\n", `sizes.cdf:2: "Inf" is no size in bytes`},
		"three words":    {"0 0\n1 1 0.5\n2 1 1\n", "sizes.cdf:2: there are 3 words where a point has 2"},
		"only a mean":    {"1000\n", "there is no point"},
		"nothing":        {"0 1\n", "all flows would be empty"},
	} {
		if _, err := sized(t, c.file, "sizes.cdf"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
	for sizes, want := range map[string]string{
		"other.cdf":                "workloads[0].sizes: there is no file ",
		"[]":                       "there is no point",
		"[[0, 0], [1KB, 0.5]]":     "the last share is 0.5",
		"[[0, 0], [1KB]]":          "workloads[0].sizes[1]: a point is a size and a share",
		"[[0, 0], 1KB]":            "workloads[0].sizes[1]: a point is a size and a share",
		"[[2KB, 0], [1KB, 1]]":     "workloads[0].sizes[1]: the size 1000 does not rise",
		"[[0, 0], [1 furlong, 1]]": `"1 furlong" is no size`,
	} {
		if _, err := sized(t, "", sizes); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", sizes, err, want)
		}
	}
}
