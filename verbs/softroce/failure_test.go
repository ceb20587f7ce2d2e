package softroce

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// writers are two connected queue pairs in simulated time, of which the first writes.
type writers struct {
	w   *World
	dev [2]verbs.Device
	qp  [2]verbs.QP
	cq  [2]verbs.CQ
	mr  [2]verbs.MR
}

// write writes 4 KiB and returns how long that took and how it ended.
func (x *writers) write() (took time.Duration, status ib.WCStatus, err error) {
	began := x.dev[0].Now()
	if _, err := x.qp[0].PostSend([]verbs.SendWR{{
		Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(x.mr[0], 0, 4096)}, RemoteAddr: x.mr[1].Addr(), RKey: x.mr[1].RKey(),
	}}); err != nil {
		return 0, 0, err
	}
	wc := make([]verbs.WC, 1)
	for n := 0; n == 0; {
		if n, err = x.cq[0].Poll(wc); err != nil {
			return 0, 0, err
		}
	}
	return x.dev[0].Now() - began, wc[0].Status, nil
}

func (x *writers) counter(i int, name string) uint64 { return x.w.devices[i].Counters()[name] }

// raisedBy returns the events that a device has waiting.
func raisedBy(t *testing.T, d verbs.Device) (all []string) {
	for {
		e, err := d.AsyncEvent(t.Context(), 0)
		if err != nil {
			return all
		}
		all = append(all, e.Type.String())
	}
}

// writing runs f over writers whose queue pairs try again 7 times, 1 ms after the last.
func writing(t *testing.T, f func(x *writers) error) {
	t.Helper()
	w, err := NewWorld(des.New(), 2, DefaultWorld())
	if err != nil {
		t.Fatal(err)
	}
	x := &writers{w: w}
	run := func() error {
		var ends [2]verbs.Endpoint
		for i := range 2 {
			d := w.Device(i)
			pd, err := d.AllocPD()
			if err != nil {
				return err
			}
			if x.cq[i], err = d.CreateCQ(verbs.CQInitAttr{CQE: 16}); err != nil {
				return err
			}
			if x.qp[i], err = pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: x.cq[i], RecvCQ: x.cq[i], Cap: verbs.QPCap{MaxSendWR: 16, MaxSendSGE: 1}}); err != nil {
				return err
			}
			if x.mr[i], err = pd.RegMR(make([]byte, 4096), ib.AccessLocalWrite|ib.AccessRemoteWrite); err != nil {
				return err
			}
			gid, err := d.GID(1, 0)
			if err != nil {
				return err
			}
			x.dev[i], ends[i] = d, verbs.Endpoint{GID: gid, QPN: x.qp[i].Num()}
		}
		p := verbs.DefaultRC()
		p.PathMTU, p.Timeout, p.RetryCnt = 1024, 8, 7 // 1.05 ms
		for i := range 2 {
			if err := verbs.ConnectRC(x.qp[i], ends[i], ends[1-i], p); err != nil {
				return err
			}
		}
		return f(x)
	}
	if err := verbs.Run(w.Device(0), run); err != nil {
		t.Error(err)
	}
}

// comesUp is an event at which a port comes up.
type comesUp struct{ verbs.Failer }

func (c comesUp) Handle(des.Event) { c.SetPort(true) }

// A port that is down loses what comes and goes. One that comes back within the retry time costs
// time alone.
func TestSetPort(t *testing.T) {
	writing(t, func(x *writers) error {
		for i := range 2 {
			port := x.dev[i].(verbs.Failer)
			port.SetPort(false)
			port.SetPort(false)
			if a, err := x.dev[i].Port(1); err != nil || a.State != verbs.PortDown {
				return fmt.Errorf("device %d: state %v (%w)", i, a.State, err)
			}
			x.w.engine.Schedule(x.w.engine.Now()+3*units.Millisecond, &x.w.src, x.w.engine.AddHandler(comesUp{port}), 0, 0)
			took, status, err := x.write()
			if err != nil || status != ib.WCSuccess || took < 3*time.Millisecond || took > 5*time.Millisecond {
				return fmt.Errorf("device %d: a write took %v and ended with %v (%w)", i, took, status, err)
			}
			if got, want := raisedBy(t, x.dev[i]), []string{ib.EventPortErr.String(), ib.EventPortActive.String()}; !slices.Equal(got, want) {
				return fmt.Errorf("device %d: events %v, expected %v", i, got, want)
			}
			if a, err := x.dev[i].Port(1); err != nil || a.State != verbs.PortActive {
				return fmt.Errorf("device %d: state %v (%w)", i, a.State, err)
			}
		}
		if sent, received := x.counter(0, "tx_failure_lost"), x.counter(1, "rx_failure_lost"); sent == 0 || received == 0 {
			return fmt.Errorf("%d packets lost that the first sent, %d that the second received", sent, received)
		}
		return nil
	})
}

// A link fails as asked while its port stays up, and is whole again.
func TestFailLink(t *testing.T) {
	for _, c := range []struct {
		name        string
		of          int // whose link
		link        verbs.LinkFailure
		least, most time.Duration
		status      ib.WCStatus
	}{
		{"silent", 0, verbs.LinkFailure{Silent: true}, 8 * time.Millisecond, 10 * time.Millisecond, ib.WCRetryExcErr},
		{"silent at the peer", 1, verbs.LinkFailure{Silent: true}, 8 * time.Millisecond, 10 * time.Millisecond, ib.WCRetryExcErr},
		{"one way, what it sends", 1, verbs.LinkFailure{Silent: true, OneWay: true}, 8 * time.Millisecond, 10 * time.Millisecond, ib.WCRetryExcErr},
		{"loses all that it sends", 0, verbs.LinkFailure{Loss: 1}, 8 * time.Millisecond, 10 * time.Millisecond, ib.WCRetryExcErr},
		{"slow", 0, verbs.LinkFailure{Rate: 100 * units.Mbps}, 300 * time.Microsecond, 500 * time.Microsecond, ib.WCSuccess},
		{"far", 0, verbs.LinkFailure{Delay: 100 * units.Microsecond}, 100 * time.Microsecond, 110 * time.Microsecond, ib.WCSuccess},
		{"whole", 0, verbs.LinkFailure{}, time.Microsecond, 10 * time.Microsecond, ib.WCSuccess},
	} {
		t.Run(c.name, func(t *testing.T) {
			writing(t, func(x *writers) error {
				link := x.dev[c.of].(verbs.LinkFailer)
				if err := link.FailLink(c.link); err != nil {
					return err
				}
				took, status, err := x.write()
				if err != nil || status != c.status || took < c.least || took > c.most {
					return fmt.Errorf("a write took %v and ended with %v (%w)", took, status, err)
				}
				if a, err := x.dev[c.of].Port(1); err != nil || a.State != verbs.PortActive || len(raisedBy(t, x.dev[c.of])) > 0 {
					return fmt.Errorf("the port shows the failure: %v (%w)", a.State, err)
				}
				if status != ib.WCSuccess {
					return nil
				}
				if err := link.FailLink(verbs.LinkFailure{}); err != nil {
					return err
				}
				if took, status, err = x.write(); err != nil || status != ib.WCSuccess || took > 10*time.Microsecond {
					return fmt.Errorf("over a link that is whole again a write took %v and ended with %v (%w)", took, status, err)
				}
				return nil
			})
		})
	}
	writing(t, func(x *writers) error {
		err := x.dev[0].(verbs.LinkFailer).FailLink(verbs.LinkFailure{Loss: 1.5})
		if !errors.Is(err, verbs.ErrInvalid) || !strings.Contains(err.Error(), "Loss is 150%") && !strings.Contains(err.Error(), "loss") {
			return fmt.Errorf("a loss of 1.5: %w", err)
		}
		return nil
	})
}

// A queue pair that fails is in ERR, what it had is flushed, and the event names it. Others stay.
func TestFailQP(t *testing.T) {
	writing(t, func(x *writers) error {
		dev := x.dev[0].(verbs.Failer)
		for range 2 {
			if !dev.FailQP(x.qp[0].Num()) || dev.FailQP(x.qp[1].Num()) {
				return errors.New("expected that the device has the first queue pair alone")
			}
		}
		if e, err := x.dev[0].AsyncEvent(t.Context(), 0); err != nil || e.Type != ib.EventQPFatal || e.QP != x.qp[0] {
			return fmt.Errorf("event %v (%w)", e, err)
		}
		if _, status, err := x.write(); err != nil || status != ib.WCWRFlushErr || len(raisedBy(t, x.dev[0])) > 0 {
			return fmt.Errorf("a write ended with %v (%w)", status, err)
		}
		if a, err := x.qp[1].Query(); err != nil || a.State != ib.RTS {
			return fmt.Errorf("the peer's queue pair is in %v (%w)", a.State, err)
		}
		return nil
	})
}

// A device that dies flushes all, and makes nothing new.
func TestDie(t *testing.T) {
	writing(t, func(x *writers) error {
		dev := x.dev[0].(verbs.Failer)
		dev.Die()
		dev.Die()
		dev.SetPort(true)
		if got, want := raisedBy(t, x.dev[0]), []string{ib.EventPortErr.String(), ib.EventDeviceFatal.String()}; !slices.Equal(got, want) {
			return fmt.Errorf("events %v, expected %v", got, want)
		}
		if _, status, err := x.write(); err != nil || status != ib.WCWRFlushErr {
			return fmt.Errorf("a write ended with %v (%w)", status, err)
		}
		if _, err := x.dev[0].AllocPD(); !errors.Is(err, verbs.ErrNoDevice) {
			return fmt.Errorf("a protection domain: %w", err)
		}
		if a, err := x.dev[0].Port(1); err != nil || a.State != verbs.PortDown {
			return fmt.Errorf("the port is %v (%w)", a.State, err)
		}
		return nil
	})
}
