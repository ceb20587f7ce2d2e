package softroce_test

import (
	"context"
	"net/netip"
	"slices"
	"testing"
	"time"

	_ "github.com/sluice-rdma/sluice/cc/timely"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
	"github.com/sluice-rdma/sluice/verbs/peer"
)

// BenchmarkAddedLatency has what one Write of 4 KiB at a time takes, from before its post to
// after the poll that returns its completion: by the device alone, and with TIMELY's shim
// over it, in turns. Percentiles are of all iterations; added- is the shim's less the
// device's.
func BenchmarkAddedLatency(b *testing.B) {
	ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
	defer cancel()
	open := func(name string) verbs.Device {
		dev, err := verbs.Open(name)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = dev.Close() })
		return dev
	}
	l, err := peer.Listen(ctx, netip.MustParseAddrPort("127.0.0.1:0").String())
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	const size = 4096
	connect := func(dev, other verbs.Device) *peer.Conn {
		accepted := make(chan error, 1)
		go func() {
			_, err := l.Accept(ctx, other, make([]byte, size))
			accepted <- err
		}()
		c, err := peer.Dial(ctx, dev, l.Addr().String(), make([]byte, size))
		if err != nil {
			b.Fatal(err)
		}
		if err := <-accepted; err != nil {
			b.Fatal(err)
		}
		return c
	}
	config := paced.DefaultConfig()
	config.Scheme = "timely"
	shim, err := paced.Wrap(open("soft:127.0.41.2"), config)
	if err != nil {
		b.Fatal(err)
	}
	other := open("soft:127.0.41.3")
	conns := []*peer.Conn{connect(open("soft:127.0.41.1"), other), connect(shim, other)}
	var took [2][]time.Duration
	for b.Loop() {
		for i, c := range conns {
			start := time.Now()
			if err := c.Write(ctx, 0, 0, size); err != nil {
				b.Fatal(err)
			}
			took[i] = append(took[i], time.Since(start))
		}
	}
	for i := range took {
		slices.Sort(took[i])
	}
	for _, p := range []struct {
		name  string
		share float64
	}{{"p50", 0.5}, {"p99", 0.99}, {"p99.9", 0.999}} {
		at := func(i int) float64 {
			return float64(took[i][int(float64(len(took[i])-1)*p.share)].Nanoseconds()) / 1000
		}
		b.ReportMetric(at(0), p.name+"-us")
		b.ReportMetric(at(1)-at(0), "added-"+p.name+"-us")
	}
}
