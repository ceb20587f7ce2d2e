package metrics

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluice-rdma/sluice/verbs"
	_ "github.com/sluice-rdma/sluice/verbs/softroce"
)

// Every metric of the dashboard is one that a device here gives, or that a kernel's
// device may: the rdma_ ones of a soft: device are the kernel's names.
func TestDashboardAsksForWhatThereIs(t *testing.T) {
	text, err := os.ReadFile("../../deploy/grafana/sluice.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, LegendFormat string }
			GridPos struct{ X, Y, W, H int }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}

	a, _ := pacedPair(t)
	devices := NewDevices()
	devices.Add(a)
	soft, err := verbs.Open("soft:127.0.78.1") // soft:lo is the tutorial's, which a test runs
	if err != nil {
		t.Skipf("no soft: device here: %v", err)
	}
	defer soft.Close()
	devices.Add(soft)
	mlx5Sysfs(t)
	reg := prometheus.NewRegistry()
	reg.MustRegister(devices, NewNetdevs(mlx5Stats, quiet))
	has := map[string]string{ // a line of each
		// TIMELY has no window; engines that have one give it.
		"sluice_qp_window_bytes": `sluice_qp_window_bytes{device="",qpn=""} 1`,
	}
	for _, line := range written(t, reg) {
		if name, _, ok := strings.Cut(line, "{"); ok && !strings.HasPrefix(line, "#") {
			has[name] = line
		}
	}

	names := regexp.MustCompile(`\b(?:sluice|rdma)_[a-z0-9_]+`)
	labels := regexp.MustCompile(`{{(\w+)}}`)
	used := 0
	for _, p := range board.Panels {
		if len(p.Targets) == 0 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %q has no targets or does not fit", p.Title)
		}
		for _, target := range p.Targets {
			for _, name := range names.FindAllString(target.Expr, -1) {
				used++
				line, ok := has[name]
				if !ok {
					t.Errorf("panel %q asks for %s, which nothing gives", p.Title, name)
				}
				if strings.Contains(target.Expr, " by (") {
					continue
				}
				for _, label := range labels.FindAllStringSubmatch(target.LegendFormat, -1) {
					if !strings.Contains(line, label[1]+`="`) {
						t.Errorf("panel %q names the label %s, which %s has not", p.Title, label[1], name)
					}
				}
			}
		}
	}
	if used < 20 {
		t.Errorf("the dashboard uses %d metrics only", used)
	}
}
