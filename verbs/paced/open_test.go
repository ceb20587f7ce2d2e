package paced_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
	"github.com/sluice-rdma/sluice/verbs/paced/internal/fakenic"
)

// opened is a provider of one device, which counts how often that is open.
type opened struct{ open int }

type openedDevice struct {
	*fakenic.Device
	by *opened
}

var theOpened = &opened{}

func init() { verbs.Register("opened", theOpened) }

func (o *opened) Devices() ([]string, error) { return []string{"opened:a"}, nil }
func (o *opened) Open(name string) (verbs.Device, error) {
	if name != "a" {
		return nil, verbs.ErrNoDevice
	}
	o.open++
	return &openedDevice{fakenic.New().NewDevice(name, line, latency), o}, nil
}

func (d *openedDevice) Close() error {
	d.by.open--
	return d.Device.Close()
}

// Open opens a device and wraps it; what can't be wrapped is closed again.
func TestOpen(t *testing.T) {
	o := theOpened
	for _, c := range []struct {
		name, scheme string
		good         bool
	}{{"opened:a", "timely", true}, {"opened:a", "", true}, {"opened:b", "timely", false}, {"opened:a", "no such engine", false}, {"opened", "timely", false}} {
		s, err := paced.Open(c.name, c.scheme)
		if (err == nil) != c.good || (s != nil) != c.good {
			t.Errorf("%s with %q: %v", c.name, c.scheme, err)
		}
		if s == nil {
			if o.open != 0 {
				t.Errorf("%s with %q: it is open still", c.name, c.scheme)
			}
			continue
		}
		if o.open != 1 {
			t.Errorf("%s with %q: open %d times", c.name, c.scheme, o.open)
		}
		if err := s.Close(); err != nil || o.open != 0 {
			t.Errorf("%s with %q: closed: %v, open %d times", c.name, c.scheme, err, o.open)
		}
	}
}

// Events name the program's objects, and none of the shim's own.
func TestEventsNameTheProgramsObjects(t *testing.T) {
	p := newBench(t, uncalibrated(), nil)
	q, _ := p.connect(defaultCap())
	unknown := must(p.a.CreateCQ(verbs.CQInitAttr{CQE: 1}))(t)
	for name, c := range map[string]struct{ raised, want verbs.AsyncEvent }{
		"a queue pair":       {verbs.AsyncEvent{Type: ib.EventQPFatal, QP: q.Unwrap()}, verbs.AsyncEvent{Type: ib.EventQPFatal, QP: q}},
		"a queue":            {verbs.AsyncEvent{Type: ib.EventCQErr, CQ: p.cq.(*paced.CQ).Below()}, verbs.AsyncEvent{Type: ib.EventCQErr, CQ: p.cq}},
		"a queue of its own": {verbs.AsyncEvent{Type: ib.EventCQErr, CQ: q.BelowSends()}, verbs.AsyncEvent{Type: ib.EventCQErr}},
		"an unknown queue":   {verbs.AsyncEvent{Type: ib.EventCQErr, CQ: unknown}, verbs.AsyncEvent{Type: ib.EventCQErr, CQ: unknown}},
		"the device":         {verbs.AsyncEvent{Type: ib.EventDeviceFatal}, verbs.AsyncEvent{Type: ib.EventDeviceFatal}},
	} {
		p.a.Raise(c.raised)
		if got, err := p.shim.AsyncEvent(t.Context(), 0); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, c.want)
		}
	}
	if _, err := p.shim.AsyncEvent(t.Context(), 0); !errors.Is(err, verbs.ErrTimeout) {
		t.Errorf("no event: %v", err)
	}
	if q.Type() != ib.RC || p.cq.Cap() != p.cq.(*paced.CQ).Below().Cap() || !slices.Contains(p.shim.QPs(), q) {
		t.Error("the wrappers don't tell what they wrap")
	}
	if pd, ok := p.pdA.(interface{ Unwrap() verbs.PD }); !ok || pd.Unwrap() == nil || pd.Unwrap() == p.pdA {
		t.Error("the domain has no provider's below it")
	}
}
