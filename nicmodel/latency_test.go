package nicmodel

import (
	"testing"

	"github.com/sluice-rdma/sluice/nicmodel/internal/config"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/units"
)

// The first packet of an idle NIC takes what the stages and PCIe on its way say.
func TestFirstPacket(t *testing.T) {
	for _, name := range config.Presets() {
		cfg, err := config.Preset(name)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Units = config.Units{}
		last := units.Time(0)
		for _, payload := range []int{1, 64, 1000, 1024} {
			start, fetch, err := FirstPacket(&cfg, payload, 1024, 100*units.Gbps)
			if err != nil {
				t.Fatal(err)
			}
			got := start + fetch
			link, err := pcie.New(cfg.PCIe)
			if err != nil {
				t.Fatal(err)
			}
			chosen := link.Store(0, 64, pcie.ForDoorbell) + cfg.CoreClock.Begin(cfg.DoorbellCycles+cfg.WQECycles+cfg.SchedulerCycles)
			want := link.Read(chosen, 0, payload, pcie.ForPayload) + cfg.CoreClock.Begin(cfg.PacketiserCycles)
			// Each stage begins with a cycle.
			if cycle := cfg.CoreClock.Begin(1); got < want || got > want+3*cycle {
				t.Errorf("%s: %d bytes take %v, and %v is the sum of the stages", name, payload, got, want)
			}
			if got < last {
				t.Errorf("%s: %d bytes take %v, fewer %v", name, payload, got, last)
			}
			last = got
		}
	}
}
