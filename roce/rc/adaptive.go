package rc

import (
	"fmt"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
)

// Adaptive retransmission as ConnectX cards have it: NVIDIA, "Adaptive Retransmission: Parameters Control" (2025),
// algorithm and profile description. Names are those of the register's layout (adp_retx_profile, adp_retx_to_range).
//
// Times are TimeBase << n; n is what the fields hold. The first timeout of a queue pair is SendConfig.AdpInitial, which
// serves once. From the next one on the timeout follows a range: each value serves TimeoutRetryNum times, then it
// doubles up to the range's end, and the next range follows. Progress lowers it again, as the range's DecMode says. No
// timeout is longer than the queue pair's own (SendConfig.Timeout), and without progress for RetryCount times
// that, or for RetxTotalTimeout, the oldest request fails.
//
// Readings, where the page says nothing:
//   - Each progress lowers the timeout once.
//   - Out of a range whose lower bound is reached, progress goes to the end of the range PrevRangeIndex.
//   - Timeouts shorter than the queue pair's own count as roce_adp_retrans, others as local_ack_timeout_err: a
//     ConnectX-6 was seen to count so. Requests that end within the former count as roce_adp_retrans_to.
//   - A sequence error takes one of RetryCount as without this; a timeout takes time alone.

// AdpProfile is a profile of adaptive retransmission.
type AdpProfile struct {
	TimeBase         units.Time // at least 4 us
	RetxTotalTimeout uint8      // 0 is RetryCount times the queue pair's timeout (qp_total_timeout)
	StartRangeIndex  uint8      // of the range for an initial timeout that is in none
	RangeNum         uint8      // of TimeoutRange, 1 to 4
	TimeoutRange     [4]AdpRange
}

// AdpRange is the timeouts from RangeLowBound to RangeLowBound + RangeSize.
type AdpRange struct {
	RangeLowBound, RangeSize uint8
	TimeoutRetryNum          uint16 // how often each serves, at least 1
	DecMode                  AdpDecMode
	PrevRangeIndex           uint8
}

// AdpDecMode says how progress lowers a timeout.
type AdpDecMode uint8

// Ways to lower a timeout, with the register's values.
const (
	AdpDiv4     AdpDecMode = iota // TO_DIV_4
	AdpDiv2                       // TO_DIV_2
	AdpLowBound                   // TO_LOW_BOUND
)

// maxAdpExponent keeps TimeBase << n within units.Time.
const maxAdpExponent = 31

// Validate reports what is wrong with a profile.
func (p *AdpProfile) Validate() error {
	switch {
	case p.TimeBase < 4*units.Microsecond || p.TimeBase > 65536*units.Microsecond:
		return fmt.Errorf("rc: TimeBase %v, expected 4us to 65536us", p.TimeBase)
	case p.RetxTotalTimeout > maxAdpExponent:
		return fmt.Errorf("rc: RetxTotalTimeout %d, expected 0 to %d", p.RetxTotalTimeout, maxAdpExponent)
	case p.RangeNum < 1 || int(p.RangeNum) > len(p.TimeoutRange):
		return fmt.Errorf("rc: RangeNum %d, expected 1 to %d", p.RangeNum, len(p.TimeoutRange))
	case p.StartRangeIndex >= p.RangeNum:
		return fmt.Errorf("rc: StartRangeIndex %d, expected 0 to %d", p.StartRangeIndex, p.RangeNum-1)
	}
	for i, r := range p.TimeoutRange[:p.RangeNum] {
		switch {
		case int(r.RangeLowBound)+int(r.RangeSize) > maxAdpExponent:
			return fmt.Errorf("rc: TimeoutRange[%d] ends at %d, expected at most %d", i, int(r.RangeLowBound)+int(r.RangeSize), maxAdpExponent)
		case i > 0 && r.RangeLowBound <= p.TimeoutRange[i-1].RangeLowBound:
			return fmt.Errorf("rc: TimeoutRange[%d] begins at %d, expected above the one before it", i, r.RangeLowBound)
		case r.TimeoutRetryNum < 1:
			return fmt.Errorf("rc: TimeoutRetryNum 0 of TimeoutRange[%d], expected at least 1", i)
		case r.DecMode > AdpLowBound:
			return fmt.Errorf("rc: DecMode %d of TimeoutRange[%d], expected 0 to %d", r.DecMode, i, AdpLowBound)
		case r.PrevRangeIndex >= p.RangeNum:
			return fmt.Errorf("rc: PrevRangeIndex %d of TimeoutRange[%d], expected 0 to %d", r.PrevRangeIndex, i, p.RangeNum-1)
		}
	}
	return nil
}

// adaptive is a requester's state of adaptive retransmission; without it it is zero.
type adaptive struct {
	adp     *AdpProfile
	longest units.Time // the queue pair's own timeout
	stalled units.Time // since when there is no progress, once a timer has run out; else Never
	step    uint8      // the timeout
	span    uint8      // its range
	used    uint16     // how often it has served
	ranged  bool       // a timer has run out: step follows the ranges
}

// adapt starts adaptive retransmission, of a queue pair that has its own timeout.
func (q *QP) adapt(cfg *SendConfig) {
	if cfg.Adp == nil || q.timeout == units.Never {
		return
	}
	q.adaptive = adaptive{adp: cfg.Adp, longest: q.timeout, stalled: units.Never, step: cfg.AdpInitial}
	q.timeout = q.stepTime()
}

// stepTime is the timeout that step stands for.
func (q *QP) stepTime() units.Time { return min(q.adp.TimeBase<<q.step, q.longest) }

// total is how long there may be no progress.
func (q *QP) total() units.Time {
	if n := q.adp.RetxTotalTimeout; n > 0 {
		return q.adp.TimeBase << n
	}
	return q.longest * units.Time(q.sender.RetryCount)
}

// timedOut goes back, with a longer timeout or none.
func (q *QP) timedOut(now units.Time, eff *Effects) {
	if q.stalled == units.Never {
		q.stalled = q.progress
	}
	early := q.adp.TimeBase<<q.step < q.longest
	left := q.stalled + q.total() - now
	if left <= 0 {
		q.ctr.RetryExceeded++
		if early {
			q.ctr.RoceAdpRetransTO++
		} else {
			q.ctr.LocalAckTimeoutErr++
		}
		q.fail(ib.WCRetryExcErr, eff)
		return
	}
	if early {
		q.ctr.RoceAdpRetrans++
	} else {
		q.ctr.LocalAckTimeoutErr++
	}
	q.lengthen()
	q.adjusted = true
	q.timeout = min(q.stepTime(), left)
	q.recovering = false
	q.rewind(RewindTimeout, eff)
}

// lengthen takes the timeout that follows.
func (q *QP) lengthen() {
	if !q.ranged {
		q.ranged, q.used = true, 0
		for i, r := range q.adp.TimeoutRange[:q.adp.RangeNum] {
			if r.RangeLowBound <= q.step && q.step <= r.RangeLowBound+r.RangeSize {
				q.span = uint8(i)
				return
			}
		}
		q.enter(q.adp.StartRangeIndex, false)
		return
	}
	r := &q.adp.TimeoutRange[q.span]
	if q.used++; q.used < r.TimeoutRetryNum {
		return
	}
	switch {
	case q.step < r.RangeLowBound+r.RangeSize:
		q.step, q.used = q.step+1, 0
	case q.span+1 < q.adp.RangeNum:
		q.enter(q.span+1, false)
	}
}

// enter takes the first, or the last, timeout of a range.
func (q *QP) enter(span uint8, last bool) {
	r := &q.adp.TimeoutRange[span]
	q.span, q.step, q.used = span, r.RangeLowBound, 0
	if last {
		q.step += r.RangeSize
	}
}

// shorten lowers the timeout: there is progress.
func (q *QP) shorten() {
	q.stalled = units.Never
	r := &q.adp.TimeoutRange[q.span]
	switch {
	case q.step <= r.RangeLowBound:
		if r.PrevRangeIndex < q.span {
			q.enter(r.PrevRangeIndex, true)
		}
	case r.DecMode == AdpLowBound:
		q.step = r.RangeLowBound
	case r.DecMode == AdpDiv2:
		q.step--
	default:
		q.step = max(q.step-min(q.step, 2), r.RangeLowBound)
	}
	q.used = 0
	r = &q.adp.TimeoutRange[q.span]
	q.adjusted = q.step > r.RangeLowBound || q.span > r.PrevRangeIndex
	q.timeout = q.stepTime()
}
