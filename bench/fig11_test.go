package bench

import (
	"bytes"
	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/bench/results"
	"strings"
	"testing"
)

// TIMELY, SIGCOMM 2015, figure 11: round trips by way of calibration are those of the
// NIC's own clock, whatever the hosts do; those of software spread, and the more so the
// busier the hosts.
func TestTimelyFigure11(t *testing.T) {
	notUnderRace(t)
	s := load(t, "timely-fig11")
	r := run(t, s)
	for _, m := range Misses(s, r) {
		t.Error(m)
	}
	by := map[string]*results.System{}
	for _, sys := range r.Systems {
		by[sys.Name] = sys
		if sys.RTTSamples < 2000 || sys.CalibrationOutside != 0 || sys.CalibrationRefused != 0 {
			t.Errorf("%s: %d round trips, %+v", sys.Name, sys.RTTSamples, sys.Clocks)
		}
		if sys.RTTClock == "software" {
			if sys.RTTPolled < sys.RTTSamples || sys.CalibrationGenerations != 0 || sys.CalibrationBoundMaxNs.Measured() {
				t.Errorf("%s: %+v", sys.Name, sys.Clocks)
			}
			continue
		}
		if sys.RTTPolled != 0 || sys.CalibrationGenerations != 1 || sys.CalibrationErrorMaxNs > sys.CalibrationBoundMaxNs || !(sys.CalibrationBoundMaxNs < 500) {
			t.Errorf("%s: %+v", sys.Name, sys.Clocks)
		}
	}
	spread := stats.Float(0)
	for _, load := range []string{"0%", "25%", "50%"} {
		nic, calibrated, software := by["NIC "+load], by["calibrated "+load], by["software "+load]
		// The same packets, so what differs is the clock.
		if nic.PacketHops != calibrated.PacketHops {
			t.Errorf("load %s: %d and %d packet-hops", load, nic.PacketHops, calibrated.PacketHops)
		}
		for _, x := range [][2]stats.Float{{calibrated.RTTP50Us, nic.RTTP50Us}, {calibrated.RTTP99Us, nic.RTTP99Us}} {
			// What lies between is a doorbell, the request's way into the NIC and the
			// first packet's fetch.
			if off := x[0] - x[1]; off < 0 || off > 1.5 {
				t.Errorf("load %s: %v us calibrated, %v us by the NIC", load, x[0], x[1])
			}
		}
		if off := calibrated.RTTSpreadUs - nic.RTTSpreadUs; off < -0.5 || off > 0.5 {
			t.Errorf("load %s: calibrated round trips spread over %v us, the NIC's over %v", load, calibrated.RTTSpreadUs, nic.RTTSpreadUs)
		}
		if load != "0%" && software.RTTSpreadUs < max(3*nic.RTTSpreadUs, 1.5*spread) {
			t.Errorf("load %s: software's spread is %v us, after %v with less load; the NIC's is %v", load, software.RTTSpreadUs, spread, nic.RTTSpreadUs)
		}
		spread = software.RTTSpreadUs
	}
	if good, bad := by["TIMELY calibrated 50%"], by["TIMELY software 50%"]; good.ThroughputGbps < 2*bad.ThroughputGbps {
		t.Errorf("TIMELY carries %v Gbps, and by software's clock %v", good.ThroughputGbps, bad.ThroughputGbps)
	}

	var b bytes.Buffer
	if err := results.Table(&b, r); err != nil {
		t.Fatal(err)
	}
	_, clocks, ok := strings.Cut(b.String(), "\nclocks: ")
	if lines := strings.Split(strings.TrimSpace(clocks), "\n"); !ok || len(lines) != 2+len(r.Systems) {
		t.Errorf("the table ends with\n%s", clocks)
	}
	b.Reset()
	if err := results.WriteHTML(&b, &results.Document{Results: []*results.Result{r}}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "calibration bound p99") {
		t.Error("the report says nothing of calibration")
	}
}

// Results that are not about clocks have no table of them.
func TestNoClocks(t *testing.T) {
	var b bytes.Buffer
	if err := results.Table(&b, run(t, load(t, "quickstart"))); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "clocks:") {
		t.Error(b.String())
	}
}
