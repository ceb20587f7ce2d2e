package bench

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/bench/results"
	"github.com/sluice-rdma/sluice/internal/racedetector"
	"github.com/sluice-rdma/sluice/scenario"
)

func load(t testing.TB, name string, sets ...string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Load(name, sets...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// run runs a scenario on one goroutine, so not under the race detector.
func run(t testing.TB, s *scenario.Scenario) *results.Result {
	t.Helper()
	notUnderRace(t)
	r, err := Run(s, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func parse(t testing.TB, text string, sets ...string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Parse("test.yaml", []byte(text), sets...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func within(got stats.Float, want, share float64) bool {
	return math.Abs(float64(got)-want) <= share*want
}

// A flow alone: its completion time and rate have closed forms.
func TestOneFlowAlone(t *testing.T) {
	for _, mode := range []string{"host", "offload"} {
		for _, op := range []string{"write", "read", "send"} {
			s := parse(t, `
duration: 20ms
topology: {kind: star, hosts: 2, host_rate: 25Gbps}
nic: {mode: `+mode+`}
shim: {outstanding: 256KiB}
systems: [{engine: none}]
workloads: [{kind: flows, operation: `+op+`, message: 1MB, flows: [{src: h0, dst: h1, size: 10MB}]}]
`)
			sys := run(t, s).Systems[0]
			if sys.FlowsDone != 1 || sys.Bytes != 10_000_000 {
				t.Errorf("%s %s: %d flows done, %d bytes", mode, op, sys.FlowsDone, sys.Bytes)
				continue
			}
			// 10 MB in packets of 1024 bytes, 1106 on the wire, at 25 Gbps.
			ideal := 10e6 / 1024 * 1106 * 8 / 25e9 * 1e6
			if !within(sys.FCTAvgUs, ideal, 0.02) {
				t.Errorf("%s %s: took %v us, the wire needs %.0f", mode, op, sys.FCTAvgUs, ideal)
			}
			if sys.Drops != 0 || sys.Retransmissions != 0 {
				t.Errorf("%s %s: %d drops, %d retransmissions", mode, op, sys.Drops, sys.Retransmissions)
			}
			for _, b := range sys.Slowdown {
				if b.P50 < 0.98 || b.P50 > 1.05 {
					t.Errorf("%s %s: slowdown %v alone on the network", mode, op, b.P50)
				}
			}
		}
	}
}

// A run whose flows are all done before the warm-up is has measured nothing, and says so.
func TestNothingAfterTheWarmUp(t *testing.T) {
	s := parse(t, `
duration: 4ms
warmup: 1ms
topology: {kind: star, hosts: 2, host_rate: 25Gbps}
systems: [{engine: timely}]
workloads: [{kind: flows, flows: [{src: h0, dst: h1, size: 16KiB}]}]
`)
	_, err := Run(s, Options{})
	if err == nil || !strings.Contains(err.Error(), "warmup") || !strings.Contains(err.Error(), "choose less") {
		t.Fatalf("got %v, expected an error about the warm-up", err)
	}
}

func TestSameSeedSameBytes(t *testing.T) {
	notUnderRace(t)
	text := func(seed uint64) []byte {
		r, err := Run(load(t, "websearch", "duration=3ms", "warmup=1ms"), Options{Seed: &seed})
		if err != nil {
			t.Fatal(err)
		}
		d := &results.Document{Results: []*results.Result{r}}
		d.ClearWall()
		b, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	a, b, c := text(5), text(5), text(6)
	if !bytes.Equal(a, b) {
		t.Error("two runs of one seed differ")
	}
	if bytes.Equal(a, c) {
		t.Error("runs of two seeds are the same")
	}
}

// TIMELY, SIGCOMM 2015, table 1.
func TestTimelyTable1(t *testing.T) {
	notUnderRace(t)
	r := run(t, load(t, "timely-table1"))
	pfc, timely := r.Systems[0], r.Systems[1]
	if !within(timely.ThroughputGbps, 19.4, 0.25) || !within(timely.RTTAvgUs, 61, 0.25) || !within(timely.RTTP99Us, 116, 0.25) {
		t.Errorf("TIMELY: %.2f Gbps, %.1f and %.1f us; the paper has 19.4, 61 and 116, and 25 percent are allowed", timely.ThroughputGbps, timely.RTTAvgUs, timely.RTTP99Us)
	}
	if timely.PauseFrames != 0 {
		t.Errorf("TIMELY: %d pause frames; the paper saw none", timely.PauseFrames)
	}
	if pfc.RTTAvgUs < 5*timely.RTTAvgUs {
		t.Errorf("PFC alone has an RTT of %.1f us, TIMELY of %.1f", pfc.RTTAvgUs, timely.RTTAvgUs)
	}
}

// Poseidon, NSDI 2023, figure 14.
func TestPoseidonMultihop(t *testing.T) {
	notUnderRace(t)
	for name, fair := range map[string]float64{
		"poseidon-multihop-2-2": 200.0 / 3, "poseidon-multihop-2-9": 20, "poseidon-multihop-9-9": 20,
	} {
		sys := run(t, load(t, name)).Systems[0]
		for _, l := range sys.Labels {
			if l.Label == "victim" && !within(l.WireGbps, fair, 0.12) {
				t.Errorf("%s: the victim gets %.2f Gbps of the wire, its share is %.2f", name, l.WireGbps, fair)
			}
		}
	}
}

// PowerTCP, NSDI 2022, figure 4a.
func TestPowerTCPIncast(t *testing.T) {
	sys := run(t, load(t, "powertcp-incast")).Systems[0]
	var queue, busy results.Series
	for _, s := range sys.Series {
		switch s.Kind {
		case results.SeriesQueue:
			queue = s
		case results.SeriesBusy:
			busy = s
		}
	}
	peak, peakAt := stats.Float(0), 0
	for i, q := range queue.Values {
		if q > peak {
			peak, peakAt = q, i
		}
	}
	back := -1
	for i := peakAt; i < len(queue.Values); i++ {
		switch {
		case queue.Values[i] >= peak/10:
			back = -1
		case back < 0:
			back = i
		}
	}
	if back < 0 {
		t.Errorf("the queue never stays below 10 percent of its peak, %v bytes", peak)
	}
	// The incast begins at 1 ms; the first round trips are those until the
	// queue's peak has passed.
	for i, b := range busy.Values {
		if at := float64(busy.StartUs) + float64(i)*float64(busy.StepUs); at > 1200 && b < 0.95 {
			t.Errorf("the link is busy for %.3f of the window that ends at %.0f us", b, at)
		}
	}
}

// notUnderRace skips a test of simulations on one goroutine each, which would take
// most of the detector's time; TestSystemsBesideEachOther and TestDividedRunsAgree have
// the workers that it is for.
func notUnderRace(t testing.TB) {
	t.Helper()
	if racedetector.On {
		t.Skip("on one goroutine: nothing for the race detector")
	}
}

func TestLossyNetworkDeliversAll(t *testing.T) {
	s := parse(t, `
duration: 5s
topology: {kind: star, hosts: 4, host_rate: 25Gbps}
fabric: {faults: [{link: "*", loss: 0.005}]}
nic: {timeout: 6}
systems: [{engine: timely}, {engine: powertcp}, {engine: poseidon}]
workloads: [{kind: permutation, size: 5MB}, {kind: permutation, name: reads, operation: read, size: 1MB}]
`)
	for _, sys := range run(t, s).Systems {
		if sys.FlowsDone != 8 || sys.Bytes != 4*6_000_000 {
			t.Errorf("%s: %d of 8 flows done, %d bytes", sys.Name, sys.FlowsDone, sys.Bytes)
		}
		if sys.Retransmissions == 0 {
			t.Errorf("%s: nothing was sent again, so nothing was tested", sys.Name)
		}
	}
}

// The points of a series lie where it says, also after a warm-up off the grid.
func TestSeriesKeepTheirGrid(t *testing.T) {
	s := parse(t, `
duration: 100us
warmup: 15us
topology: {kind: star, hosts: 2, host_rate: 25Gbps}
nic: {mode: offload}
systems: [{engine: none}]
measure: {sample: 10us, window: 10us, links: ["tor0->h1"]}
workloads: [{kind: flows, message: 1MB, flows: [{src: h0, dst: h1, size: unlimited}]}]
`)
	for _, x := range run(t, s).Systems[0].Series {
		if x.StartUs != 10 || x.StepUs != 10 || len(x.Values) != 10 {
			t.Errorf("%s of %s: %d points from %v us on, every %v us; want 10 from 10 on", x.Kind, x.Name, len(x.Values), x.StartUs, x.StepUs)
		}
	}
}
