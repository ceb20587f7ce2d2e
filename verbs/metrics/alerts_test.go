package metrics

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const alertsDir = "../../deploy/prometheus"

// promtool runs Debian's, of the package prometheus.
func promtool(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Skipf("no promtool (Debian's package prometheus): %v", err)
	}
	c := exec.CommandContext(t.Context(), path, args...)
	c.Dir = dir
	out, err := c.CombinedOutput()
	return string(out), err
}

// Each alert fires on the series that promtool feeds it and stays silent beside them.
func TestAlerts(t *testing.T) {
	if out, err := promtool(t, alertsDir, "check", "rules", "--lint-fatal", "alerts.yaml"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := promtool(t, alertsDir, "test", "rules", "alerts_test.yaml"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// An alert that never fires, or whose threshold is out of reach, fails its tests.
func TestAlertTestsSeeMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("short: a dozen seconds")
	}
	alerts, err1 := os.ReadFile(filepath.Join(alertsDir, "alerts.yaml"))
	tests, err2 := os.ReadFile(filepath.Join(alertsDir, "alerts_test.yaml"))
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	for _, name := range strings.Split(string(alerts), "- alert: ")[1:] {
		name, _, _ = strings.Cut(name, "\n")
		if !strings.Contains(string(tests), "alertname: "+name+"\n") {
			t.Errorf("no test of %s", name)
		}
	}
	for _, m := range [][2]string{
		{"and rate(sluice_qp_segments_total[10m]) > 0", ""}, {`{job="sluice"}`, ""}, {"[10m]) <=", "[1m]) <="},
		{"and on (job, instance, pid, device) sluice_calibration_error_seconds", ""}, {"> 0.05", "> 0.2"}, {"> 0.05", "> 0.01"}, {"> 100", "> 1000"},
		{"for: 10m", "for: 20m"}, {"> 10000", "> 1000"},
	} {
		dir := t.TempDir()
		mutant := strings.ReplaceAll(string(alerts), m[0], m[1])
		if mutant == string(alerts) {
			t.Fatalf("no %q in the alerts", m[0])
		}
		for name, text := range map[string]string{"alerts.yaml": mutant, "alerts_test.yaml": string(tests)} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := promtool(t, dir, "test", "rules", "alerts_test.yaml"); err == nil {
			t.Errorf("with %q for %q the tests pass", m[1], m[0])
		}
	}
}
