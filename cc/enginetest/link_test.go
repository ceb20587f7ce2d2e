package enginetest

import (
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/units"
)

// fixed is an engine that never changes its mind, and keeps what it is told.
type fixed struct {
	control cc.Control
	acks    []cc.Ack
}

func (f *fixed) OnAck(a *cc.Ack) cc.Control {
	b := *a
	b.Path = nil
	f.acks = append(f.acks, b)
	return f.control
}
func (f *fixed) OnLoss(units.Time) cc.Control    { return f.control }
func (f *fixed) OnTimeout(units.Time) cc.Control { return f.control }
func (f *fixed) OnCNP(units.Time) cc.Control     { return f.control }
func (f *fixed) Control() cc.Control             { return f.control }

// 1 us a packet at 8 Gbps.
var env = cc.Env{LineRate: 8 * units.Gbps, BaseRTT: 20 * units.Microsecond, MTU: 1000}

func TestOneFlowMeetsNoQueue(t *testing.T) {
	for _, control := range []cc.Control{
		{Rate: 8 * units.Gbps, Window: cc.Unlimited},
		{Rate: 2 * units.Gbps, Window: cc.Unlimited},
		{Rate: 8 * units.Gbps, Window: 5000}, // 5 packets in 20 us are 2 Gbps
	} {
		l := Link{Rate: 8 * units.Gbps, Env: env}
		e := &fixed{control: control}
		f := l.Add(e, 0)
		l.Run(10*units.Millisecond + env.BaseRTT)
		want := min(control.Rate, units.RateOf(min(control.Window, 1<<30), env.BaseRTT))
		if got := units.RateOf(f.Acked, 10*units.Millisecond); got < want-want/100 || got > want+want/100 {
			t.Errorf("%+v: the flow has %v, want %v", control, got, want)
		}
		for _, a := range e.acks {
			if a.RTT != env.BaseRTT || a.MaxHopDelay != 0 {
				t.Fatalf("%+v: an acknowledgement says %+v", control, a)
			}
		}
		last := e.acks[len(e.acks)-1]
		if last.Acked != f.Acked || last.Sent < last.Acked || last.Bytes != env.MTU || last.NetRTT != env.BaseRTT-units.Microsecond {
			t.Errorf("%+v: the last acknowledgement says %+v", control, last)
		}
	}
}

// Two flows at line rate into one link: what does not fit waits.
func TestQueueGrowsByTheExcess(t *testing.T) {
	l := Link{Rate: 8 * units.Gbps, Env: env}
	e := &fixed{control: cc.Control{Rate: 8 * units.Gbps, Window: cc.Unlimited}}
	l.Add(e, 0)
	l.Add(&fixed{control: e.control}, 0)
	l.Run(env.BaseRTT/4 + 100*units.Microsecond)
	if q := l.Queue(); q < 98_000 || q > 102_000 {
		t.Errorf("after 100 us of double load the queue is %v, want 100KB", q)
	}
	if d := l.Delay(); d < 98*units.Microsecond || d > 102*units.Microsecond {
		t.Errorf("a packet would wait %v, want 100us", d)
	}
	if got := l.Sent(); got < 99_000 || got > 101_000 {
		t.Errorf("the link carried %v in 100 us", got)
	}
	l.Flows[0].Stop, l.Flows[1].Stop = l.Now(), l.Now()
	l.Run(units.Millisecond)
	if l.Queue() != 0 || l.Flows[0].Acked != l.Flows[0].sent {
		t.Errorf("with no sender left %v are queued and %v of %v acknowledged", l.Queue(), l.Flows[0].Acked, l.Flows[0].sent)
	}
	for i := range e.acks[1:] {
		if e.acks[i+1].Now <= e.acks[i].Now || e.acks[i+1].RTT != e.acks[i+1].MaxHopDelay+env.BaseRTT {
			t.Fatalf("acknowledgement %d says %+v after %+v", i+1, e.acks[i+1], e.acks[i])
		}
	}
}
