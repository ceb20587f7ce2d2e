package verbstest

import (
	"testing"

	_ "github.com/sluice-rdma/sluice/cc/timely" // the engine
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
)

// Shimmed puts a shim with TIMELY over the device of each end, until the end of the test,
// and leaves those devices open.
func Shimmed(t *testing.T, e Ends) Ends {
	t.Helper()
	wrap := func(dev verbs.Device) verbs.Device {
		cfg := paced.DefaultConfig()
		cfg.Scheme = "timely"
		s, err := paced.Wrap(dev, cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.CloseAdopted(); err != nil {
				t.Error(err)
			}
		})
		return s
	}
	same := e.A == e.B
	e.A = wrap(e.A)
	if e.B = e.A; !same {
		e.B = wrap(e.B)
	}
	return e
}
