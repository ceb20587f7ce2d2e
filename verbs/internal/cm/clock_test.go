package cm_test

import (
	"slices"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs/internal/cm"
)

// A REQ that nobody answers goes out again at the same intervals, and is given up, whenever
// the driver's clock began, and across the instants at which the Manager sets it back.
func TestTheClockDoesNotEnd(t *testing.T) {
	run := func(start units.LongTime) (after []units.Time) {
		h := newHost(t, clientGUID, func(c *cm.Config) { c.Rand = words(1, 2, 3, 4, 5, 6, 7, 8) })
		h.Now(start)
		if _, err := h.Connect(h.Now(start), cm.Request{Path: toServer, ServiceID: service, Endpoint: cm.Endpoint{QPN: 7}, PathMTU: 1024}); err != nil {
			t.Fatal(err)
		}
		now := start
		for range 100 {
			h.drain()
			for range h.sent {
				after = append(after, now.Sub(start))
			}
			h.sent = nil
			t := h.Now(now)
			at := h.Deadline()
			if at == units.Never {
				h.event(cm.EventUnreachable)
				return append(after, now.Sub(start))
			}
			now = now.Add(at - t)
			h.Expire(h.Now(now))
		}
		t.Fatal("it is never given up")
		return nil
	}
	want := run(units.LongTime{})
	if len(want) < 3 {
		t.Fatalf("sent at %v", want)
	}
	const slide = 1 << 60 * units.Picosecond
	for _, start := range []units.LongTime{
		units.Long(0).Add(slide - want[1]/2), units.Long(0).Add(slide - want[2]), units.Long(106 * 24 * time.Hour), units.Long(10 * 365 * 24 * time.Hour),
	} {
		if got := run(start); !slices.Equal(got, want) {
			t.Errorf("from %v on sent at %v, expected %v", start, got, want)
		}
	}
}
