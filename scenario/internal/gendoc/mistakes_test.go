package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/bench"
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/scenario"
	"github.com/sluice-rdma/sluice/units"
)

// mistakes are put in the place of every value of the schema's examples, one at a
// time. Some are right for some keys.
var mistakes = []string{
	"-1", "0", "0.5", "1e300", "99999999999999999999", "nonsense", "''", "~", "{a: b}", "[]", "[-1]", "$x", "*x",
	"-1us", "1us", "200s", "1e9s", "10parsec", "-5Gbps", "1bps", "5Gbps", "-1KiB", "1B", "16KiB", "9999TiB", "h99", "tor0", "tor0->h99", "nope.txt",
}

var built = regexp.MustCompile(`^(topology|fabric|nic|shim|verbs)`)

// Whatever stands where a value belongs is an error that names the file, the line and
// the key, or it is a scenario that runs.
func TestMistakesArePointedAt(t *testing.T) {
	if testing.Short() {
		t.Skipf("-short: thousands of mistakes in every example")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "mistake.yaml")
	for name, text := range surroundings {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	all := scenario.Schema()
	for _, e := range cc.Schemes() {
		all = append(all, scenario.EngineSchema(e))
	}
	tried, refused, ran := 0, 0, 0
	for _, s := range all {
		text := example(&s)
		if text == "" {
			continue
		}
		text = within(text)
		lines := strings.Split(text, "\n")
		for i, line := range lines {
			key, value, ok := strings.Cut(line, ": ")
			if !ok || key == "extends" || strings.HasPrefix(key, "systems") || key == "topology" {
				continue
			}
			for _, wrong := range mistakes {
				lines[i] = key + ": " + wrong
				tried++
				sc, err := scenario.Parse(file, []byte(strings.Join(lines, "\n")))
				if err == nil {
					err = bench.CheckExpectations(sc)
				}
				// What the model is built from may be wrong as a whole.
				if err == nil && built.MatchString(s.Path) {
					sc.Duration, sc.Warmup = units.Nanosecond, 0
					ran++
					_, err = bench.Run(sc, bench.Options{})
				}
				if err == nil {
					continue
				}
				refused++
				var errs scenario.Errors
				if !errors.As(err, &errs) {
					t.Errorf("%s: %s: %T without a place: %v", s.Title(), lines[i], err, err)
					continue
				}
				for _, e := range errs {
					if filepath.Dir(e.Pos.File) != dir || e.Pos.Line == 0 || e.Key == "" {
						t.Errorf("%s: %s: %v", s.Title(), lines[i], e)
					}
				}
			}
			lines[i] = key + ": " + value
		}
	}
	t.Logf("%d mistakes tried, %d refused, %d ran", tried, refused, ran)
	if refused < 5000 || ran < 50 {
		t.Error("too few were refused or ran")
	}
}
