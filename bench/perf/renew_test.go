package perf

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/exchange"
)

// doomed is a device whose first queue pairs fail: each one that is made gets the next failure.
type doomed struct {
	verbs.Device
	failures []verbs.CallFailure
}

func (d *doomed) Unwrap() verbs.Device { return d.Device }

func (d *doomed) AllocPD() (verbs.PD, error) {
	pd, err := d.Device.AllocPD()
	return &doomedPD{pd, d}, err
}

type doomedPD struct {
	verbs.PD
	dev *doomed
}

func (p *doomedPD) CreateQP(attr verbs.QPInitAttr) (verbs.QP, error) {
	qp, err := p.PD.CreateQP(attr)
	if err == nil && len(p.dev.failures) > 0 {
		f := p.dev.failures[0]
		p.dev.failures = p.dev.failures[1:]
		f.QP = qp.Num()
		if f.Status != ib.WCSuccess {
			err = verbs.Bottom(p.dev).(verbs.CallFailer).FailCall(f)
		}
	}
	return qp, err
}

// doom dooms a device of the model.
func doom(dev verbs.Device, failures ...verbs.CallFailure) verbs.Device {
	return struct {
		*doomed
		verbs.Runner
		verbs.PreciseClock
	}{&doomed{dev, failures}, dev.(verbs.Runner), dev.(verbs.PreciseClock)}
}

func ends(status ib.WCStatus, after uint64) verbs.CallFailure {
	return verbs.CallFailure{Call: verbs.FailCompletion, Status: status, After: after}
}

// Each test goes on when connections of either end are lost, once and several times, and counts all
// its messages: of sends none is received twice, or they would not end.
func TestReconnect(t *testing.T) {
	for _, test := range Tests() {
		for name, change := range map[string]func(*Config){
			"plain":         func(*Config) {},
			"bidirectional": func(c *Config) { c.Bidirectional = !test.Latency },
			"events":        func(c *Config) { c.Events = test != Test{Write, true} },
			"lists":         func(c *Config) { c.PostList, c.CQMod = 10, 50 },
			"sizes":         func(c *Config) { c.All, c.Iterations, c.CQMod = test.Verb == Send, 20, 5 },
			"paced by time": func(c *Config) { c.Duration, c.Iterations = time.Millisecond, 0 },
		} {
			c := DefaultConfig(test)
			c.Iterations, c.QPs, c.Size, c.CQMod, c.Reconnect = 200, 3, 8, 10, time.Second
			if change(&c); c.Validate() != nil {
				continue
			}
			t.Run(fmt.Sprintf("%v/%s", test, name), func(t *testing.T) {
				a, b := model(t, "")
				clients := doom(a, ends(ib.WCRetryExcErr, 2), verbs.CallFailure{}, verbs.CallFailure{}, ends(ib.WCWRFlushErr, 0))
				servers := doom(b, verbs.CallFailure{}, verbs.CallFailure{}, verbs.CallFailure{}, verbs.CallFailure{}, verbs.CallFailure{}, verbs.CallFailure{}, ends(ib.WCRetryExcErr, 3))
				r, err := Pair(clients, servers, c)
				if err != nil {
					t.Fatal(err)
				}
				renewed := uint64(0)
				for _, row := range r.Rows {
					renewed += row.Reconnects
					want := uint64(c.Iterations)
					if !test.Latency {
						want *= uint64(c.QPs)
					}
					if c.Duration == 0 && (row.Iterations != want || row.Lost > 0) {
						t.Errorf("%d messages and %d lost, expected %d", row.Iterations, row.Lost, want)
					}
					if row.Outage == nil {
						t.Error("no outage is measured")
					}
				}
				// The server of reads, atomics and writes completes nothing that could fail.
				want := uint64(3)
				if test.oneSided() && !c.Bidirectional {
					want = 2
				}
				if test == (Test{Send, false}) && !c.Bidirectional {
					want = 2
				}
				if renewed < 2 || renewed > want {
					t.Errorf("connections were made anew %d times, expected up to %d", renewed, want)
				}
			})
		}
	}
}

// A connection that is lost again and again, or whose error is no loss, ends the test.
func TestReconnectEnds(t *testing.T) {
	c := DefaultConfig(Test{Verb: Write})
	c.Iterations, c.CQMod, c.Reconnect = 100, 1, 20*time.Millisecond
	for want, failure := range map[string]verbs.CallFailure{
		"the connection was lost again and again for 20ms": ends(ib.WCRetryExcErr, 0),
		ib.WCRemAccessErr.Error():                          ends(ib.WCRemAccessErr, 5),
		ib.WCGeneralErr.Error():                            ends(ib.WCGeneralErr, 5),
	} {
		a, b := model(t, "")
		failures := make([]verbs.CallFailure, 100000)
		for i := range failures {
			failures[i] = failure
		}
		_, err := Pair(doom(a, failures...), b, c)
		if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, failure.Status) {
			t.Errorf("error %v, expected %q", err, want)
		}
	}
}

// An end that does not make connections anew says so to one that does, and the other way round.
func TestReconnectAtOneEnd(t *testing.T) {
	for _, client := range []bool{true, false} {
		a, b := model(t, "")
		near, far, err := connection(a, b)
		if err != nil {
			t.Fatal(err)
		}
		plain := DefaultConfig(Test{Verb: Write})
		plain.Iterations = 5
		renewing := plain
		renewing.Reconnect = time.Second
		configs := map[bool]Config{true: plain, false: renewing}
		var failed [2]error
		_ = verbs.Run(a,
			func() error { _, failed[0] = Run(a, exchange.New(near, true, 0), configs[client]); return nil },
			func() error { _, failed[1] = Run(b, exchange.New(far, false, 0), configs[!client]); return nil })
		err = errors.Join(failed[:]...)
		if !errors.Is(err, exchange.ErrProtocol) || !strings.Contains(err.Error(), "the same flags?") {
			t.Errorf("client renews: %v: %v", !client, err)
		}
	}
}

// mended is a device whose link is whole again when the third queue pair is made.
type mended struct {
	verbs.Device
	made int
	mend func()
}

func (d *mended) Unwrap() verbs.Device { return d.Device }

func (d *mended) AllocPD() (verbs.PD, error) {
	pd, err := d.Device.AllocPD()
	return &mendedPD{pd, d}, err
}

type mendedPD struct {
	verbs.PD
	dev *mended
}

func (p *mendedPD) CreateQP(attr verbs.QPInitAttr) (verbs.QP, error) {
	if p.dev.made++; p.dev.made == 3 {
		p.dev.mend()
	}
	return p.PD.CreateQP(attr)
}

// A link that is cut for longer than the retries of two connections last ends no test, paced or not.
func TestReconnectAfterACut(t *testing.T) {
	for _, engine := range []string{"", "timely"} {
		for _, test := range []Test{{Verb: Write}, {Verb: Send}, {Verb: Send, Latency: true}} {
			t.Run(fmt.Sprintf("%v/%s", test, engine), func(t *testing.T) { reconnectAfterACut(t, test, engine) })
		}
	}
}

func reconnectAfterACut(t *testing.T, test Test, engine string) {
	a, b := soft(t, "")
	c := DefaultConfig(test)
	c.Iterations, c.Size, c.CQMod, c.QPTimeout, c.Reconnect = 3000, 1000, 1, 8, time.Minute
	link, mend := b.(verbs.LinkFailer), errors.New("the link is not whole again")
	ends := [2]verbs.Device{a, &mended{Device: b, mend: func() { mend = link.FailLink(verbs.LinkFailure{}) }}}
	for i := range ends {
		var err error
		if ends[i], err = (Pacing{Engine: engine}).Wrap(ends[i]); err != nil {
			t.Fatal(err)
		}
	}
	c.Started = func(*Result) {
		if err := link.FailLink(verbs.LinkFailure{Silent: true}); err != nil {
			t.Error(err)
		}
	}
	r, err := Pair(ends[0], ends[1], c)
	if err := errors.Join(err, mend, ends[0].Close(), ends[1].Close()); err != nil {
		t.Fatal(err)
	}
	row := r.Rows[0]
	if row.Iterations != 3000 || row.Reconnects < 2 || row.Outage.LongestUs <= 0 {
		t.Errorf("%+v, %+v", row, row.Outage)
	}
	if row.Repairs == nil || row.Repairs.Timeouts == 0 {
		t.Errorf("repairs of the queue pairs that were lost: %+v", row.Repairs)
	}
	var said strings.Builder
	if err := Summary(&said, r); err != nil || !strings.Contains(said.String(), fmt.Sprintf("connections made anew: %d\n", row.Reconnects)) {
		t.Errorf("%v: %s", err, said.String())
	}
}
