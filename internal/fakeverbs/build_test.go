package fakeverbs_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/internal/fakeverbs"
)

// built is where TestMain has put the libraries and selftest, if it could.
var built struct {
	dir, selftest string
	err           error
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "fakeverbs")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	built.dir, built.selftest = dir, filepath.Join(dir, "selftest")
	if built.err = fakeverbs.Compile(dir); built.err == nil {
		out, err := exec.Command("gcc", "-O1", "-Wall", "-Werror", "-o", built.selftest, "testdata/selftest.c", "-L"+dir, "-libverbs", "-lmlx5").CombinedOutput()
		if err != nil {
			built.err = fmt.Errorf("building selftest: %w\n%s", err, out)
		}
	}
	return m.Run()
}

// libraries returns where they are.
func libraries(t *testing.T) string {
	t.Helper()
	if errors.Is(built.err, fakeverbs.ErrUnavailable) {
		t.Skipf("skipping: %v", built.err)
	}
	if built.err != nil {
		t.Fatal(built.err)
	}
	return built.dir
}

// tool is the path of a program, which a test that runs it does without if it
// is not installed.
func tool(t *testing.T, name, pkg string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("skipping: no %s: install Debian's %s", name, pkg)
	}
	return path
}

func TestBuild(t *testing.T) {
	libraries(t)
	dir := fakeverbs.Build(t)
	for _, name := range []string{"libibverbs.so.1", "libibverbs.so", "libmlx5.so.1", "libmlx5.so"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

// A C program meets objects, data, failures, clocks and events as a device has them.
func TestSelf(t *testing.T) {
	for _, c := range []struct {
		name     string
		settings []string
	}{
		{"data", nil},
		{"data", []string{"FAKEVERBS_SINGLE_THREADED=1"}},
		{"data", []string{"FAKEVERBS_LOG=/dev/null"}},
		{"shared", nil},
		{"channel", nil},
		{"plain", nil},
		{"old", []string{"FAKEVERBS_LACKS=extended"}},
		{"clocks", []string{
			"FAKEVERBS_PROFILE=connectx", "FAKEVERBS_DRIFT_PPM=25", "FAKEVERBS_CLOCK_BITS=40", "FAKEVERBS_CLOCKINFO_BITS=40",
			"FAKEVERBS_WALLCLOCK_OFFSET_NS=5e9", "FAKEVERBS_CLOCK_START=1099511627000",
		}},
		{"rates", []string{"FAKEVERBS_RATE_LIMIT=rc", "FAKEVERBS_LATENCY_NS=2e6"}},
		{"faults", []string{
			"FAKEVERBS_FAIL=post_send:ENOMEM:2:1,create_cq:EIO:1,post_send_wr:12:5:1", "FAKEVERBS_WC=rem_op_err:4",
			"FAKEVERBS_EVENTS=port_err@post_send:2,qp_fatal@post_send:3",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), built.selftest, c.name)
			cmd.Env = fakeverbs.Environ(libraries(t), c.settings...)
			if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

func TestDevinfo(t *testing.T) {
	devinfo := tool(t, "ibv_devinfo", "ibverbs-utils")
	cmd := exec.Command(devinfo, "-v")
	cmd.Env = fakeverbs.Environ(libraries(t), "FAKEVERBS_DEVICES=fake0,other1", "FAKEVERBS_PROFILE_other1=connectx",
		"FAKEVERBS_GIDS_other1=fe80::7/v1,-,10.1.2.3/v2")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	plain, connectx, found := strings.Cut(string(out), "other1")
	if !found {
		t.Fatalf("no other1 in\n%s", out)
	}
	for _, c := range []struct {
		of   string
		text string
		want string
		not  string
	}{
		{"fake0", plain, "fake0", "hca_core_clock"},
		{"fake0", plain, "::ffff:192.0.2.1, RoCE v2", "SUPPORT_RAW_PACKET"},
		{"other1", connectx, "156250kHZ", ""},
		{"other1", connectx, "0x7fffffffffffffff", ""},
		{"other1", connectx, "SUPPORT_RAW_PACKET", ""},
		{"other1", connectx, "::ffff:10.1.2.3, RoCE v2", "GID[  1]"},
	} {
		if !strings.Contains(c.text, c.want) || c.not != "" && strings.Contains(c.text, c.not) {
			t.Errorf("%s: want %q and not %q in\n%s", c.of, c.want, c.not, c.text)
		}
	}
}

func TestSettingNotUnderstood(t *testing.T) {
	libraries(t)
	for _, setting := range []string{
		"PROFILE=best", "FAIL=post_sent:12", "FAIL=post_send:ENOSUCH", "EVENTS=qp_fatal", "WC=fine", "GIDS=10.0.0.1/v3",
		"CLOCK_BITS=65", "DRIFT_PPM=x", "TIMESTAMPS=all", "RATE_LIMIT=xrc", "LACKS=post_send",
	} {
		cmd := exec.Command(built.selftest, "plain")
		cmd.Env = fakeverbs.Environ(built.dir, "FAKEVERBS_"+setting)
		out, err := cmd.CombinedOutput()
		name, _, _ := strings.Cut(setting, "=")
		if cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "FAKEVERBS_"+name) {
			t.Errorf("%s: %v, %s; want status 2 and its name", setting, err, out)
		}
	}
}

// What a program did can be read in the log.
func TestLog(t *testing.T) {
	dir, log := libraries(t), filepath.Join(t.TempDir(), "log")
	cmd := exec.Command(built.selftest, "rates")
	cmd.Env = fakeverbs.Environ(dir, "FAKEVERBS_RATE_LIMIT=rc", "FAKEVERBS_LATENCY_NS=2e6", "FAKEVERBS_LOG="+log)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		" fake0 open_device\n", "modify_qp_rate_limit qp=", " kbps=800000 ", "wr_id=3 opcode=0 flags=0x2 length=1048576 num_sge=1 remote=0x", "close_device",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}
