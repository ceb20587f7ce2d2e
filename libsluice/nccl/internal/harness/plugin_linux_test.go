package harness_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/cli"
	"github.com/sluice-rdma/sluice/internal/fakeverbs"
	"github.com/sluice-rdma/sluice/internal/racedetector"
)

// TestMain is the command, too, by its name: tests run the plugin under `sluice virtual` and `sluice run`.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "sluice" {
		cli.Main()
		return
	}
	code := m.Run()
	if dir != "" {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

var dir string // of what build builds

// build makes the plugin, libsluice-virtual.so and the programs of testdata, once: plugin and harness as make builds
// them, and as asan/plugin.so and asan/harness with sanitizers.
var build = sync.OnceValue(func() error {
	var err error
	if dir, err = os.MkdirTemp("", "sluice-nccl-"); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(dir, "asan"), 0o755); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.Symlink(self, filepath.Join(dir, "sluice")); err != nil {
		return err
	}
	src, err := filepath.Glob(source + "/*.c")
	if err != nil {
		return err
	}
	cc := func(out string, args ...string) []string {
		return append([]string{"gcc", "-std=gnu11", "-g", "-Wall", "-Wextra", "-Werror", "-I", source, "-o", filepath.Join(dir, out)}, args...)
	}
	harness := []string{"testdata/harness.c", "testdata/lie.c", "testdata/fault.c", "-ldl", "-lpthread"}
	sanitized := []string{"-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"}
	for _, line := range [][]string{
		{"make", "-s", "-C", "../../../..", "nccl-plugin", "libsluice-virtual", "LIB=" + dir, "CFLAGS=-Werror"},
		append(cc("harness", "-O2"), harness...),
		cc("balance", "-O2", "testdata/balance.c", source+"/balance.c", "-lm"),
		cc("spy.so", "-fPIC", "-shared", "testdata/spy.c", "-ldl"),
		append(cc("asan/harness", sanitized...), harness...),
		append(append(cc("asan/plugin.so", sanitized...), "-fvisibility=hidden", "-fPIC", "-shared", "-lpthread"), append(src, "-libverbs")...),
	} {
		if out, err := exec.Command(line[0], line[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", strings.Join(line, " "), err, out)
		}
	}
	return nil
})

// built skips a test where what it needs can't be built.
func built(t *testing.T) {
	t.Helper()
	for _, tool := range []string{"gcc", "make"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is missing: %v", tool, err)
		}
	}
	if out, err := exec.Command("gcc", "-E", "-include", "infiniband/verbs.h", "-x", "c", os.DevNull).CombinedOutput(); err != nil {
		t.Skipf("no headers of libibverbs, install Debian's libibverbs-dev: %s", out)
	}
	if err := build(); err != nil {
		t.Fatal(err)
	}
}

const (
	source    = "../../src"
	plugin    = "libnccl-net-sluice.so"
	both      = "order refused sizes multi outstanding flush closing half" // tests of harness.c
	sanitizer = "ASAN_OPTIONS=verify_asan_link_order=0"
)

// run runs a program of dir's with more in its environment, and returns what it printed.
func run(t *testing.T, env []string, name string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(dir, name), args...)
	cmd.Dir = dir
	for _, e := range os.Environ() {
		if !strings.HasPrefix(e, "NCCL_") && !strings.HasPrefix(e, "SLUICE_") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	cmd.Env = append(cmd.Env, env...)
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

// fakeLibrary makes the tests' own libibverbs, once, in dir.
var fakeLibrary = sync.OnceValue(func() error {
	lib := filepath.Join(dir, "fake")
	if err := os.Mkdir(lib, 0o755); err != nil {
		return err
	}
	return fakeverbs.Compile(lib)
})

// fake is the environment of that libibverbs, whose devices reach their own process alone. What runs
// in it is C throughout: under Go's race detector it would be the same again.
func fake(t *testing.T, settings ...string) []string {
	t.Helper()
	if racedetector.On {
		t.Skip("C alone: nothing for Go's race detector")
	}
	if err := fakeLibrary(); errors.Is(err, fakeverbs.ErrUnavailable) {
		t.Skipf("%v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	return append([]string{"LD_LIBRARY_PATH=" + filepath.Join(dir, "fake"), "FAKEVERBS_GIDS=127.0.0.1/v2", "FAKEVERBS_PROFILE=connectx", sanitizer}, settings...)
}

func versions() []string { return strings.Fields("6 7 8 9 10 11 12") }

// TestVersions drives each version of the interface, by two threads, with the sanitizers.
func TestVersions(t *testing.T) {
	built(t)
	env := fake(t)
	for _, v := range versions() {
		t.Run("v"+v, func(t *testing.T) {
			args := append([]string{"./asan/plugin.so", v, "threads", "properties"}, strings.Fields(both)...)
			if out, err := run(t, env, "asan/harness", args...); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestShortMessages: a chunk is no longer than the longest message of the device's port.
func TestShortMessages(t *testing.T) {
	built(t)
	out, err := run(t, fake(t, "FAKEVERBS_MAX_MSG_SZ=5000"), "asan/harness", "./asan/plugin.so", "12", "threads", "sizes", "multi", "outstanding")
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestLyingPeer: nothing of what a peer says about a message is passed on to NCCL unless it fits what was posted.
func TestLyingPeer(t *testing.T) {
	built(t)
	out, err := run(t, fake(t), "asan/harness", "./asan/plugin.so", "12", "threads", "lying_sender", "lying_receiver")
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestVersionsOnMLX5 drives each version by two processes over the system's libibverbs and libmlx5, on an emulated
// ConnectX: by one device, and from one to another; the last test kills the sender.
func TestVersionsOnMLX5(t *testing.T) {
	built(t)
	mlx5(t)
	for _, v := range versions() {
		for _, devices := range []string{"1", "2"} {
			if (v == "12") != (devices == "2") && testing.Short() && v != "6" {
				continue
			}
			t.Run("v"+v+" over "+devices, func(t *testing.T) {
				args := append([]string{"virtual", "-n", devices, "--", "./harness", "./" + plugin, v, "processes"}, strings.Fields(both+" death")...)
				env := []string{"SLUICE_VIRTUAL_LIB=" + filepath.Join(dir, "libsluice-virtual.so")}
				if v == "12" {
					env = append(env, "HARNESS_LARGEST=67108864")
				}
				if out, err := run(t, env, "sluice", args...); err != nil {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
	}
}

// mlx5 skips a test where the system has no mlx5 provider.
func mlx5(t *testing.T) {
	t.Helper()
	for _, pattern := range []string{"/usr/lib/*/libibverbs.so.1", "/usr/lib/*/libmlx5.so.1"} {
		if found, err := filepath.Glob(pattern); err != nil || len(found) == 0 {
			t.Skipf("no %s: install Debian's ibverbs-providers", pattern)
		}
	}
}

// TestNoGo: the plugin brings no Go runtime and no library but libibverbs and the C library, and shows NCCL's symbols
// alone.
func TestNoGo(t *testing.T) {
	built(t)
	out, err := exec.Command("readelf", "--wide", "--dynamic", "--dyn-syms", filepath.Join(dir, plugin)).CombinedOutput()
	if err != nil {
		t.Skipf("readelf: %v\n%s", err, out)
	}
	var needed, defined []string
	for _, m := range regexp.MustCompile(`Shared library: \[(.*?)\.so`).FindAllStringSubmatch(string(out), -1) {
		needed = append(needed, m[1])
	}
	for _, m := range regexp.MustCompile(`(?m)(?:OBJECT|FUNC) +(?:GLOBAL|WEAK) +DEFAULT +\d+ (\w+)$`).FindAllStringSubmatch(string(out), -1) {
		defined = append(defined, m[1])
	}
	slices.Sort(defined)
	var want []string
	for _, v := range versions() {
		want = append(want, "ncclNetPlugin_v"+v)
	}
	slices.Sort(want)
	if !slices.Equal(defined, want) {
		t.Errorf("the plugin shows %v, expected %v", defined, want)
	}
	for _, n := range needed {
		if n != "libibverbs" && n != "libc" && n != "libpthread" {
			t.Errorf("the plugin needs %s", n)
		}
	}
}

// TestPaced runs the plugin with libsluice-preload.so before libibverbs: its Writes are cut and paced.
func TestPaced(t *testing.T) {
	if testing.Short() {
		t.Skip("-short was given, and building libsluice takes a minute")
	}
	built(t)
	env := fake(t)
	lib := filepath.Join(dir, "lib")
	if out, err := exec.Command("make", "-s", "-C", "../../../..", "libsluice", "LIB="+lib).CombinedOutput(); err != nil {
		t.Skipf("the C library can't be built here: %v\n%s", err, out)
	}
	env = append(env, "LD_LIBRARY_PATH="+filepath.Join(dir, "fake")+":"+lib, "LD_PRELOAD="+filepath.Join(lib, "libsluice-preload.so"),
		"SLUICE_RATE=500Mbps", "SLUICE_STATS=1", "RATE_MESSAGES=40")
	out, err := run(t, env, "harness", "./"+plugin, "12", "threads", "rate", "sizes", "multi", "outstanding")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var gbps float64
	if _, after, ok := strings.Cut(out, "rate "); !ok {
		t.Fatalf("no rate:\n%s", out)
	} else if _, err := fmt.Sscanf(after, "%f Gbit/s", &gbps); err != nil {
		t.Fatal(err)
	}
	// Four queue pairs of 500 Mbps carry 2 Gbit/s; each one's first burst and a late reading of the clock add to a run
	// of 10 MB. Without pacing it is tens of Gbit/s.
	const bound = 2 * 1.5
	if gbps > bound {
		t.Errorf("%v Gbit/s, expected at most %v:\n%s", gbps, bound, out)
	}
	if !strings.Contains(out, "engine fixed rate: ") {
		t.Errorf("libsluice has no statistics of the queue pairs:\n%s", out)
	}
}

// TestBroken has each call fail that a connection needs: one side says so and the other does, nothing hangs or leaks.
func TestBroken(t *testing.T) {
	built(t)
	for _, c := range []struct{ setting, want string }{
		{"FAKEVERBS_FAIL=alloc_pd:ENOMEM:1", "2"},
		{"FAKEVERBS_FAIL=reg_mr:ENOMEM", "2"},
		{"FAKEVERBS_FAIL=create_cq:ENOMEM", "2"},
		{"FAKEVERBS_FAIL=create_qp:ENOMEM", "2"},
		{"FAKEVERBS_FAIL=create_qp:ENOMEM:3", "2"},
		{"FAKEVERBS_FAIL=create_qp:ENOMEM:6", "6"},
		{"FAKEVERBS_FAIL=modify_qp:EINVAL:2", "2"},
		{"FAKEVERBS_FAIL=modify_qp:EINVAL:9", "6"},
		{"FAKEVERBS_FAIL=post_recv:ENOMEM:40", "6"},
		{"FAKEVERBS_FAIL=post_send:ENOMEM:20", "2"},
		{"FAKEVERBS_FAIL=poll_cq:EIO:30", "2"},
		{"FAKEVERBS_WC=rem_access_err:9", "6"},
		{"FAKEVERBS_WC=general_err:30", "6"},
	} {
		t.Run(c.setting, func(t *testing.T) {
			out, err := run(t, fake(t, c.setting), "asan/harness", "./asan/plugin.so", "12", "threads", "broken")
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if !strings.Contains(out, "send: "+c.want) && !strings.Contains(out, "receive: "+c.want) {
				t.Errorf("no side got error %s:\n%s", c.want, out)
			}
			if !strings.Contains(out, "NET/Sluice : ") {
				t.Errorf("nothing was logged:\n%s", out)
			}
		})
	}
}

// TestEnvironment is what the environment sets, as the plugin's devices and queue pairs have it.
func TestEnvironment(t *testing.T) {
	built(t)
	const two = "FAKEVERBS_DEVICES=fake0,fake1"
	for _, c := range []struct {
		name     string
		settings []string
		want     []string // printed
		not      []string
	}{
		{"defaults", nil, []string{"device fake0:1", "rtr sgid_index=0 traffic_class=106 sl=0 flow_label=0\n", "rts timeout=20 retry_cnt=7"}, nil},
		{"the user's", []string{"NCCL_IB_TC=104", "NCCL_IB_SL=3", "NCCL_IB_TIMEOUT=18", "NCCL_IB_RETRY_CNT=5", "SLUICE_NCCL_QPS=2", "SLUICE_NCCL_FLOW_LABEL=16"},
			[]string{"traffic_class=104 sl=3 flow_label=0x10\n", "flow_label=0x11\n", "rts timeout=18 retry_cnt=5"}, []string{"flow_label=0x12"}},
		{"GID", []string{"FAKEVERBS_GIDS=fe80::1/v1,fe80::1/v2,127.0.0.1/v1,127.0.0.1/v2"}, []string{"sgid_index=3"}, nil},
		{"GID index", []string{"FAKEVERBS_GIDS=127.0.0.1/v2,127.0.0.2/v2", "NCCL_IB_GID_INDEX=1"}, []string{"sgid_index=1"}, nil},
		{"interface", []string{"FAKEVERBS_GIDS=192.0.2.1/v2", "NCCL_SOCKET_IFNAME==lo"}, []string{"rtr sgid_index=0"}, nil},
		{"HCA", []string{two, "NCCL_IB_HCA=fake1"}, []string{"device fake1:1"}, []string{"device fake0"}},
		{"HCA by prefix", []string{two, "NCCL_IB_HCA=fake"}, []string{"device fake0:1", "device fake1:1"}, nil},
		{"HCA and port", []string{two, "NCCL_IB_HCA=fake0:1,fake1:2"}, []string{"device fake0:1"}, []string{"device fake1"}},
		{"not the HCA", []string{two, "NCCL_IB_HCA=^fake0"}, []string{"device fake1:1"}, []string{"device fake0"}},
		{"not the HCA as it is", []string{two, "NCCL_IB_HCA=^=fake,fake1"}, []string{"device fake0:1"}, []string{"device fake1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			env := append(fake(t, c.settings...), "LD_PRELOAD=./spy.so")
			out, err := run(t, env, "harness", "./"+plugin, "6", "threads", "list")
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			connected, err := run(t, env, "harness", "./"+plugin, "11", "threads", "order")
			if err != nil {
				t.Fatalf("%v\n%s", err, connected)
			}
			out += connected
			for _, w := range c.want {
				if !strings.Contains(out, w) {
					t.Errorf("not %q:\n%s", w, out)
				}
			}
			for _, w := range c.not {
				if strings.Contains(out, w) {
					t.Errorf("%q:\n%s", w, out)
				}
			}
		})
	}
}

// TestWrongEnvironment: values that are none are named, with what is expected.
func TestWrongEnvironment(t *testing.T) {
	built(t)
	for _, c := range []struct{ setting, code, want string }{
		{"SLUICE_NCCL_QPS=0", "5", "SLUICE_NCCL_QPS=0: expected a whole number from 1 to 16"},
		{"SLUICE_NCCL_QPS=four", "5", "SLUICE_NCCL_QPS=four: expected a whole number"},
		{"SLUICE_NCCL_QPS=17", "5", "from 1 to 16"},
		{"SLUICE_NCCL_CHUNK=64KB", "5", "SLUICE_NCCL_CHUNK=64KB: expected a size from 4096 to 16777216 bytes, such as 64KiB"},
		{"SLUICE_NCCL_CHUNK=17MiB", "5", "SLUICE_NCCL_CHUNK=17MiB"},
		{"SLUICE_NCCL_CHUNK=-18014398509481920KiB", "5", "SLUICE_NCCL_CHUNK"}, // 64 KiB in 64 bits
		{"SLUICE_NCCL_CHUNK=99999999999999999999", "5", "SLUICE_NCCL_CHUNK"},
		{"SLUICE_NCCL_BALANCE=fair", "5", "SLUICE_NCCL_BALANCE=fair: expected delay or roundrobin"},
		{"SLUICE_NCCL_FLOW_LABEL=0x100000", "5", "from -1 to 1048575"},
		{"SLUICE_NCCL_PROBE=0", "5", "SLUICE_NCCL_PROBE=0: expected a whole number from 1 to 60000"},
		{"NCCL_IB_RESILIENCY_PORT_FAILOVER=2", "5", "NCCL_IB_RESILIENCY_PORT_FAILOVER=2: expected a whole number from 0 to 1"},
		{"NCCL_IB_TIMEOUT=32", "5", "NCCL_IB_TIMEOUT=32: expected a whole number from 1 to 31"},
		{"NCCL_IB_TC=", "0", ""},
		{"NCCL_IB_HCA=" + strings.Repeat("x", 256), "5", "NCCL_IB_HCA: longer than 255 characters"},
		{"NCCL_IB_DISABLE=1", "3", ""},
	} {
		t.Run(c.setting, func(t *testing.T) {
			out, err := run(t, fake(t, c.setting, "HARNESS_INIT="+c.code), "harness", "./"+plugin, "9", "threads", "list")
			if err != nil || !strings.Contains(out, c.want) {
				t.Errorf("%v, expected %q:\n%s", err, c.want, out)
			}
		})
	}
}
