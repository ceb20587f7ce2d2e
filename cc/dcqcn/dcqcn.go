package dcqcn

import (
	"fmt"
	"math"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/internal/cacheline"
	"github.com/sluice-rdma/sluice/internal/detmath"
	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/units"
)

func init() {
	cc.Register(cc.Scheme{
		Name:    "dcqcn",
		Summary: "rate cut by congestion notification packets; needs ECN, and receivers that notify",
		Source:  "Zhu et al., SIGCOMM 2015, section 3.1",
		CNP:     true,
		Sets:    []cc.Set{cc.NewSet("artefact", "inet-tub/ns3-datacenter, 6ddb4a4, UpdateAlphaMlx to HyperIncreaseMlx", ArtefactConfig)},
	}, DefaultConfig, New)
}

// state is a flow's memory between events.
type state struct {
	rate, target float64 // R_C and R_T, bits per second
	alpha        float64

	// When the alpha timer and the increase timer run out next, and what was sent
	// since the byte counter did. None of them runs before the first notification:
	// the rate is the line's then.
	alphaAt, increaseAt units.Time
	bytes, sent         units.Bytes
	notified            bool
	// With CutInterval: when the next of its spans ends, and whether a notification came
	// in the present one, and in the present span of the alpha timer.
	cutAt             units.Time
	mustCut, mustRise bool
	// Rises since the latest notification, by the timer and by the byte counter; what
	// is beyond F + 1 does not count.
	timed, counted int
}

// params is a Config made ready, in the units of state.
type params struct {
	g                         float64
	alphaTimer, increaseTimer units.Time
	byteCounter               units.Bytes // 0: none
	cutInterval               units.Time  // 0: none
	keepTarget, marks         bool
	timeKeeps, bytesClamp     bool    // with keepTarget: rises by the timer do not end that, rises by bytes do
	depth                     float64 // the share of alpha that a cut takes off the rate
	least                     float64 // the share of the rate that a cut leaves
	recovery                  int
	additive, hyper           float64 // bits per second
	minRate, maxRate          float64 // bits per second
}

// decay returns (1 - g)^n.
func (p *params) decay(n int64) float64 {
	power, base := 1.0, 1-p.g
	for ; n > 0; n /= 2 {
		if n&1 != 0 {
			power *= base
		}
		base *= base
	}
	return power
}

// notify is a congestion notification packet, equation 1:
//
//	R_T = R_C,  R_C = R_C (1 - alpha/2),  alpha = (1 - g) alpha + g
//
// and all timers and counters begin again.
func (p *params) notify(s *state, now units.Time) {
	if p.cutInterval > 0 {
		p.note(s, now)
		return
	}
	p.cut(s, now)
	s.alpha = p.raised(s.alpha)
	s.notified = true
	s.alphaAt = now + p.alphaTimer
}

// raised is an alpha after a notification.
func (p *params) raised(alpha float64) float64 { return min(float64((1-p.g)*alpha)+p.g, 1) }

// cut lowers the rate, and begins the stages of increase again.
func (p *params) cut(s *state, now units.Time) {
	if !p.keepTarget || s.timed > 0 && !p.timeKeeps || s.counted > 0 && p.bytesClamp {
		s.target = s.rate
	}
	s.rate = max(float64(s.rate*(1-float64(s.alpha*p.depth))), float64(s.rate*p.least), p.minRate)
	p.begin(s, now)
}

// begin starts the stages of increase.
func (p *params) begin(s *state, now units.Time) {
	s.increaseAt = now + p.increaseTimer
	s.bytes, s.timed, s.counted = 0, 0, 0
}

// note keeps a notification for the ends of the spans it came in. The first begins them;
// alpha is 1 then, and only the rate knows of it.
func (p *params) note(s *state, now units.Time) {
	s.mustCut = true
	if s.notified {
		s.mustRise = true
		return
	}
	s.target = s.rate
	p.startTimers(s, now)
}

// startTimers begins the spans of cuts and of alpha.
func (p *params) startTimers(s *state, now units.Time) {
	s.notified = true
	s.alphaAt, s.cutAt, s.increaseAt = now+p.alphaTimer, now+p.cutInterval, units.Never
}

// elapse catches up with the timers. Rises are lost where the flow may not have
// them.
func (p *params) elapse(s *state, now units.Time, mayRise bool) {
	if !s.notified {
		return
	}
	if p.cutInterval > 0 && now >= s.cutAt {
		at := s.cutAt
		s.cutAt += units.Time(ran(now, at, p.cutInterval)) * p.cutInterval
		if s.mustCut {
			// At an instant of both, alpha is first.
			p.run(s, at, mayRise)
			p.cut(s, at)
			s.mustCut = false
		}
	}
	p.run(s, now, mayRise)
}

// run catches up with alpha's timer and that of increases.
func (p *params) run(s *state, now units.Time, mayRise bool) {
	if n := ran(now, s.alphaAt, p.alphaTimer); n > 0 {
		s.alphaAt += units.Time(n) * p.alphaTimer
		if s.mustRise {
			s.alpha = p.raised(s.alpha)
			s.mustRise = false
			n--
		}
		s.alpha = float64(s.alpha * p.decay(n)) // equation 2, n times
	}
	if n := ran(now, s.increaseAt, p.increaseTimer); n > 0 {
		s.increaseAt += units.Time(n) * p.increaseTimer
		if mayRise {
			p.rise(s, &s.timed, s.counted, n)
		}
	}
}

// ran returns how many times a timer has run out that does so at at and each span
// after.
func ran(now, at, span units.Time) int64 {
	if now < at {
		return 0
	}
	return int64((now-at)/span) + 1
}

// count is the byte counter.
func (p *params) count(s *state, sent units.Bytes, mayRise bool) {
	more := sent - s.sent
	s.sent = sent
	if !s.notified || p.byteCounter == 0 {
		return
	}
	s.bytes += max(more, 0)
	n := int64(s.bytes / p.byteCounter)
	s.bytes -= units.Bytes(n) * p.byteCounter
	if n > 0 && mayRise {
		p.rise(s, &s.counted, s.timed, n)
	}
}

// rise makes n rises of one of the two counters, mine, while the other does not
// change: fast recovery while both are below F, hyper increase when both are above
// it, and else additive increase.
func (p *params) rise(s *state, mine *int, other int, n int64) {
	for ; n > 0 && *mine <= p.recovery; n-- {
		if max(*mine, other) >= p.recovery {
			s.target = min(s.target+p.step(*mine, other), p.maxRate)
		}
		s.rate = (s.rate + s.target) / 2
		*mine++
	}
	if n > 0 {
		p.climb(s, p.step(*mine, other), n)
	}
	if p.maxRate-s.rate < 1 {
		s.rate = p.maxRate // the half of the way that is left never ends
	}
}

func (p *params) step(mine, other int) float64 {
	if p.byteCounter == 0 {
		other = mine
	}
	if min(mine, other) > p.recovery {
		return p.hyper
	}
	return p.additive
}

// climb makes n rises of one step each. The distance d between target and rate
// becomes (d + step)/2 with each, and so step + (d - step)/2^n after n, while the
// target is below the line rate; then it halves.
func (p *params) climb(s *state, step float64, n int64) {
	if below := math.Floor((p.maxRate - s.target) / step); below >= 1 {
		k := min(n, detmath.Int64(min(below, math.MaxInt32)))
		d := step + math.Ldexp(s.target-s.rate-step, -int(min(k, 2000)))
		s.target += float64(float64(k) * step)
		s.rate = s.target - d
		n -= k
	}
	if n > 0 {
		s.target = p.maxRate
		s.rate = p.maxRate - math.Ldexp(p.maxRate-s.rate, -int(min(n, 2000)))
	}
}

type engine struct {
	p       params
	s       state
	control cc.Control
}

// New makes the engine of one flow.
func New(c Config, env cc.Env) (cc.Engine, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := env.Validate(); err != nil {
		return nil, fmt.Errorf("dcqcn: %w", err)
	}
	if c.MinRate > env.LineRate {
		return nil, field.Bad("dcqcn", "min_rate", c.MinRate, "choose at most the line rate, %v", env.LineRate)
	}
	return cacheline.New(start(c, env)), nil
}

// start returns the state of a flow that has sent nothing. The arguments are valid.
func start(c Config, env cc.Env) engine {
	line := float64(env.LineRate)
	e := engine{
		p: params{
			g: c.G, alphaTimer: c.AlphaTimer, increaseTimer: c.IncreaseTimer, byteCounter: c.ByteCounter,
			recovery: c.FastRecovery, additive: float64(c.AdditiveIncrease), hyper: float64(c.HyperIncrease),
			minRate: float64(c.MinRate), maxRate: line,
			cutInterval: c.CutInterval, keepTarget: c.KeepTarget, marks: c.Marks, depth: 0.5,
		},
		// Section 3.1: a flow starts at the line rate. Alpha is 1, so that the first
		// notification halves it.
		s:       state{rate: line, target: line, alpha: 1},
		control: cc.Control{Rate: env.LineRate, Window: cc.Unlimited},
	}
	if c.Window {
		e.control.Window = max(env.LineRate.BytesIn(env.BaseRTT), env.MTU)
	}
	return e
}

func (e *engine) set() cc.Control {
	e.control.Rate = units.Rate(detmath.Int64(e.s.rate))
	return e.control
}

// OnAck catches up with the timers, and with the byte counter.
func (e *engine) OnAck(a *cc.Ack) cc.Control {
	mayRise := !a.AppLimited && a.RTT > 0
	e.p.elapse(&e.s, a.Now, mayRise)
	e.p.count(&e.s, a.Sent, mayRise)
	if e.p.marks && a.ECN {
		e.p.notify(&e.s, a.Now)
	}
	return e.set()
}

// OnLoss changes nothing: DCQCN's fabric loses nothing, and it knows no signal but
// the notifications.
func (e *engine) OnLoss(units.Time) cc.Control { return e.control }

// OnTimeout changes nothing, as OnLoss.
func (e *engine) OnTimeout(units.Time) cc.Control { return e.control }

// OnCNP catches up with the timers, and then cuts the rate.
func (e *engine) OnCNP(now units.Time) cc.Control {
	if e.p.marks {
		return e.control
	}
	e.p.elapse(&e.s, now, true)
	e.p.notify(&e.s, now)
	return e.set()
}

// SetBack implements cc.Timed.
func (e *engine) SetBack(by units.Time) {
	e.s.alphaAt, e.s.increaseAt = e.s.alphaAt.SetBack(by), e.s.increaseAt.SetBack(by)
	e.s.cutAt = e.s.cutAt.SetBack(by)
}

// Bounds implements cc.Bounded.
func (e *engine) Bounds() (floor, ceiling units.Rate) {
	return units.Rate(detmath.Int64(e.p.minRate)), units.Rate(detmath.Int64(e.p.maxRate))
}

// Control returns the rate and the window that hold.
func (e *engine) Control() cc.Control { return e.control }
