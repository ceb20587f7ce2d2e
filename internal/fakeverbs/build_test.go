package fakeverbs_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/internal/fakeverbs"
)

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

func TestDevinfo(t *testing.T) {
	devinfo := tool(t, "ibv_devinfo", "ibverbs-utils")
	dir := fakeverbs.Build(t)
	cmd := exec.Command(devinfo, "-v")
	cmd.Env = fakeverbs.Environ(dir, "FAKEVERBS_DEVICES=fake0,other1", "FAKEVERBS_PROFILE_other1=connectx",
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
	devinfo := tool(t, "ibv_devinfo", "ibverbs-utils")
	dir := fakeverbs.Build(t)
	for _, setting := range []string{
		"PROFILE=best", "FAIL=post_sent:12", "FAIL=post_send:ENOSUCH", "EVENTS=qp_fatal", "WC=fine", "GIDS=10.0.0.1/v3",
		"CLOCK_BITS=65", "DRIFT_PPM=x", "TIMESTAMPS=all", "RATE_LIMIT=xrc", "LACKS=post_send",
	} {
		cmd := exec.Command(devinfo)
		cmd.Env = fakeverbs.Environ(dir, "FAKEVERBS_"+setting)
		out, err := cmd.CombinedOutput()
		name, _, _ := strings.Cut(setting, "=")
		if cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "FAKEVERBS_"+name) {
			t.Errorf("%s: %v, %s; want status 2 and its name", setting, err, out)
		}
	}
}
