package rc_test

import (
	"slices"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

const adpBase = 4 * units.Microsecond

func adpRange(low, size uint8, times uint16, mode rc.AdpDecMode, prev uint8) rc.AdpRange {
	return rc.AdpRange{RangeLowBound: low, RangeSize: size, TimeoutRetryNum: times, DecMode: mode, PrevRangeIndex: prev}
}

func adpProfile(ranges ...rc.AdpRange) *rc.AdpProfile {
	p := &rc.AdpProfile{TimeBase: adpBase, RangeNum: uint8(len(ranges))}
	copy(p.TimeoutRange[:], ranges)
	return p
}

// requester is a queue pair to which nothing comes but what a test says.
type requester struct {
	t   *testing.T
	q   *rc.QP
	now units.Time
	d   rc.Descriptor
	eff rc.Effects
}

func newRequester(t *testing.T, cfg rc.SendConfig) *requester {
	t.Helper()
	q, err := rc.New(rc.Config{MTU: 256, SendDepth: 64})
	if err != nil {
		t.Fatal(err)
	}
	if err := q.ReadyToSend(cfg); err != nil {
		t.Fatal(err)
	}
	r := &requester{t: t, q: q, now: units.Second}
	for range 64 {
		if _, err := q.PostSend(&rc.Request{Op: ib.WRRDMAWrite, Length: 1, Signaled: true}); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// stall returns the spans between the next n timeouts, or up to the queue pair's end. What goes
// out meanwhile is one packet after each.
func (r *requester) stall(n int) (spans []units.Time) {
	r.t.Helper()
	since := r.now
	r.send()
	for len(spans) < n && r.q.State() != ib.Err {
		r.now = r.q.Deadline()
		if r.now == units.Never {
			r.t.Fatal("no timer runs")
		}
		r.q.Expire(r.now, &r.eff)
		if r.eff.Rewind == rc.RewindTimeout || r.q.State() == ib.Err {
			spans = append(spans, r.now-since)
			since = r.now
			r.send()
		}
	}
	return spans
}

func (r *requester) send() { r.q.NextRequest(r.now, &r.d) }

// progress acknowledges the packet that was sent last.
func (r *requester) progress() {
	r.q.Receive(r.now, &rc.Header{Opcode: ib.Acknowledge, PSN: r.d.Header.PSN, Syndrome: rc.SyndromeUnlimited}, 0, &r.eff)
}

func steps(base units.Time, exponents ...int) (times []units.Time) {
	for _, n := range exponents {
		times = append(times, base<<n)
	}
	return times
}

// NVIDIA's page: the initial timeout once, then each of a range timeout_retry_num times, doubled, never longer
// than the queue pair's own; the end is at its timeout times its retry count.
func TestAdaptiveRetransmissionTimeouts(t *testing.T) {
	const own = 4096 * units.Nanosecond << 14 // 67.1 ms, between 4 us << 14 and << 15
	for _, c := range []struct {
		name    string
		profile *rc.AdpProfile
		initial uint8
		retries uint8
		want    []units.Time // all until the end
		adp, to uint64
	}{
		{
			"one range, to the queue pair's own", adpProfile(adpRange(9, 20, 1, rc.AdpLowBound, 0)), 9, 2,
			append(steps(adpBase, 9, 9, 10, 11, 12, 13, 14), 2*own-adpBase<<15), 7, 0,
		},
		{
			"each serves several times, and the next range follows",
			adpProfile(adpRange(2, 1, 2, rc.AdpLowBound, 0), adpRange(10, 1, 3, rc.AdpLowBound, 0)), 2, 1,
			append(steps(adpBase, 2, 2, 2, 3, 3, 10, 10, 10, 11, 11, 11, 11, 11, 11),
				own-(3*adpBase<<2+2*adpBase<<3+3*adpBase<<10+6*adpBase<<11)), 14, 1,
		},
		{
			"an initial timeout in no range leads to the start range",
			func() *rc.AdpProfile {
				p := adpProfile(adpRange(2, 1, 1, rc.AdpLowBound, 0), adpRange(12, 8, 1, rc.AdpLowBound, 0))
				p.StartRangeIndex = 1
				return p
			}(), 5, 1,
			append(steps(adpBase, 5, 12, 13), own-(adpBase<<5+adpBase<<12+adpBase<<13)), 3, 1,
		},
		{
			"a total of the profile's own",
			func() *rc.AdpProfile {
				p := adpProfile(adpRange(4, 20, 1, rc.AdpLowBound, 0))
				p.RetxTotalTimeout = 7
				return p
			}(), 4, 7,
			append(steps(adpBase, 4, 4, 5), adpBase<<6), 3, 1,
		},
	} {
		r := newRequester(t, rc.SendConfig{Timeout: 14, RetryCount: c.retries, Adp: c.profile, AdpInitial: c.initial})
		got := r.stall(1000)
		ctr := r.q.Counters()
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: timeouts after\n %v\nwant\n %v", c.name, got, c.want)
		}
		if n := uint64(len(c.want)) - c.adp - c.to; ctr.RoceAdpRetrans != c.adp || ctr.RoceAdpRetransTO != c.to || ctr.LocalAckTimeoutErr != n {
			t.Errorf("%s: counted %d adaptive, %d ends and %d own, expected %d, %d and %d", c.name,
				ctr.RoceAdpRetrans, ctr.RoceAdpRetransTO, ctr.LocalAckTimeoutErr, c.adp, c.to, n)
		}
		var w rc.SendCompletion
		if !r.q.PollSend(&w) || w.Status != ib.WCRetryExcErr || ctr.RetryExceeded != 1 {
			t.Errorf("%s: it ended with %v", c.name, w.Status)
		}
	}
}

// Progress takes a timeout back as its range says, and begins the total anew.
func TestAdaptiveRetransmissionProgress(t *testing.T) {
	for _, c := range []struct {
		name string
		mode rc.AdpDecMode
		want []int // the timeout after so many times progress
	}{
		{"to the lower bound", rc.AdpLowBound, []int{8, 3, 2, 2}},
		{"by 2", rc.AdpDiv2, []int{9, 8, 3, 2, 2}},
		{"by 4", rc.AdpDiv4, []int{8, 3, 2, 2}},
	} {
		p := adpProfile(adpRange(2, 1, 1, c.mode, 0), adpRange(8, 4, 1, c.mode, 0))
		for i, n := range c.want {
			r := newRequester(t, rc.SendConfig{Timeout: 14, RetryCount: 7, Adp: p, AdpInitial: 2})
			if got, want := r.stall(5), steps(adpBase, 2, 2, 3, 8, 9); !slices.Equal(got, want) {
				t.Fatalf("%s: timeouts after %v, expected %v", c.name, got, want)
			}
			for k := range i + 1 {
				if k > 0 {
					r.send()
				}
				r.progress()
			}
			if got := r.stall(1); got[0] != adpBase<<n {
				t.Errorf("%s: after %d times progress a timeout comes after %v, expected %v", c.name, i+1, got[0], adpBase<<n)
			}
		}
	}
}

// The total counts from the last progress on, and a clock that is set back does not lengthen it.
func TestAdaptiveRetransmissionTotal(t *testing.T) {
	p := adpProfile(adpRange(4, 20, 1, rc.AdpLowBound, 0))
	p.RetxTotalTimeout = 8
	r := newRequester(t, rc.SendConfig{Timeout: 14, RetryCount: 7, Adp: p, AdpInitial: 4})
	r.stall(3)
	r.progress()
	began := r.now
	r.stall(2)
	r.q.SetBack(units.Second / 2)
	r.now, began = r.now-units.Second/2, began-units.Second/2
	r.stall(100)
	if r.q.State() != ib.Err || r.now-began != adpBase<<8 {
		t.Errorf("in state %v after %v, expected an end after %v", r.q.State(), r.now-began, adpBase<<8)
	}
}

// A queue pair without a timer of its own has none of these either.
func TestAdaptiveRetransmissionNeedsATimeout(t *testing.T) {
	r := newRequester(t, rc.SendConfig{RetryCount: 7, Adp: adpProfile(adpRange(4, 20, 1, rc.AdpLowBound, 0)), AdpInitial: 4})
	r.send()
	if r.q.Deadline() != units.Never {
		t.Errorf("a timer runs, until %v", r.q.Deadline())
	}
}

func TestAdaptiveRetransmissionRefuses(t *testing.T) {
	good := adpRange(4, 20, 1, rc.AdpLowBound, 0)
	for name, change := range map[string]func(*rc.AdpProfile, *rc.SendConfig){
		"initial":       func(_ *rc.AdpProfile, s *rc.SendConfig) { s.AdpInitial = 32 },
		"base":          func(p *rc.AdpProfile, _ *rc.SendConfig) { p.TimeBase = adpBase - 1 },
		"long base":     func(p *rc.AdpProfile, _ *rc.SendConfig) { p.TimeBase = units.Second },
		"total":         func(p *rc.AdpProfile, _ *rc.SendConfig) { p.RetxTotalTimeout = 32 },
		"no range":      func(p *rc.AdpProfile, _ *rc.SendConfig) { p.RangeNum = 0 },
		"five ranges":   func(p *rc.AdpProfile, _ *rc.SendConfig) { p.RangeNum = 5 },
		"start":         func(p *rc.AdpProfile, _ *rc.SendConfig) { p.StartRangeIndex = 1 },
		"end":           func(p *rc.AdpProfile, _ *rc.SendConfig) { p.TimeoutRange[0].RangeSize = 28 },
		"order":         func(p *rc.AdpProfile, _ *rc.SendConfig) { p.RangeNum, p.TimeoutRange[1] = 2, good },
		"never":         func(p *rc.AdpProfile, _ *rc.SendConfig) { p.TimeoutRange[0].TimeoutRetryNum = 0 },
		"mode":          func(p *rc.AdpProfile, _ *rc.SendConfig) { p.TimeoutRange[0].DecMode = 3 },
		"previous":      func(p *rc.AdpProfile, _ *rc.SendConfig) { p.TimeoutRange[0].PrevRangeIndex = 1 },
		"what is right": nil,
	} {
		p, s := adpProfile(good), rc.SendConfig{Timeout: 14, AdpInitial: 4}
		s.Adp = p
		if change != nil {
			change(p, &s)
		}
		q, err := rc.New(rc.Config{MTU: 256, SendDepth: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := q.ReadyToSend(s); (err == nil) != (change == nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
