package nicvalidate

import (
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/units"
)

// Half a round trip, and a request alone, take what the hosts, PCIe, the pipelines and the link take, each once.
func TestLatenciesHaveTheHostsTime(t *testing.T) {
	cfg, err := preset("cx5")
	if err != nil {
		t.Fatal(err)
	}
	// What stages, bits on the links and waiting add is less than the rest is.
	const more = 100 * units.Nanosecond
	check := func(what string, got float64, least units.Time) {
		t.Helper()
		if got < least.Microseconds() || got > (least+more).Microseconds() {
			t.Errorf("%s: %.3f us, want %v to %v", what, got, least, least+more)
		}
	}
	host, oneWay := postTime+pollTime, 2*cfg.PipelineLatency+back.Delay
	write, err := pingPong(cfg, true, back, writePong, 8, 1024)
	if err != nil {
		t.Fatal(err)
	}
	check("WRITE", write, host+2*cfg.PCIe.WriteLatency+oneWay)
	alone := blindLoad{
		service: ib.RC, op: ib.WRRDMARead, payload: 8, machines: 2, queues: 1, threads: 1, window: 1, signal: 1,
		mtu: 1024, direct: true, link: back, nics: []nicmodel.Config{cfg},
	}
	rate, err := alone.run()
	if err != nil {
		t.Fatal(err)
	}
	check("READ", 1/rate, host+2*cfg.PCIe.WriteLatency+cfg.PCIe.ReadLatency+2*oneWay)
}

// A block of 5440 bits comes in at the link's rate before it is corrected; lanes below 25 Gbps have no blocks.
func TestCorrectionOfALink(t *testing.T) {
	for _, c := range []struct {
		rate units.Rate
		want float64 // ns
	}{{40 * units.Gbps, 0}, {fdr, 0}, {2 * fdr, 0}, {100 * units.Gbps, 54.4 + 37}, {200 * units.Gbps, 27.2 + 37}, {400 * units.Gbps, 13.6 + 37}} {
		if got := correction(c.rate).Nanoseconds(); got < c.want-0.1 || got > c.want+0.1 {
			t.Errorf("%v: %.1f ns, want %.1f", c.rate, got, c.want)
		}
	}
}
