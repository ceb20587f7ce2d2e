package verbstest

import (
	"testing"

	_ "github.com/sluice-rdma/sluice/cc/timely" // the engine
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
)

// Shimmed lays a shim with TIMELY over a device that has none. When the test ends it
// closes both.
func Shimmed(t *testing.T, dev verbs.Device) verbs.Device {
	t.Helper()
	cfg := paced.DefaultConfig()
	cfg.Scheme = "timely"
	s, err := paced.Wrap(dev, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
