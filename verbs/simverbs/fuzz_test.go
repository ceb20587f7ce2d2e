package simverbs

import (
	"testing"

	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// Whatever follows the question mark gives options in their ranges or an error.
func FuzzOptions(f *testing.F) {
	for _, s := range []string{"hosts=4&rate=25Gbps", "delay=1us&seed=0x10", "nic=cx5", "hosts=0", "rate=-1Gbps", "delay=never", "%zz", "&&=", "hosts"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, query string) {
		o, err := parseOptions(query)
		if err != nil {
			return
		}
		if o.Hosts < 2 || o.Hosts > 4096 || o.Rate <= 0 || o.Delay < 0 || o.Delay > units.Second {
			t.Errorf("%q: %+v", query, o)
		}
	})
}

func TestOptions(t *testing.T) {
	o, err := parseOptions("hosts=4&rate=25Gbps&delay=1us&nic=cx5&seed=0x10&telemetry=per-hop")
	if want := (labOptions{4, 25 * units.Gbps, units.Microsecond, "cx5", 16, telemetry.PerHop}); err != nil || o != want {
		t.Errorf("%+v, %v; want %+v", o, err, want)
	}
	for query, want := range map[string]string{
		"hosts=1":       `option hosts: "1": choose 2 to 4096 hosts`,
		"rate=0bps":     `option rate: "0bps": choose a positive rate, such as 25Gbps`,
		"delay=2s":      `option delay: "2s": choose 0s to 1s, such as 1us`,
		"seed=-1":       `option seed: "-1": choose 0 to 18446744073709551615`,
		"telemetry=int": `option telemetry: "int": choose none, max-delay or per-hop`,
		"speed=1":       "option speed: unknown option, expected hosts, rate, delay, nic, seed, telemetry",
	} {
		if _, err := parseOptions(query); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", query, err, want)
		}
	}
}
