package poseidon

import (
	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/units"
)

// Config is Poseidon's parameters. Sections are the paper's. All flows that
// share links must have the same P, K, MinRate and MaxRate: their targets are
// what they compete by.
type Config struct {
	// P is the range of the target delay: it is K for a flow at MaxRate and
	// P + K for one at MinRate (equation 3).
	P units.Time `yaml:"p" eg:"100us" range:"(0,)"`
	// K is the least target delay (equation 3).
	K units.Time `yaml:"k" eg:"3us" range:"(0,)"`
	// M is the step of one update, in (0, 2): at 1 a flow reaches the rate
	// that the delay calls for in one round trip (equations 4 and 5).
	M float64 `yaml:"m" eg:"0.5" range:"(0,2)" why:"from 2 on flows do not converge (equation 12)"`
	// MaxGain bounds the gain of a round trip: by how many e-folds the window
	// answers, in one RTT, a delay that is off by one RTT. Equation 4 has
	// ln(MaxRate/MinRate) M RTT/P, which grows with the RTT; from pi/2 on windows
	// cycle instead of settling (docs/engines/poseidon.md). Where it would exceed
	// MaxGain, the update goes less far. Zero is no bound, the paper's rule. The
	// other choices of Target, Scaling and Update have none.
	MaxGain float64 `yaml:"max_gain" eg:"0.5" range:"(0,1.5707963267948966)" zero:"the paper's rule without a bound" why:"from pi/2 on windows cycle"`
	// MinRate and MaxRate bound the rates whose targets differ (equation 3).
	// MaxRate zero is the line rate; MinRate zero is MaxRate/10000, the
	// paper's ratio.
	MinRate units.Rate `yaml:"min_rate" eg:"100Mbps" range:"(0,)" zero:"max_rate/10000"`
	MaxRate units.Rate `yaml:"max_rate" eg:"100Gbps" range:"(0,)" zero:"the line rate"`
	// MinMD and MaxMI bound the update ratio: MinMD in (0, 1), MaxMI above 1
	// (Algorithm 1). The paper gives no values.
	MinMD float64 `yaml:"min_md" eg:"0.25" range:"(0,1)"`
	MaxMI float64 `yaml:"max_mi" eg:"2" range:"(1,1e6]"`
	// MinCwnd and MaxCwnd bound the window, in packets (Algorithm 1). The
	// paper gives no values. MinCwnd zero is the window that MinRate fills in
	// one base RTT; MaxCwnd zero is the window that the line rate fills in the
	// base RTT and the largest target, P + K.
	MinCwnd float64 `yaml:"min_cwnd" eg:"0.1" range:"(0,1e9]" of:"packets" zero:"what min_rate fills"`
	MaxCwnd float64 `yaml:"max_cwnd" eg:"1000" range:"(0,1e9]" of:"packets" zero:"what the line rate fills" least:"min_cwnd"`
	// InitialCwnd is the first window, in packets; zero is the window that the line rate
	// fills in one base RTT. The paper gives none.
	InitialCwnd float64 `yaml:"initial_cwnd" eg:"10" range:"(0,1e9]" of:"packets" zero:"what the line rate fills"`
	// RetxResetThreshold is the number of retransmission timeouts, without an
	// acknowledgement between them, that take the window to MinCwnd (Algorithm 2). The paper
	// gives no value.
	RetxResetThreshold int `yaml:"retx_reset_threshold" eg:"3" range:"[1,)" of:"timeouts"`

	// Brownfield adds what the switches without telemetry delay a packet to
	// the signal (section 4.1).
	Brownfield bool `yaml:"brownfield" eg:"true"`
	// BaseDelay is the round trip with empty queues that Brownfield takes out
	// of the measured one; zero takes the environment's base RTT.
	BaseDelay units.Time `yaml:"base_delay" eg:"12us" range:"(0,)" zero:"the environment's base RTT"`

	// Signal is compared with the target: mpd, the largest delay of any
	// hop, or rtt, what queues add to the round trip (section 5.6.1 takes the
	// first away to show what it is for). BaseDelay is taken out of the latter.
	Signal string `yaml:"signal" eg:"mpd" one:"mpd rtt"`
	// Target is the law by which the target falls as the rate rises: log (equation 3), power
	// (appendix C, as the rate to the Q), or fixed, not at all (section 5.6.1).
	Target string `yaml:"target" eg:"power" one:"log power fixed"`
	// Scaling is the variable that the target falls with: rate, or cwnd (appendix C), the
	// window, as if every round trip took one base RTT.
	Scaling string `yaml:"scaling" eg:"cwnd" one:"rate cwnd"`
	// Q is the exponent of Target power, from -2 to below 0; -0.5 is Swift's.
	Q float64 `yaml:"q" eg:"-0.25" range:"[-2,0)"`
	// FixedTarget is that of Target fixed; zero is K + P/2, the target of the
	// geometric mean of MinRate and MaxRate. The paper gives none.
	FixedTarget units.Time `yaml:"fixed_target" eg:"10us" range:"(0,)" zero:"k + p/2"`
	// Update is the law of the window's step: distance (equation 4), ratio
	// (equation 13 of appendix B.3), or aimd, which is Swift's additive increase
	// and multiplicative decrease (section 5.6.1).
	Update string `yaml:"update" eg:"aimd" one:"distance ratio aimd"`
	// RatioM is m of equation 13, a delay. The paper gives no value; equation 2
	// asks for more than P/(2 ln(MaxRate/MinRate)) - K.
	RatioM units.Time `yaml:"ratio_m" eg:"20us" range:"[0,)"`
	// AI and Beta are of Update aimd: packets that a round trip adds, and the
	// share of the window that goes for each part by which the delay exceeds the
	// target.
	AI   float64 `yaml:"ai" eg:"2" range:"(0,1e9]" of:"packets"`
	Beta float64 `yaml:"beta" eg:"0.5" range:"(0,1e9]"`
}

// What Signal, Target, Scaling and Update may say.
const (
	SignalMPD = "mpd"
	SignalRTT = "rtt"

	TargetLog   = "log"
	TargetPower = "power"
	TargetFixed = "fixed"

	ScalingRate = "rate"
	ScalingCwnd = "cwnd"

	UpdateDistance = "distance"
	UpdateRatio    = "ratio"
	UpdateAIMD     = "aimd"
)

// DefaultConfig returns the paper's parameters (section 5 and Figure 7), and
// where it has none those named in docs/engines/poseidon.md.
func DefaultConfig() Config {
	return Config{
		P: 40 * units.Microsecond, K: 2 * units.Microsecond, M: 0.25, MaxGain: 1,
		MinMD: 0.5, MaxMI: 4,
		RetxResetThreshold: 5,
		Signal:             SignalMPD, Target: TargetLog, Scaling: ScalingRate, Q: -0.5,
		Update: UpdateDistance, RatioM: units.Microsecond, AI: 1, Beta: 0.8,
	}
}

var settings = field.Of[Config]("poseidon")

// Validate reports the first field out of its range, by the name it has in a
// scenario.
func (c Config) Validate() error {
	if err := settings.Check(&c); err != nil {
		return err
	}
	switch {
	case c.MaxRate > 0 && c.MinRate >= c.MaxRate:
		return field.Bad("poseidon", "min_rate", c.MinRate, "choose less than max_rate, %v", c.MaxRate)
	case c.Signal == SignalRTT && c.Brownfield:
		return field.Bad("poseidon", "brownfield", c.Brownfield, "signal rtt has no use for it, set one of them")
	}
	return nil
}
