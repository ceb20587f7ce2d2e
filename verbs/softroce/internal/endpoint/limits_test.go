package endpoint

import (
	"errors"
	"testing"

	"github.com/sluice-rdma/sluice/verbs"
)

// newPD makes a protection domain of an endpoint with room.
func newPD(e *Endpoint) *PD {
	pd, err := e.AllocPD()
	if err != nil {
		panic(err)
	}
	return pd
}

// A device has as many objects as it states and no more; one that goes makes room. The
// counts begin two below the limit: nobody makes 2^24 regions here.
func TestObjectsUpToTheLimit(t *testing.T) {
	h := newWorld(t, 1, 1).hosts[0]
	e := h.e
	for _, c := range []struct {
		name  string
		count *int
		most  int
		make  func() (interface{ Close() error }, error)
	}{
		{"protection domains", &e.pds, MaxPD, func() (interface{ Close() error }, error) { return e.AllocPD() }},
		{"completion queues", &e.cqs, MaxCQ, func() (interface{ Close() error }, error) { return e.CreateCQ(1, nil) }},
		{"shared receive queues", &e.srqs, MaxSRQ, func() (interface{ Close() error }, error) {
			return h.pd.CreateSRQ(verbs.SRQInitAttr{MaxWR: 1, MaxSGE: 1})
		}},
	} {
		first, err := c.make()
		if err != nil {
			t.Fatal(err)
		}
		before := *c.count
		*c.count = c.most - 1
		last, err := c.make()
		if err != nil {
			t.Errorf("%s: the last that fits: %v", c.name, err)
			continue
		}
		if _, err := c.make(); !errors.Is(err, verbs.ErrBusy) {
			t.Errorf("%s: one too many: %v", c.name, err)
		}
		if err := last.Close(); err != nil {
			t.Error(err)
		}
		if last, err = c.make(); err != nil {
			t.Errorf("%s: after one has gone: %v", c.name, err)
			continue
		}
		err = last.Close()
		*c.count = before
		if err := errors.Join(err, first.Close()); err != nil {
			t.Error(err)
		}
	}
	h.reg(1, 0)
	n := e.regions.n
	for _, c := range []struct {
		regions int
		want    error
	}{{MaxMR - 1, nil}, {MaxMR, verbs.ErrBusy}} {
		e.regions.n = c.regions
		if _, err := h.pd.newRegion(1, 0); !errors.Is(err, c.want) {
			t.Errorf("a region beside %d: %v, want %v", c.regions, err, c.want)
		}
	}
	e.regions.n = n
	if _, err := h.pd.newRegion(MaxMRSize+1, 0); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("a region one byte too long: %v", err)
	}
	if _, err := h.pd.newRegion(MaxMRSize, 0); err != nil {
		t.Errorf("the longest region: %v", err)
	}
}
