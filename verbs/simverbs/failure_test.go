package simverbs_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/simverbs"
)

// raised returns the events that a device has, oldest first.
func raised(t *testing.T, d verbs.Device) (all []verbs.AsyncEvent) {
	t.Helper()
	for {
		e, err := d.AsyncEvent(t.Context(), 0)
		if errors.Is(err, verbs.ErrTimeout) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e)
	}
}

func portState(t *testing.T, d verbs.Device) verbs.PortState {
	t.Helper()
	p, err := d.Port(1)
	if err != nil {
		t.Fatal(err)
	}
	return p.State
}

// A port that goes down and comes up says so, once each.
func TestSetPort(t *testing.T) {
	a, _ := pair(t, "port")
	dev := a.dev.(*simverbs.Device)
	for _, up := range []bool{true, false, false, true} {
		dev.SetPort(up)
		if want := map[bool]verbs.PortState{true: verbs.PortActive, false: verbs.PortDown}[up]; portState(t, dev) != want {
			t.Errorf("the port is %v, expected %v", portState(t, dev), want)
		}
	}
	if got, want := raised(t, dev), []verbs.AsyncEvent{{Type: ib.EventPortErr, Port: 1}, {Type: ib.EventPortActive, Port: 1}}; !slices.Equal(got, want) {
		t.Errorf("events %v, expected %v", got, want)
	}
}

// A device that dies flushes what its queue pairs have, and makes nothing new.
func TestDie(t *testing.T) {
	a, _ := pair(t, "die")
	dev := a.dev.(*simverbs.Device)
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.qp.PostRecv([]verbs.RecvWR{{WRID: 7}}); err != nil {
		t.Fatal(err)
	}
	dev.Die()
	dev.Die()
	dev.SetPort(true)
	if got, want := raised(t, dev), []verbs.AsyncEvent{{Type: ib.EventDeviceFatal, Port: 1}}; !slices.Equal(got, want) {
		t.Errorf("events %v, expected %v", got, want)
	}
	if portState(t, dev) != verbs.PortDown {
		t.Error("the port is up")
	}
	attr, err := a.qp.Query()
	if err != nil || attr.State != ib.Err {
		t.Errorf("the queue pair is in %v (%v)", attr.State, err)
	}
	var wc [2]verbs.WC
	if err := verbs.Run(dev, func() error { _, err := verbs.Drain(dev, a.cq, wc[:1], time.Second); return err }); !errors.Is(err, ib.WCWRFlushErr) || wc[0].WRID != 7 {
		t.Errorf("completion %+v, %v, expected a flush", wc[0], err)
	}
	_, pdErr := dev.AllocPD()
	_, channelErr := dev.CreateCompChannel()
	_, cqErr := dev.CreateCQ(verbs.CQInitAttr{CQE: 1})
	_, mrErr := pd.RegMR(make([]byte, 1), 0)
	_, srqErr := pd.CreateSRQ(verbs.SRQInitAttr{MaxWR: 1})
	_, qpErr := pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: a.cq, RecvCQ: a.cq})
	for i, err := range []error{pdErr, channelErr, cqErr, mrErr, srqErr, qpErr, a.qp.Modify(verbs.QPAttr{State: ib.Reset}, verbs.AttrState)} {
		if !errors.Is(err, verbs.ErrNoDevice) {
			t.Errorf("call %d: %v, expected %v", i, err, verbs.ErrNoDevice)
		}
	}
	if err := errors.Join(pd.Close(), a.qp.Close()); err != nil {
		t.Error(err)
	}
}

// A queue pair that fails is in ERR, and the event names it; what there is not does not fail.
func TestFailQP(t *testing.T) {
	a, _ := pair(t, "fail")
	dev := a.dev.(*simverbs.Device)
	num := a.qp.Num()
	if dev.FailQP(num+1) || !dev.FailQP(num) || !dev.FailQP(num) {
		t.Error("expected that the device has one queue pair")
	}
	if got, want := raised(t, dev), []verbs.AsyncEvent{{Type: ib.EventQPFatal, QP: a.qp}}; !slices.Equal(got, want) {
		t.Errorf("events %v, expected %v", got, want)
	}
	if attr, err := a.qp.Query(); err != nil || attr.State != ib.Err {
		t.Errorf("the queue pair is in %v (%v)", attr.State, err)
	}
	if err := a.qp.Close(); err != nil {
		t.Error(err)
	}
	if dev.FailQP(num) {
		t.Error("a queue pair that was destroyed has failed")
	}
}
