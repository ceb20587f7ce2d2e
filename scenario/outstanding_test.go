package scenario

import (
	"slices"
	"testing"

	"github.com/sluice-rdma/sluice/units"
)

// What restates a paper's experiment says what the shim's bound is, so that no default
// moves its figures; where nobody says, the bound follows the link.
func TestExperimentsStateTheShimsBound(t *testing.T) {
	for _, name := range slices.Concat(Reproductions(), []string{"timely-table1", "timely-fig11", "nic-offload"}) {
		s, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, sys := range s.Systems {
			if !sys.Offload() && sys.Shim.Outstanding == 0 {
				t.Errorf("%s, %s: shim.outstanding is not stated", name, sys.Name)
			}
		}
	}
	for name, want := range map[string]units.Bytes{"timely-table1": 48 * units.KiB, "timely-fig11": 16 * units.KiB, "timely-fig2": 192 * units.KiB, "quickstart": 0} {
		s, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Systems[0].Shim.Outstanding; got != want {
			t.Errorf("%s: %v, expected %v", name, got, want)
		}
	}
}
