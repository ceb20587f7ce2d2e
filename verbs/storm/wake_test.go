package storm

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/sim/fault"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
)

// Who is not woken is found, and who is woken for no reason is not: rules 25 and 26.
func TestWoken(t *testing.T) {
	rests := func(r rest, segments int) func(*Process) error {
		return func(p *Process) error {
			p.ward.rest = r
			if segments > 0 {
				p.ward.paces[1] = &pace{segments: make([]segment, segments)}
			}
			p.ward.rested(p.guard.dev.(*paced.Shim))
			delete(p.ward.paces, 1)
			return nil
		}
	}
	// sends has a completion come to a queue that is polled, and asks whether there was to be an event.
	sends := func(solicited, late bool) func(*Process) error {
		return func(p *Process) error {
			w, err := newPeer(p)
			if err != nil {
				return err
			}
			recv := w.recv
			q, err := w.pd.CreateQP(verbs.QPInitAttr{Type: ib.UD, SendCQ: w.send, RecvCQ: w.recv, Cap: verbs.QPCap{MaxSendWR: 1, MaxSendSGE: 1}})
			if err != nil {
				return err
			}
			ah, err := w.pd.CreateAH(verbs.AddressVector{GID: p.Address(1 - p.ID), HopLimit: 64})
			if err != nil {
				return err
			}
			if err := readyUD(q, 1); err != nil {
				return err
			}
			if _, err := q.PostSend([]verbs.SendWR{{Opcode: ib.WRSend, Flags: verbs.SendSignaled, AH: ah, RemoteQPN: 1<<24 - 2, RemoteQKey: datagramQKey}}); err != nil {
				return err
			}
			p.Sleep(10 * time.Microsecond)
			at := p.Now()
			if late {
				at -= units.Nanosecond
			}
			w.recv = w.send // the one that is looked at
			w.slept(at, solicited)
			for _, free := range []func() error{q.Close, ah.Close} {
				if err := free(); err != nil {
					return err
				}
			}
			w.recv = recv
			if w.agent != nil {
				w.agent.stop()
			}
			return w.close()
		}
	}
	for _, c := range []struct {
		name    string
		shim    string
		rule    string // empty: all is well
		program func(*Process) error
	}{
		{"a rest", "none", "", rests(rest{on: true, idle: true, until: units.LongNever}, 0)},
		{"segments leave, and nobody is woken", "none", "rule 26", rests(rest{on: true, idle: true, until: units.LongNever}, 1)},
		{"segments leave, and who rests is woken", "none", "", rests(rest{on: true, idle: true, until: units.LongNever, kicks: 1}, 1)},
		{"woken twice", "none", "rule 26", rests(rest{on: true, idle: true, until: units.LongNever, kicks: 2}, 1)},
		{"nobody rests", "none", "", rests(rest{idle: true, until: units.LongNever}, 1)},
		{"a completion without an event", "", "rule 25", sends(false, false)},
		{"one that is not urgent", "", "", sends(true, false)},
		{"one that came after the wait", "", "", sends(false, true)},
	} {
		cfg := Default()
		cfg.Shim, cfg.Processes, cfg.Faults, cfg.Program = c.shim, 2, fault.Schedule{}, c.program
		r, err := Run(context.Background(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if c.rule == "" && r.Failure != "" || !strings.Contains(r.Failure, c.rule) {
			t.Errorf("%s: %q, expected %q", c.name, r.Failure, c.rule)
		}
	}
}
