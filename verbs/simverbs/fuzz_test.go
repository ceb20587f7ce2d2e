package simverbs

import (
	"testing"

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
		if o.hosts < 2 || o.hosts > 4096 || o.rate <= 0 || o.delay < 0 || o.delay > units.Second {
			t.Errorf("%q: %+v", query, o)
		}
	})
}
