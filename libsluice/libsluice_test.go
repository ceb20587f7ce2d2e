package libsluice_test

import (
	"bytes"
	"debug/elf"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/internal/fakeverbs"
)

var overhead = flag.Bool("overhead", false, "measure what the library adds to raw calls (make bench-c)")

// built holds what all tests share: the libraries, the fake libibverbs, and the
// programs of testdata as unmodified ones and with sluice.h.
var built struct {
	once      sync.Once
	dir, lib  string
	err       error
	available error
}

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	for _, dir := range []string{built.dir, reader.dir} {
		if dir != "" {
			_ = os.RemoveAll(dir) // temporary
		}
	}
	os.Exit(code)
}

// build builds everything once and returns the folder of the programs, with the
// fake in it, and that of the libraries.
func build(t *testing.T) (dir, lib string) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short was given, and building the C library takes a minute: run without it")
	}
	for _, tool := range []string{"gcc", "make", "pkg-config"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the C library can't be built here: %v", err)
		}
	}
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "libsluice"); built.err != nil {
			return
		}
		if built.available = fakeverbs.Compile(built.dir); built.available != nil {
			return
		}
		if built.lib = os.Getenv("LIBSLUICE"); built.lib == "" {
			built.lib = filepath.Join(built.dir, "lib")
			if built.err = command("make", "-s", "-C", "..", "libsluice", "IBVERBS=yes", "LIB="+built.lib); built.err != nil {
				return
			}
		}
		strict := []string{"-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-Iinclude"}
		for name, args := range map[string][]string{
			"hooks":     {"testdata/hooks.c"},
			"hooks-api": {"testdata/hooks.c", "-DSLUICE_API", "-L" + built.lib, "-lsluice"},
			"bench":     {"testdata/bench.c"},
			"bench-api": {"testdata/bench.c", "-DSLUICE_API", "-L" + built.lib, "-lsluice"},
			"kv-c":      {"../examples/kv-c/kv.c", "-L" + built.lib, "-lsluice"},
		} {
			args = slices.Concat(strict, []string{"-o", filepath.Join(built.dir, name)}, args, []string{"-libverbs", "-lpthread"})
			if built.err = command("gcc", args...); built.err != nil {
				return
			}
		}
	})
	if built.available != nil {
		t.Skipf("skipping: %v", built.available)
	}
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.dir, built.lib
}

func command(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w\n%s", name, args, err, out)
	}
	return nil
}

// program is a command over the fake libibverbs, with libsluice where the loader
// finds it. Environment variables of ours that the tests' own process has do not count.
func program(t *testing.T, preload bool, env []string, argv ...string) *exec.Cmd {
	dir, lib := build(t)
	path := argv[0]
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	cmd := exec.CommandContext(t.Context(), path, argv[1:]...)
	for _, e := range fakeverbs.Environ(dir, env...) {
		if strings.HasPrefix(e, "SLUICE_") && !slices.Contains(env, e) {
			continue
		}
		if rest, ok := strings.CutPrefix(e, "LD_LIBRARY_PATH="); ok {
			e = "LD_LIBRARY_PATH=" + lib + ":" + rest
		}
		cmd.Env = append(cmd.Env, e)
	}
	if preload {
		cmd.Env = append(cmd.Env, "LD_PRELOAD="+filepath.Join(lib, "libsluice-preload.so"))
	}
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

func run(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	return string(out)
}

func names(t *testing.T, binary string) []string {
	return strings.Fields(run(t, program(t, false, nil, binary)))
}

// Where RC queue pairs take no rate, nic_rate is the static rate of their paths, rounded up
// to a step of enum ibv_rate.
func TestStaticRate(t *testing.T) {
	for _, c := range []struct {
		name string
		env  []string
		want string // by the codes of enum ibv_rate
	}{
		{"no rate", nil, "static rate 0\n"},
		{"2.9 Gbps", []string{"SLUICE_NIC_RATE=2.9Gbps"}, "static rate 5\n"},
		{"11.3 Gbps", []string{"SLUICE_NIC_RATE=11.3Gbps"}, "static rate 11\n"},
		{"no step below the port's rate", []string{"SLUICE_NIC_RATE=99Gbps"}, "static rate 0\n"},
		{"packet pacing", []string{"SLUICE_NIC_RATE=2.9Gbps", "FAKEVERBS_PROFILE=connectx", "FAKEVERBS_RATE_LIMIT=rc"}, "static rate 0\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if out := run(t, program(t, true, c.env, "hooks", "static_rate")); out != c.want {
				t.Errorf("%q, want %q", out, c.want)
			}
		})
	}
}

// The longest message that is taken is the device's own.
func TestLongestMessage(t *testing.T) {
	for _, c := range []struct {
		name, binary string
		preload      bool
		want         string
	}{
		{"libibverbs alone", "hooks", false, "done\ndone\nfailed\n"},
		{"preload", "hooks", true, "done\ndone\nrefused\n"},
		{"sluice.h", "hooks-api", false, "done\ndone\nrefused\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if out := run(t, program(t, c.preload, []string{"FAKEVERBS_MAX_MSG_SZ=5000"}, c.binary, "longest")); out != c.want {
				t.Errorf("%q, want %q", out, c.want)
			}
		})
	}
}

// TestHooks runs each test of testdata/hooks.c as an unmodified program over the
// fake alone, as one under the preload library, and with sluice.h; paced at a rate
// and steered by TIMELY; on a device with timestamps and one without.
func TestHooks(t *testing.T) {
	// What holds of pacing only: a device that completes at once has nothing to
	// flush, and returns completions in the order in which they came.
	pacedOnly := []string{"flush", "turns", "rate"}
	connectx := []string{"FAKEVERBS_DEVICES=fake0,fake1", "FAKEVERBS_PROFILE=connectx"}
	for _, mode := range []struct {
		name    string
		binary  string
		preload bool
		env     []string
	}{
		{"libibverbs alone", "hooks", false, connectx},
		{"preload, at a rate", "hooks", true, append(slices.Clone(connectx), "SLUICE_SEGMENT=4KiB", "SLUICE_RATE=2Gbps", "SLUICE_STATS=1")},
		{"preload, plain device", "hooks", true, []string{"FAKEVERBS_DEVICES=fake0,fake1", "SLUICE_SEGMENT=4KiB", "SLUICE_RATE=2Gbps"}},
		{"preload, groups at a rate", "hooks", true, append(slices.Clone(connectx), "SLUICE_SEGMENT=4KiB", "SLUICE_RATE=2Gbps", "SLUICE_GROUP=destination")},
		{"sluice.h, at a rate", "hooks-api", false, append(slices.Clone(connectx), "TEST_RATE=2000000000")},
		{"sluice.h, groups at a rate", "hooks-api", false, []string{"FAKEVERBS_DEVICES=fake0,fake1", "TEST_RATE=2000000000", "TEST_GROUP=path"}},
	} {
		t.Run(mode.name, func(t *testing.T) {
			for _, test := range names(t, mode.binary) {
				atRate := strings.HasSuffix(mode.name, "at a rate") || strings.HasSuffix(mode.name, "plain device")
				if slices.Contains(pacedOnly, test) && !atRate {
					continue
				}
				t.Run(test, func(t *testing.T) {
					out := run(t, program(t, mode.preload, mode.env, mode.binary, test))
					// What a queue pair sends at the rate, a group does.
					if test != "rate" && (test != "herd" || !strings.Contains(mode.name, "groups")) {
						return
					}
					// 8 MiB at 2 Gbit/s, less the first segment and 20 us.
					seconds, err := strconv.ParseFloat(regexp.MustCompile(`(?m)^[0-9.]+$`).FindString(out), 64)
					if least := float64(8<<20-4096)*8/2e9 - 20e-6; err != nil || seconds < least {
						t.Errorf("%v s, %v: at least %v s", seconds, err, least)
					}
				})
			}
		})
	}
}

// TestRaces runs threads that share queue pairs, and that make and destroy them, under the
// compiler's race detector.
func TestRaces(t *testing.T) {
	dir, _ := build(t)
	sources, err := filepath.Glob("src/*.c")
	if err != nil {
		t.Fatal(err)
	}
	// The detector does not know fences, by which a seqlock is read.
	args := []string{"-std=gnu11", "-O1", "-g", "-w", "-fsanitize=thread", "-I.", "-Iinclude", "-fno-math-errno", "-fwrapv", "-ffp-contract=off", "-DSLUICE_API", "-o", filepath.Join(dir, "hooks-races"), "testdata/hooks.c"}
	args = append(append(args, sources...), "internal/ccore/src/sluice_core.c", "-libverbs", "-ldl", "-lpthread", "-lm")
	if err := command("gcc", args...); err != nil {
		t.Skipf("no race detector: %v", err)
	}
	for _, test := range []string{"sharing", "threads", "makers", "events", "herd", "group_storm"} {
		t.Run(test, func(t *testing.T) {
			for _, group := range []string{"none", "destination"} {
				run(t, program(t, false, []string{"FAKEVERBS_DEVICES=fake0,fake1", "FAKEVERBS_PROFILE=connectx", "TEST_RATE=2000000000", "TEST_GROUP=" + group}, "hooks-races", test))
			}
		})
	}
}

func TestExample(t *testing.T) {
	out := run(t, program(t, false, nil, "kv-c", "-d", "fake0", "-s", "-n", "100", "-e", "timely"))
	if !strings.Contains(out, "100 puts and 100 gets, all as they should be") {
		t.Error(out)
	}
}

// TestConfiguration runs a program under the preload library as it is configured.
func TestConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	if err := os.WriteFile(file, []byte("rate: 5Gbps\nsegment: 4KiB\nstats: true\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		env  []string
		want string // a regular expression; "" for no output
		fail bool
	}{
		{"file", []string{"SLUICE_CONFIG=" + file}, `^sluice: ibv:fake0, engine fixed rate: 2 queue pairs, 5 requests \(0 failed\), 256 segments, 1048576 bytes`, false},
		{"default", []string{"SLUICE_STATS=1"}, `engine timely: `, false},
		{"device", []string{"SLUICE_STATS=1", "SLUICE_DEVICES=fake0"}, `engine timely: 2`, false},
		{"no group", []string{"SLUICE_GROUP=host"}, `sluice: SLUICE_GROUP=host: group: "host" is none of them: choose none, destination, path or port`, true},
		{"another device", []string{"SLUICE_STATS=1", "SLUICE_DEVICES=mlx5_*"}, ``, false},
		{"off", []string{"SLUICE_STATS=1", "SLUICE_DISABLE=1"}, ``, false},
		{"debug", []string{"SLUICE_DEBUG=1"}, `msg="queue pair made" device=ibv:fake0`, false},
		{"unknown engine", []string{"SLUICE_CC=timley"}, `sluice: no rate engine is called "timley": is "timely" meant?`, true},
		{"no file", []string{"SLUICE_CONFIG=/does/not/exist"}, `sluice: SLUICE_CONFIG: open /does/not/exist`, true},
		{"no library", []string{"SLUICE_LIBRARY=/does/not/exist.so"}, `sluice: /does/not/exist.so: .*: install libsluice.so.0`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			out, err := program(t, true, c.env, "hooks", "list").CombinedOutput()
			if c.fail != (err != nil) {
				t.Errorf("%v\n%s", err, out)
			}
			if c.want == "" && len(out) > 0 || !regexp.MustCompile("(?m)"+c.want).Match(out) {
				t.Errorf("no %q in %q", c.want, out)
			}
		})
	}
}

// TestOthersPayNothing looks at a program that has no queue pair: neither
// libsluice nor libibverbs is loaded for it.
func TestOthersPayNothing(t *testing.T) {
	out := run(t, program(t, true, nil, "/bin/cat", "/proc/self/maps"))
	if !strings.Contains(out, "libsluice-preload.so") {
		t.Fatalf("not preloaded:\n%s", out)
	}
	for _, lib := range []string{"libsluice.so", "libibverbs"} {
		if strings.Contains(out, lib) {
			t.Errorf("%s is loaded:\n%s", lib, out)
		}
	}
}

// TestExports compares what libsluice.so exports with what the headers declare.
func TestExports(t *testing.T) {
	_, lib := build(t)
	f, err := elf.Open(filepath.Join(lib, "libsluice.so.0"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	var got, want []string
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF && elf.ST_TYPE(s.Info) == elf.STT_FUNC {
			got = append(got, s.Name)
		}
	}
	for _, name := range []string{"include/sluice.h", "interpose.h"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^[a-z].*?\b(sluice_\w+)\(`).FindAllSubmatch(text, -1) {
			if s := string(m[1]); s != "sluice_preload_calls" && s != "sluice_preload_calls_fn" {
				want = append(want, s)
			}
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("exported %v\ndeclared %v", got, want)
	}
	if soname, err := f.DynString(elf.DT_SONAME); err != nil || !slices.Equal(soname, []string{"libsluice.so.0"}) {
		t.Errorf("soname %v, %v", soname, err)
	}
}

// TestSmall pins what the library brings into a process: libibverbs and the C library, no
// runtime of a language, and some 240 KiB.
func TestSmall(t *testing.T) {
	_, lib := build(t)
	path := filepath.Join(lib, "libsluice.so.0")
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	libraries, err := f.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range libraries {
		if !slices.ContainsFunc([]string{"libibverbs.so", "libc.so", "ld-linux", "libdl.so", "libpthread.so"}, func(ours string) bool { return strings.HasPrefix(name, ours) }) {
			t.Errorf("it needs %s", name)
		}
	}
	symbols, err := f.ImportedSymbols()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range symbols {
		if strings.HasPrefix(s.Name, "runtime.") || strings.Contains(s.Name, "cgo") || strings.HasPrefix(s.Name, "_Unwind") || s.Name == "abort" {
			t.Errorf("it needs %s of %s", s.Name, s.Library)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Size() > 256<<10 {
		t.Errorf("%d bytes, %v: expected at most 256 KiB", info.Size(), err)
	}
	for _, s := range f.Sections { // .got is everybody's
		if strings.HasPrefix(s.Name, ".go.") || s.Name == ".gopclntab" || strings.HasPrefix(s.Name, ".note.go") {
			t.Errorf("it has a section %s", s.Name)
		}
	}
}

// TestManPages compares the functions of sluice.h with the man page's.
func TestManPages(t *testing.T) {
	header, err := os.ReadFile("include/sluice.h")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("man/sluice.3")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^[a-z].*?\b(sluice_\w+)\(`).FindAllSubmatch(header, -1) {
		if !bytes.Contains(page, m[1]) {
			t.Errorf("man/sluice.3 does not name %s", m[1])
		}
	}
}

// TestPkgConfig builds a program the way users do.
func TestPkgConfig(t *testing.T) {
	_, lib := build(t)
	cmd := exec.Command("make", "-s", "-f", "Makefile", "PKG_CONFIG_PATH="+lib, "CC=gcc")
	cmd.Dir = t.TempDir()
	for _, name := range []string{"Makefile", "kv.c"} {
		text, err := os.ReadFile(filepath.Join("../examples/kv-c", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(cmd.Dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run(t, cmd)
	if out := run(t, program(t, false, nil, filepath.Join(cmd.Dir, "kv-c"), "-s", "-n", "1")); !strings.Contains(out, "1 puts") {
		t.Error(out)
	}
}

// TestOverhead measures, with -overhead, what the library adds a segment to the raw
// calls on a device that completes at once, with one queue pair and with 16 and 1000 that take
// turns, in groups too. Raw and paced runs alternate; figures are of processor time, medians, and the least of each, which a busy machine disturbs less.
func TestOverhead(t *testing.T) {
	if !*overhead {
		t.Skip("a measurement: make bench-c")
	}
	const rounds, batches = 9, "20000"
	env := []string{"FAKEVERBS_DATA=null", "FAKEVERBS_SINGLE_THREADED=1", "SLUICE_MAX_OUTSTANDING=1MiB"}
	// TIMELY that no round trip bothers stays at the line rate: steered, not
	// paced. A rate far above what the program reaches makes each segment pass the
	// scheduler, and none wait.
	const calm = "t_low: 1s, t_high: 2s"
	modes := []struct {
		name    string
		binary  string
		preload bool
		paced   string
		env     []string
	}{
		{"raw", "bench", false, "0", nil},
		{"sluice.h, no engine", "bench-api", false, "1", nil},
		{"sluice.h, timely", "bench-api", false, "1", []string{"TEST_ENGINE=timely", "TEST_ENGINE_CONFIG={" + calm + "}"}},
		{"sluice.h, group", "bench-api", false, "1", []string{"TEST_ENGINE=timely", "TEST_ENGINE_CONFIG={" + calm + "}", "TEST_GROUP=destination"}},
		{"preload, no engine", "bench", true, "1", []string{"SLUICE_CC=none"}},
		{"preload, timely", "bench", true, "1", []string{"SLUICE_CC=timely", "SLUICE_CC_CONFIG=" + calm}},
		{"preload, group", "bench", true, "1", []string{"SLUICE_CC=timely", "SLUICE_CC_CONFIG=" + calm, "SLUICE_GROUP=destination"}},
		{"preload, bypass", "bench", true, "1", []string{"SLUICE_CC=timely", "SLUICE_CC_CONFIG=" + calm, "SLUICE_BYPASS=1"}},
		{"preload, paced", "bench", true, "1", []string{"SLUICE_RATE=90Tbps", "SLUICE_LINE_RATE=100Tbps"}},
	}
	for _, what := range []string{"cut", "whole", "cut 16", "cut 1000", "whole 1000", "poll"} {
		kind, qps, many := strings.Cut(what, " ")
		last := []string{batches}
		if many {
			last = append(last, qps)
		}
		ns := make([][]float64, len(modes))
		for range rounds {
			for i, m := range modes {
				out := run(t, program(t, m.preload, slices.Concat(env, m.env), slices.Concat([]string{m.binary, kind, m.paced}, last)...))
				v, err := strconv.ParseFloat(strings.TrimSpace(out), 64)
				if err != nil {
					t.Fatal(err)
				}
				ns[i] = append(ns[i], v)
			}
		}
		for i, m := range modes {
			slices.Sort(ns[i])
			median, least := rounds/2, 0
			t.Logf("%-10s %-22s %7.1f ns, %+7.1f to raw; least %7.1f, %+7.1f", what, m.name,
				ns[i][median], ns[i][median]-ns[0][median], ns[i][least], ns[i][least]-ns[0][least])
		}
	}
}
