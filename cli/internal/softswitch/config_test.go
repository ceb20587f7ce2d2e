package softswitch

import (
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/units"
)

func TestParsePort(t *testing.T) {
	for text, want := range map[string]Port{
		"veth0": {Interface: "veth0", Buffer: 1 << 20, Packets: 1 << 14},
		"v1:rate=200Mbps,buffer=1MB,ecn=100KB,packets=5": {
			Interface: "v1", Rate: 200 * units.Mbps, Buffer: 1_000_000, ECN: 100_000, Packets: 5,
		},
	} {
		if got, err := ParsePort(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"":                  "no interface",
		"v:":                "KEY=VALUE",
		"v:rate":            "KEY=VALUE",
		"v:rate=5":          "unit missing",
		"v:rate=0Mbps":      "positive",
		"v:rat=5Mbps":       "rate, buffer, packets or ecn",
		"v:buffer=0B":       "buffer",
		"v:packets=x":       "number",
		"v:packets=0":       "0 packets",
		"v:buffer=1MB,ecn=": "ecn",
	} {
		if _, err := ParsePort(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Whatever is written, nothing panics, and what is taken can be used.
func FuzzParsePort(f *testing.F) {
	f.Add("v1:rate=200Mbps,buffer=1MB,ecn=100KB,packets=5")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePort(text)
		if err != nil {
			return
		}
		c := p.egress()
		if p.Interface == "" || c.Validate() != nil {
			t.Errorf("%q is taken as %+v", text, p)
		}
	})
}
