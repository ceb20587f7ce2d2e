package scenario

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// A scenario can change every parameter of a NIC.
func TestWithHasEveryParameter(t *testing.T) {
	var walk func(path string, typ reflect.Type)
	n := 0
	walk = func(path string, typ reflect.Type) {
		for i := range typ.NumField() {
			f := typ.Field(i)
			if f.Tag.Get("yaml") == "" {
				t.Errorf("%s.%s has no yaml tag", path, f.Name)
			}
			if n++; f.Type.Kind() == reflect.Struct {
				walk(path+"."+f.Name, f.Type)
			}
		}
	}
	walk("Config", reflect.TypeFor[nicmodel.Config]())
	if n < 60 {
		t.Errorf("only %d parameters were found", n)
	}
}

// A host's link and latency are in place of the preset's; what the scenario says goes before both.
func TestNICHost(t *testing.T) {
	text := strings.Replace(small, "nic:\n", "nic:\n  preset: cx7\n  host: icelake\n  with: {pcie: {tags: 64}}\n", 1)
	s, err := Parse("small.yaml", []byte(text), "systems[B].override.nic.with.pcie.read_latency=700ns")
	if err != nil {
		t.Fatal(err)
	}
	want, err := nicmodel.Preset("cx7")
	if err != nil {
		t.Fatal(err)
	}
	h, err := nicmodel.HostOf("icelake")
	if err != nil {
		t.Fatal(err)
	}
	want.PCIe.OnHost(h)
	want.PCIe.Tags = 64
	for i, latency := range []units.Time{h.ReadLatency, 700 * units.Nanosecond} {
		want := want
		want.PCIe.ReadLatency = latency
		if i == 0 { // it has TIMELY
			want.Transport.AdpRetrans.Enabled, want.Transport.NAKTime = false, 0
		}
		if diff := cmp.Diff(want, s.Systems[i].NICConfig()); diff != "" {
			t.Errorf("system %d: %s", i, diff)
		}
	}
	if _, err := Parse("small.yaml", []byte(text), "nic.host=pentium"); err == nil || !strings.Contains(err.Error(), `nic.host: no host is called "pentium": take one of `) {
		t.Errorf("error %v", err)
	}
}

func TestWith(t *testing.T) {
	text := strings.Replace(small, "nic:\n", "nic:\n  preset: cx5\n  with: {core_clock: 650.5MHz, pcie: {rate: gen3x8, headers: kalia, iommu: {entries: 64, page_size: 4096, miss: 330ns}}, wqe_fetch: 4}\n", 1)
	s, err := Parse("small.yaml", []byte(text), "systems[B].override.nic.with.pcie.iommu.entries=8", "systems[B].override.nic.with.framing=infiniband", "systems[B].override.nic.preset=cx7")
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"cx5", "cx7"} {
		want, err := nicmodel.Preset(name)
		if err != nil {
			t.Fatal(err)
		}
		want.CoreClock = 650_500_000
		want.PCIe.Rate, want.PCIe.Headers = 63_015_384_615, nicmodel.Kalia
		want.PCIe.IOMMU = nicmodel.IOMMUConfig{Entries: 64, PageSize: 4096, Miss: 330 * units.Nanosecond}
		want.WQEFetch = 4
		if i == 0 { // it has TIMELY
			want.Transport.AdpRetrans.Enabled, want.Transport.NAKTime = false, 0
		}
		if i == 1 {
			want.PCIe.IOMMU.Entries = 8
			want.Framing = fabric.InfiniBand
		}
		got := s.Systems[i].NICConfig()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("system %d: %s", i, diff)
		}
	}
	again, err := s.YAML()
	if err != nil {
		t.Fatal(err)
	}
	s2, err := Parse("again.yaml", again)
	if err != nil {
		t.Fatalf("%v in\n%s", err, again)
	}
	for i := range s.Systems {
		a := s.Systems[i].NICConfig()
		b := s2.Systems[i].NICConfig()
		if diff := cmp.Diff(a, b); diff != "" {
			t.Errorf("read back, system %d: %s", i, diff)
		}
	}
}

func TestWithErrors(t *testing.T) {
	text := strings.Replace(small, "nic:\n", "nic:\n  with: {wqe_fetch: 4}\n", 1)
	for _, c := range []struct{ set, want string }{
		{"nic.with.wqe_fech=3", `--set nic.with.wqe_fech=3: nic.with.wqe_fech: there is no such key here: is "wqe_fetch" meant?`},
		{"nic.with.pcie.rate=gen3x9", `--set nic.with.pcie.rate=gen3x9: nic.with.pcie.rate: "gen3x9" is no PCIe link: write generation`},
		{"nic.with.pcie.rate=gen7x8", `nic.with.pcie.rate: "gen7x8" is no PCIe link`},
		{"nic.with.pcie.rate=1kbps", "nic.with.pcie.rate: is 1Kbps: choose 1Mbps to 100Tbps"},
		{"nic.with.pcie.tags=-1", "nic.with.pcie.tags: is -1"},
		{"nic.with.state.fetches=-1", "nic.with.state.fetches: is -1: choose 1 to 65536, or 0 for no limit"},
		{"nic.with.core_clock=5", `nic.with.core_clock: "5" is no clock rate: write it with its unit, such as 500MHz`},
		{"nic.with.pcie.headers=mine", `nic.with.pcie.headers: unknown value "mine", expected pcie-bench, kalia, flit`},
		{"nic.with.pcie.read_latency=530", "nic.with.pcie.read_latency: "},
		{"nic.with.units={units: 4, answer: 1}", "nic.with.units: is 4: choose 1 to 1048576 cycles for units.request and units.answer, or no units"},
		{"nic.with.pcie={tags: 1, posted_credits: -1}", "nic.with.pcie.posted_credits: is -1: choose 1 to 65536, or 0 for no limit"},
		{"nic.with.limiter={min_rate: 1Gbps, max_rate: 1Mbps}", "nic.with.limiter.max_rate: is 1Mbps: choose at least min_rate, 1Gbps"},
		{"nic.with=[]", "nic.with: expected a mapping (key: value), got a list"},
		{"nic.with.max_qp_wr=64", "nic.send_depth: is 128: the NIC's max_qp_wr is 64"},
		{"systems[B].override.nic.with.pcie.mps=9999", "--set systems[B].override.nic.with.pcie.mps=9999: systems[1].override.nic.with.pcie.mps: is 9999: choose 16 to 4096"},
	} {
		_, err := Parse("small.yaml", []byte(text), c.set)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %s", c.set, err, c.want)
		} else if strings.Count(err.Error(), "\n") > 0 {
			t.Errorf("%s: said more than once: %v", c.set, err)
		}
	}
}
