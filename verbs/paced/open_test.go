package paced_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
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

// The provider's queue takes as many segments as may be outstanding, or as the program's has
// requests, and no more than the device or the shim allows.
func TestDepthOfTheProvidersQueue(t *testing.T) {
	const segment = 16 * units.KiB
	for _, c := range []struct {
		outstanding units.Bytes
		wr, most    int // requests of the program's queue, and of any of the device's; 0: no bound
		want        int
	}{
		{segment, 1, 0, 1},
		{5 * segment, 1, 0, 5},
		{5*segment + 1, 1, 0, 6},
		{6*segment - 1, 1, 0, 6},
		{5 * segment, 6, 0, 6},
		{units.GiB, 1, 0, 4096},
		{units.GiB, 1, 100, 100},
		{segment, 100, 100, 100},
		{segment, 5000, 0, 4096},
		{segment, 0, 0, 1},
	} {
		cfg := uncalibrated()
		cfg.Segment, cfg.MaxOutstanding = segment, c.outstanding
		p := newBench(t, cfg, func(p *bench) { p.a.Attrs = func(a *verbs.DeviceAttr) { a.MaxQPWR = c.most } })
		cap := defaultCap()
		cap.MaxSendWR = c.wr
		q, _ := p.connect(cap)
		if below := must(q.Unwrap().Query())(t); below.Cap.MaxSendWR != c.want {
			t.Errorf("%v outstanding, %d requests, %d of the device: %d segments, want %d", c.outstanding, c.wr, c.most, below.Cap.MaxSendWR, c.want)
		}
		if own := must(q.Query())(t); own.Cap.MaxSendWR != max(c.wr, 1) || own.Cap.MaxRecvWR != cap.MaxRecvWR {
			t.Errorf("the program's queue has %+v", own.Cap)
		}
	}
	p := newBench(t, uncalibrated(), func(p *bench) { p.a.Attrs = func(a *verbs.DeviceAttr) { a.MaxQPWR = 100 } })
	for wr, want := range map[int]error{100: nil, 101: verbs.ErrInvalid} {
		_, err := p.pdA.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: p.cq, RecvCQ: p.cq, Cap: verbs.QPCap{MaxSendWR: wr}})
		if !errors.Is(err, want) {
			t.Errorf("%d requests where the device takes 100: %v", wr, err)
		}
	}
}

// The queues in which segments complete have room for all that queue pairs may have under way,
// and for a kick: the first for 4096, the next for twice as many, and none for more than the device's.
func TestSizesOfTheProvidersCQs(t *testing.T) {
	for _, c := range []struct {
		wr, most int // of each queue pair, and of the device's queues
		want     []int
	}{
		{4095, 0, []int{4096, 8192, 8192}},
		{4096, 0, []int{4097, 8194, 8194}},
		{2047, 0, []int{4096, 4096, 8192}},
		{2048, 0, []int{4096, 8192, 8192}},
		{2048, 5000, []int{4096, 5000, 5000}},
		{16, 20, []int{20, 20}},
	} {
		cfg := uncalibrated()
		cfg.MaxOutstanding = cfg.Segment
		p := newBench(t, cfg, func(p *bench) { p.a.Attrs = func(a *verbs.DeviceAttr) { a.MaxCQE = c.most } })
		cap := defaultCap()
		cap.MaxSendWR = c.wr
		var got []int
		for range c.want {
			q, _ := p.connect(cap)
			got = append(got, q.BelowSends().Cap())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%d requests each, queues of up to %d: %v, want %v", c.wr, c.most, got, c.want)
		}
	}
}
