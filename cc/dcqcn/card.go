package dcqcn

import (
	"fmt"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/internal/cacheline"
	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/units"
)

func init() {
	cc.Register(cc.Scheme{
		Name:    "nic-default",
		Summary: "what ConnectX cards ship with: DCQCN with the card's parameters, slow restart after losses",
		Source:  "NVIDIA, DCQCN CC Parameters; mlx5's cc_params",
		CNP:     true,
		Card:    true,
	}, DefaultCardConfig, NewCard)
}

// CardConfig is the reaction and the notification point of a ConnectX card, from ConnectX-4 on, by the names that the
// kernel's mlx5 driver gives them (debugfs, cc_params).
type CardConfig struct {
	// ClampTgtRate sets the target to the rate at each cut.
	ClampTgtRate bool `yaml:"rp_clamp_tgt_rate" eg:"true"`
	// ClampTgtRateATI sets it also where the rate has risen by the timer alone since the cut before. It does where the rate has
	// risen by bytes.
	ClampTgtRateATI bool `yaml:"rp_clamp_tgt_rate_ati" eg:"false"`
	// TimeReset is the time between rises without a cut.
	TimeReset units.Time `yaml:"rp_time_reset" eg:"100us" range:"[1us,131071us]"`
	// ByteReset is the bytes between rises without a cut. The driver and mlxconfig count it in units of 64: their 32767 is 2097088B here.
	ByteReset units.Bytes `yaml:"rp_byte_reset" eg:"64KB" range:"[64B,32GB]"`
	// Threshold is how many rises by time, or by bytes, go halfway back to the target before it rises.
	Threshold int `yaml:"rp_threshold" eg:"5" range:"[1,31]" of:"rises"`
	// MaxRate bounds the rate. 0 is the line rate.
	MaxRate units.Rate `yaml:"rp_max_rate" eg:"50Gbps" range:"[1Mbps,)" zero:"the line rate"`
	// AIRate is what a target rises by, and HAIRate where both time and bytes have passed the threshold.
	AIRate  units.Rate `yaml:"rp_ai_rate" eg:"20Mbps" range:"[1Mbps,)"`
	HAIRate units.Rate `yaml:"rp_hai_rate" eg:"200Mbps" range:"[1Mbps,)"`
	// GD is how much of alpha a cut takes off the rate: 1024/2^rp_gd.
	GD int `yaml:"rp_gd" eg:"10" range:"[10,15]"`
	// MinDecFac is the percentage of a rate that a cut leaves at least.
	MinDecFac int `yaml:"rp_min_dec_fac" eg:"25" range:"[0,100]"`
	// MinRate is the lowest rate.
	MinRate units.Rate `yaml:"rp_min_rate" eg:"10Mbps" range:"[1Mbps,)"`
	// RateToSetOnFirstCNP is the rate, and target, after the first notification. 0 is none.
	RateToSetOnFirstCNP units.Rate `yaml:"rp_rate_to_set_on_first_cnp" eg:"10Gbps" range:"[1Mbps,)" zero:"none"`
	// DceTCPG is what is left of alpha at each end of rp_dce_tcp_rtt, of 1024.
	DceTCPG int `yaml:"rp_dce_tcp_g" eg:"1000" range:"[0,1023]"`
	// DceTCPRtt is the span after which alpha changes.
	DceTCPRtt units.Time `yaml:"rp_dce_tcp_rtt" eg:"10us" range:"[1us,131071us]"`
	// RateReduceMonitorPeriod is the least time between two cuts.
	RateReduceMonitorPeriod units.Time `yaml:"rp_rate_reduce_monitor_period" eg:"50us" range:"[1us,1s]"`
	// InitialAlphaValue is alpha at the first notification, of 1024.
	InitialAlphaValue int `yaml:"rp_initial_alpha_value" eg:"512" range:"[1,1023]"`
	// MinTimeBetweenCNPs is the receiver's, in place of nic.cnp_interval.
	MinTimeBetweenCNPs units.Time `yaml:"np_min_time_between_cnps" eg:"50us" range:"[1us,4095us]"`
	// SlowRestart is the percentage of a rate, and of the target, that slow restart leaves after a loss, where the NIC has it
	// (nic.with.transport.slow_restart); once in rp_time_reset. It has no public name.
	SlowRestart int `yaml:"slow_restart" eg:"75" range:"[1,100]"`
}

// DefaultCardConfig returns the parameters that docs/engines/nic-default.md gives the source of.
func DefaultCardConfig() CardConfig {
	return CardConfig{
		ClampTgtRateATI: true, TimeReset: 300 * units.Microsecond, ByteReset: 32767 * byteResetUnit, Threshold: 1,
		AIRate: 5 * units.Mbps, HAIRate: 50 * units.Mbps, GD: 11, MinDecFac: 50, MinRate: units.Mbps,
		DceTCPG: 1019, DceTCPRtt: units.Microsecond, RateReduceMonitorPeriod: 4 * units.Microsecond, InitialAlphaValue: 1023,
		MinTimeBetweenCNPs: 4 * units.Microsecond, SlowRestart: 50,
	}
}

var cardSettings = field.Of[CardConfig]("nic-default")

// Validate reports the first field out of its range, by the name it has in a scenario.
func (c CardConfig) Validate() error { return cardSettings.Check(&c) }

// CNPInterval implements cc.CNPSpaced.
func (c CardConfig) CNPInterval() units.Time { return c.MinTimeBetweenCNPs }

// byteResetUnit is what rp_byte_reset counts in the driver and in firmware (docs/engines/nic-default.md).
const byteResetUnit = 64 * units.Byte

// alphaUnits is alpha 1 in the card's units, 10 bits behind the point.
const alphaUnits = 1024

// card is the reaction point of a card: the paper's, with spans for cuts and for alpha, what cards
// add, and slow restart.
type card struct {
	engine
	firstRate   float64    // 0 for none
	restart     float64    // the share of a rate that slow restart leaves
	restartedAt units.Time // when it last lowered the rate
	rtt         units.Time // the last round trip
	// Slow restart has it rise since a loss, until the line rate or a notification that no loss has brought.
	climbs  bool
	climbAt units.Time // when it rises next
}

// NewCard makes the engine of one flow.
func NewCard(c CardConfig, env cc.Env) (cc.Engine, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if err := env.Validate(); err != nil {
		return nil, fmt.Errorf("nic-default: %w", err)
	}
	line := env.LineRate
	if c.MaxRate > 0 {
		line = min(line, c.MaxRate)
	}
	for _, x := range []struct {
		key string
		v   units.Rate
	}{{"rp_min_rate", c.MinRate}, {"rp_rate_to_set_on_first_cnp", c.RateToSetOnFirstCNP}} {
		if x.v > line {
			return nil, field.Bad("nic-default", x.key, x.v, "choose at most the line rate and rp_max_rate, %v", line)
		}
	}
	e := card{
		engine: engine{
			p: params{
				g: float64(alphaUnits-c.DceTCPG) / alphaUnits, alphaTimer: c.DceTCPRtt,
				increaseTimer: c.TimeReset, byteCounter: c.ByteReset, recovery: c.Threshold,
				additive: float64(c.AIRate), hyper: float64(c.HAIRate), minRate: float64(c.MinRate), maxRate: float64(line),
				cutInterval: c.RateReduceMonitorPeriod,
				keepTarget:  !c.ClampTgtRate, timeKeeps: !c.ClampTgtRateATI, bytesClamp: true,
				depth: alphaUnits / float64(int(1)<<c.GD), least: float64(c.MinDecFac) / 100,
			},
			s:       state{rate: float64(line), target: float64(line), alpha: float64(c.InitialAlphaValue) / alphaUnits},
			control: cc.Control{Rate: line, Window: cc.Unlimited},
		},
		firstRate: float64(c.RateToSetOnFirstCNP), restart: float64(c.SlowRestart) / 100,
		restartedAt: units.LongAgo,
	}
	return cacheline.New(e), nil
}

// OnCNP implements cc.Engine.
func (e *card) OnCNP(now units.Time) cc.Control {
	if !e.s.notified && e.firstRate > 0 {
		e.p.startTimers(&e.s, now)
		e.s.rate, e.s.target = min(e.s.rate, e.firstRate), e.firstRate
		e.p.begin(&e.s, now)
		return e.set()
	}
	if now-e.restartedAt >= e.period() {
		e.climbs = false // no loss has brought it
	}
	return e.engine.OnCNP(now)
}

// OnAck implements cc.Engine.
func (e *card) OnAck(a *cc.Ack) cc.Control {
	if a.RTT > 0 {
		e.rtt = a.RTT
	}
	c := e.engine.OnAck(a)
	if !e.climbs || a.Now < e.climbAt || a.AppLimited || a.RTT == 0 {
		return c
	}
	// Answers clock it, so that it is slow over a full queue, and a span without any, as before a timeout, counts once.
	e.climbAt = a.Now + max(e.p.cutInterval, e.rtt)
	e.s.rate = min(e.s.rate+e.p.hyper, e.p.maxRate)
	e.s.target = max(e.s.target, e.s.rate)
	e.climbs = e.s.rate < e.p.maxRate
	return e.set()
}

// period is the least time between two losses that lower the rate.
func (e *card) period() units.Time { return max(e.p.increaseTimer, 2*e.rtt) }

// SlowRestart implements cc.Restarted: rate and target are lowered, and the rate climbs from there. What left within a round trip of the last time met the queue of the rate before,
// and its loss is known a round trip later.
func (e *card) SlowRestart(now units.Time) (c cc.Control, lowered bool) {
	if now-e.restartedAt < e.period() {
		return e.control, false
	}
	e.p.elapse(&e.s, now, true)
	if !e.s.notified {
		e.p.startTimers(&e.s, now)
	}
	e.restartedAt = now
	e.climbs, e.climbAt = true, now+e.p.cutInterval
	e.s.rate = max(float64(e.s.rate*e.restart), e.p.minRate)
	e.s.target = max(float64(e.s.target*e.restart), e.s.rate)
	e.p.begin(&e.s, now)
	return e.set(), true
}

// SetBack implements cc.Timed.
func (e *card) SetBack(by units.Time) {
	e.engine.SetBack(by)
	e.restartedAt, e.climbAt = e.restartedAt.SetBack(by), e.climbAt.SetBack(by)
}
