package nicmodel

import (
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/nicmodel/internal/config"
	"github.com/sluice-rdma/sluice/nicmodel/internal/pcie"
	"github.com/sluice-rdma/sluice/units"
)

// Any NIC runs in any host: a link of a later generation at the host's rate, an earlier one at its own.
func TestOnHost(t *testing.T) {
	lanes := map[int]units.Rate{3: 115_760 * units.Mbps, 4: 227_400 * units.Mbps, 5: 454_800 * units.Mbps}
	broadwell, err := pcie.HostOf("broadwell")
	if err != nil {
		t.Fatal(err)
	}
	for _, nic := range config.Presets() {
		for _, name := range pcie.Hosts() {
			c := preset(t, nic)
			h, err := pcie.HostOf(name)
			if err != nil {
				t.Fatal(err)
			}
			own := c.PCIe.Rate
			c.PCIe.OnHost(h)
			if err := c.Validate(); err != nil {
				t.Errorf("%s in %s: %v", nic, name, err)
			}
			if m := c.PCIe.Memory; m.Rate != h.Memory || m.Rate < 2*c.PCIe.Rate || m.Load != 0 {
				t.Errorf("%s in %s: memory %+v", nic, name, m)
			}
			if (c.PCIe.HostCache.Writes > 0) != (h.Cache.Writes > 0) {
				t.Errorf("%s in %s: cache %+v", nic, name, c.PCIe.HostCache)
			}
			if c.PCIe.Rate > own || c.PCIe.Rate != own && c.PCIe.Rate != lanes[h.Generation] || c.PCIe.ReadLatency != h.ReadLatency {
				t.Errorf("%s in %s: %+v", nic, name, c.PCIe)
			}
		}
	}
	for nic, want := range map[string]units.Rate{"cx7": lanes[3], "cx6": lanes[3], "connectib": 126_028_800_000, "cx3": 63_014_400_000, "cx4lx": 57_880_000_000} {
		c := preset(t, nic)
		if c.PCIe.OnHost(broadwell); c.PCIe.Rate != want {
			t.Errorf("%s in a host with PCIe 3.0: %v, want %v", nic, c.PCIe.Rate, want)
		}
	}
	if _, err := pcie.HostOf("pentium"); err == nil || !strings.Contains(err.Error(), "broadwell") {
		t.Errorf("error %v", err)
	}
	if c := broadwell.Cache; c != (pcie.HostCacheConfig{Size: 25600 << 10, Writes: 2560 << 10, Miss: 53 * units.Nanosecond}) {
		t.Errorf("%+v", c)
	}
}
