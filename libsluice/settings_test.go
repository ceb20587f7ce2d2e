package libsluice_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/sluice-rdma/sluice/cc"
	_ "github.com/sluice-rdma/sluice/cc/all"
	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/units"
)

// reader is testdata/settings.c, built once.
var reader struct {
	once sync.Once
	dir  string
	err  error
}

func settings(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skipf("no C compiler: %v", err)
	}
	if err := exec.Command("pkg-config", "--exists", "libibverbs").Run(); err != nil {
		t.Skipf("no libibverbs headers: %v", err)
	}
	reader.once.Do(func() {
		if reader.dir, reader.err = os.MkdirTemp("", "libsluice"); reader.err != nil {
			return
		}
		args := []string{"-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined", "-fno-sanitize-recover=all",
			"-fno-math-errno", "-fwrapv", "-ffp-contract=off", "-I.", "-Iinclude", "-o", filepath.Join(reader.dir, "settings"), "testdata/settings.c"}
		for _, name := range []string{"settings", "check", "units", "yaml", "keys", "error"} {
			args = append(args, "src/"+name+".c")
		}
		reader.err = command("gcc", append(args, "internal/ccore/src/sluice_core.c", "-lpthread", "-lm")...)
	})
	if reader.err != nil {
		t.Fatal(reader.err)
	}
	return filepath.Join(reader.dir, "settings")
}

// byGo returns Go's reading of an engine's configuration.
func byGo(s *cc.Scheme, text string) string {
	c := s.DefaultConfig()
	if err := yaml.UnmarshalWithOptions([]byte(text), c, yaml.Strict()); err != nil {
		return "error: " + err.Error()
	}
	var bad *field.Error
	if err := c.(interface{ Validate() error }).Validate(); errors.As(err, &bad) {
		return "refused: " + bad.Error()
	}
	e, err := s.New(c, cc.Env{LineRate: 10 * units.Gbps, BaseRTT: 20 * units.Microsecond, MTU: 1024})
	switch {
	case errors.As(err, &bad):
		return "refused: " + bad.Error()
	case err != nil:
		return "error: " + err.Error()
	}
	if _, ok := e.(cc.Pathed); ok {
		return "error: the engine chooses paths"
	}
	var out strings.Builder
	out.WriteString("ok")
	v := reflect.ValueOf(c).Elem()
	for i := range v.NumField() {
		var n int64
		switch f := v.Field(i); f.Kind() {
		case reflect.Float64:
			n = int64(math.Float64bits(f.Float()))
		case reflect.Bool:
			if f.Bool() {
				n = 1
			}
		default:
			n = f.Int()
		}
		fmt.Fprintf(&out, " %s=%d", v.Type().Field(i).Tag.Get("yaml"), n)
	}
	return out.String()
}

// seeded draws the same in each run.
func seeded() *rand.Rand { return rand.New(rand.NewPCG(1, 21)) }

// answers gives the program lines, and returns its answer to each.
func answers(t *testing.T, program string, lines []string, args ...string) []string {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	all := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(all) != len(lines) {
		t.Fatalf("%d answers to %d lines", len(all), len(lines))
	}
	return all
}

// edges are the ends of a setting's range and what lies beside them, as texts.
func edges(s *field.Setting) []string {
	if s.Range == nil {
		return s.Words
	}
	var all []string
	for _, end := range []any{s.Range.Low, s.Range.High} {
		switch v := reflect.ValueOf(end); {
		case end == nil:
		case v.CanFloat():
			f := v.Float()
			for _, x := range []float64{f, math.Nextafter(f, math.Inf(1)), math.Nextafter(f, math.Inf(-1))} {
				all = append(all, strconv.FormatFloat(x, 'g', -1, 64))
			}
		default:
			unit := map[reflect.Type]string{reflect.TypeFor[units.Time](): "ps", reflect.TypeFor[units.Rate](): "bps", reflect.TypeFor[units.Bytes](): "B"}[s.Type]
			for _, n := range []int64{-1, 0, 1} {
				all = append(all, strconv.FormatInt(v.Int()+n, 10)+unit)
			}
		}
	}
	return all
}

// TestConfigurations gives libsluice and Go the same configurations of engines: what one
// refuses the other does, and what they take they read as the same.
func TestConfigurations(t *testing.T) {
	program := settings(t)
	rng := seeded()
	values := []string{
		"0", "1", "2", "-1", "0.5", "1.0", "0.1", "-0.5", "1e9", "2e9", "1e-3", "255", "256", "1000", "1001", "1048577", "1.5", "1024", "true", "false",
		"60us", "1.5us", "0.25ms", "1s", "2s", "99ns", "100ns", "-3us", "9007199254740993ps", "10Gbps", "40Mbps", "-1Gbps", "1.5 Gbit/s", "100kb/s", "16KiB", "1KB",
		"999B", "1.5MB", "-1KiB", "10", "1us2", "us", "5 parsecs", "never", `"60us"`, `'10Gbps'`, `"0.5"`, "[1]", "{a: 1}", "hello", "1e400us", "1e30s", ".5us", "+2us",
	}
	for _, s := range cc.Schemes() {
		config := reflect.TypeOf(s.DefaultConfig()).Elem()
		if config.NumField() == 0 || strings.Contains("hpcc powertcp poseidon pulser homa ictcp ideal nic-default", s.Name) {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			described, err := field.Describe(config)
			if err != nil {
				t.Fatal(err)
			}
			var texts []string
			for i := range config.NumField() {
				key := config.Field(i).Tag.Get("yaml")
				for _, v := range slices.Concat(values, edges(&described[i]), []string{config.Field(i).Tag.Get("eg")}) {
					texts = append(texts, "{"+key+": "+v+"}", key+": "+v)
				}
			}
			for range 2000 {
				var pairs []string
				for _, i := range rng.Perm(config.NumField())[:1+rng.IntN(config.NumField())] {
					f := config.Field(i)
					v := f.Tag.Get("eg")
					if rng.IntN(4) == 0 {
						some := slices.Concat(values, edges(&described[i]))
						v = some[rng.IntN(len(some))]
					}
					pairs = append(pairs, f.Tag.Get("yaml")+": "+v)
				}
				texts = append(texts, "{"+strings.Join(pairs, ", ")+"}")
			}
			texts = append(texts, "{}", "{no_such_key: 1}", "{", "}", "x", "- 1", "{a: 1, a: 2}")
			lines := answers(t, program, texts, s.Name)
			taken := 0
			for i, text := range texts {
				want := byGo(&s, text)
				same := lines[i] == want
				switch {
				case strings.HasPrefix(want, "refused: "):
					same = lines[i] == "error: "+strings.TrimPrefix(want, "refused: ")
				case strings.HasPrefix(want, "error"):
					same = strings.HasPrefix(lines[i], "error: ")
				default:
					taken++
				}
				// Go's YAML makes 1 of 1.5 where a whole number belongs.
				if !same && !strings.Contains(lines[i], "expected a whole number") {
					t.Errorf("%s\n C: %s\nGo: %s", text, lines[i], want)
				}
			}
			if taken < len(texts)/20 {
				t.Errorf("of %d configurations %d are taken: the test says little", len(texts), taken)
			}
		})
	}
}

// TestEnvironment reads the variables and the file of a program under the preload library.
func TestEnvironment(t *testing.T) {
	program := settings(t)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.yaml":      "cc: timely\nsegment: 32KiB\ndevices: [mlx5_0]\ncc_config: {t_low: 40us}\n",
		"block.yaml":  "---\n# a comment\ncc: swift # another\n\ncc_config:\n  base_target: 30us\n  hops: 2\ndevices:\n- mlx5_1\n- 'rxe*'\nstats: true\n",
		"typo.yaml":   "segmnet: 32KiB\n",
		"group.yaml":  "group: port\n",
		"empty.yaml":  "",
		"anchor.yaml": "cc: &a timely\n",
		"tab.yaml":    "cc_config:\n\tt_low: 1us\n",
		"text.yaml":   "cc: |\n  timely\n",
		"twice.yaml":  "batch: 1\nbatch: 2\n",
		"odd.yaml":    "cc: timely\n   batch: 2\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		env  string   // separated by |
		want []string // parts of the answer
	}{
		{"", []string{"cc=timely rate=0 segment=16384 batch=16 max_outstanding=0 line_rate=0 base_rtt=20000000 nic_rate=0 calibrate_every=100000000000 group=0 thread=0 bypass=0 debug=0 stats=0 metrics=0", "matches mlx5_1: 1"}},
		{"HOME=/root|SLUICEX=1|SLUICE_RXE_REQUIRED=1|SLUICE_rate=5", []string{"cc=timely rate=0"}},
		{"SLUICE_CC=", []string{"cc= rate=0"}},
		{"SLUICE_RATE=10Gbps", []string{"cc= rate=10000000000"}},
		{"SLUICE_CC=none|SLUICE_RATE=10Gbps", []string{"cc=none rate=10000000000"}},
		{"SLUICE_CONFIG=a.yaml", []string{"cc=timely", "segment=32768", "device=mlx5_0", "t_low=40000000", "matches mlx5_1: 0"}},
		{"SLUICE_CONFIG=block.yaml", []string{"cc=swift", "base_target=30000000", "hops=2", "device=mlx5_1 device=rxe*", "stats=1", "matches mlx5_1: 1"}},
		{"SLUICE_CONFIG=a.yaml|SLUICE_SEGMENT=8KiB|SLUICE_DEVICES=mlx4*, rxe?|SLUICE_STATS=1|SLUICE_DEBUG=true|SLUICE_CC_CONFIG=t_high: 1ms", []string{"segment=8192", "device=mlx4* device=rxe?", "debug=1 stats=1", "t_low=50000000 t_high=1000000000"}},
		{"SLUICE_CONFIG=empty.yaml|SLUICE_BASE_RTT=5us|SLUICE_BATCH=32|SLUICE_MAX_OUTSTANDING=1MiB|SLUICE_LINE_RATE=25Gbps|SLUICE_NIC_RATE=5Gbps|SLUICE_CALIBRATE_EVERY=1s|SLUICE_PROGRESS_THREAD=1|SLUICE_BYPASS=1", []string{"batch=32 max_outstanding=1048576 line_rate=25000000000 base_rtt=5000000 nic_rate=5000000000 calibrate_every=1000000000000 group=0 thread=1 bypass=1"}},
		{"SLUICE_CONFIG=missing.yaml", []string{"error: SLUICE_CONFIG: open missing.yaml: No such file"}},
		{"SLUICE_CONFIG=typo.yaml", []string{`error: typo.yaml (SLUICE_CONFIG): unknown field "segmnet"`}},
		{"SLUICE_CONFIG=anchor.yaml", []string{"anchor.yaml (SLUICE_CONFIG): anchors, tags"}},
		{"SLUICE_CONFIG=text.yaml", []string{"text.yaml (SLUICE_CONFIG): anchors, tags, and texts of several lines are not read"}},
		{"SLUICE_CONFIG=tab.yaml", []string{"indented by a tab"}},
		{"SLUICE_CONFIG=twice.yaml", []string{`the key "batch" is given twice`}},
		{"SLUICE_CONFIG=odd.yaml", []string{"a line is indented otherwise"}},
		{"SLUICE_CC=timley", []string{`no rate engine is called "timley": is "timely" meant?`}},
		{"SLUICE_CC=powertcp", []string{"requires telemetry of switches"}},
		{"SLUICE_CC=ideal", []string{"requires a simulation"}},
		{"SLUICE_CC=swift|SLUICE_CC_CONFIG=plb: true", []string{"chooses paths"}},
		{"SLUICE_RATE=10", []string{"error: SLUICE_RATE=10: "}},
		{"SLUICE_RATE=-1Gbps", []string{"error: paced: rate is -1Gbps"}},
		{"SLUICE_RATE=", []string{"SLUICE_RATE=: it is empty"}},
		{"SLUICE_BATCH=16\nsegment: 4KiB", []string{"more than one line"}},
		{"SLUICE_SEGMENT=1KiB", []string{"error: paced: segment is 1KiB: choose 4KiB to 64KiB, such as 16KiB"}},
		{"SLUICE_CC_CONFIG=t_lwo: 1us", []string{`cc_config of timely: unknown field "t_lwo"`}},
		{"SLUICE_CC=|SLUICE_CC_CONFIG=t_low: 1us", []string{"cc_config requires cc"}},
		{"SLUICE_DEVICES=[", []string{"devices: pattern"}},
		{"SLUICE_GROUP=destination", []string{"group=1"}},
		{"SLUICE_CONFIG=group.yaml", []string{"group=3"}},
		{"SLUICE_GROUP=host", []string{`error: SLUICE_GROUP=host: group: "host" is none of them: choose none, destination, path or port`}},
		{"SLUICE_METRICS=1", []string{"metrics=1"}},
		{"SLUICE_METRICS=False", []string{"metrics=0"}},
		{"SLUICE_METRICS=", []string{"metrics=0"}},
		{"SLUICE_METRICS=perhaps", []string{"SLUICE_METRICS=perhaps: set it to 1 or 0"}},
		{"SLUICE_STATS=perhaps", []string{"SLUICE_STATS=perhaps: set it to 1 or 0"}},
	} {
		cmd := exec.Command(program)
		cmd.Dir, cmd.Env = dir, strings.Split(c.env, "|")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", c.env, err, out)
		}
		if slices.ContainsFunc(c.want, func(part string) bool { return !strings.Contains(string(out), part) }) {
			t.Errorf("%q: %s, expected %q", c.env, out, c.want)
		}
	}
}
