package metrics

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// A server answers scrapes while the program's own threads use the devices: the
// race detector judges.
func TestScrapeWhileInUse(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	devices := NewDevices()
	if err := reg.Register(devices); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := reg.Gather(); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	pacedPairOn(t, "sim:scraped/h", devices)
	close(stop)
	<-done
}
