package poseidon

import (
	"math"
	"slices"

	"github.com/sluice-rdma/sluice/cc/internal/cwnd"
	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/units"
)

// Config is Poseidon's parameters. Sections are the paper's. All flows that
// share links must have the same P, K, MinRate and MaxRate: their targets are
// what they compete by.
type Config struct {
	// P is the range of the target delay: it is K for a flow at MaxRate and
	// P + K for one at MinRate (equation 3).
	P units.Time `yaml:"p" eg:"100us"`
	// K is the least target delay (equation 3).
	K units.Time `yaml:"k" eg:"3us"`
	// M is the step of one update, in (0, 2): at 1 a flow reaches the rate
	// that the delay calls for in one round trip (equations 4 and 5).
	M float64 `yaml:"m" eg:"0.5"`
	// MaxGain bounds the gain of a round trip: by how many e-folds the window
	// answers, in one RTT, a delay that is off by one RTT. Equation 4 has
	// ln(MaxRate/MinRate) M RTT/P, which grows with the RTT; from pi/2 on windows
	// cycle instead of settling (docs/engines/poseidon.md). Where it would exceed
	// MaxGain, the update goes less far. Zero is no bound, the paper's rule. The
	// other choices of Target, Scaling and Update have none.
	MaxGain float64 `yaml:"max_gain" eg:"0.5"`
	// MinRate and MaxRate bound the rates whose targets differ (equation 3).
	// MaxRate zero is the line rate; MinRate zero is MaxRate/10000, the
	// paper's ratio.
	MinRate units.Rate `yaml:"min_rate" eg:"100Mbps"`
	MaxRate units.Rate `yaml:"max_rate" eg:"100Gbps"`
	// MinMD and MaxMI bound the update ratio: MinMD in (0, 1), MaxMI above 1
	// (Algorithm 1). The paper gives no values.
	MinMD float64 `yaml:"min_md" eg:"0.25"`
	MaxMI float64 `yaml:"max_mi" eg:"2"`
	// MinCwnd and MaxCwnd bound the window, in packets (Algorithm 1). The
	// paper gives no values. MinCwnd zero is the window that MinRate fills in
	// one base RTT; MaxCwnd zero is the window that the line rate fills in the
	// base RTT and the largest target, P + K.
	MinCwnd float64 `yaml:"min_cwnd" eg:"0.1"`
	MaxCwnd float64 `yaml:"max_cwnd" eg:"1000"`
	// InitialCwnd is the first window, in packets; zero is the window that the line rate
	// fills in one base RTT. The paper gives none.
	InitialCwnd float64 `yaml:"initial_cwnd" eg:"10"`
	// RetxResetThreshold is the number of retransmission timeouts, without an
	// acknowledgement between them, that take the window to MinCwnd (Algorithm 2). The paper
	// gives no value.
	RetxResetThreshold int `yaml:"retx_reset_threshold" eg:"3"`

	// Brownfield adds what the switches without telemetry delay a packet to
	// the signal (section 4.1).
	Brownfield bool `yaml:"brownfield" eg:"true"`
	// BaseDelay is the round trip with empty queues that Brownfield takes out
	// of the measured one; zero takes the environment's base RTT.
	BaseDelay units.Time `yaml:"base_delay" eg:"12us"`

	// Signal is compared with the target: mpd, the largest delay of any
	// hop, or rtt, what queues add to the round trip (section 5.6.1 takes the
	// first away to show what it is for). BaseDelay is taken out of the latter.
	Signal string `yaml:"signal" eg:"mpd"`
	// Target is the law by which the target falls as the rate rises: log (equation 3), power
	// (appendix C, as the rate to the Q), or fixed, not at all (section 5.6.1).
	Target string `yaml:"target" eg:"power"`
	// Scaling is the variable that the target falls with: rate, or cwnd (appendix C), the
	// window, as if every round trip took one base RTT.
	Scaling string `yaml:"scaling" eg:"cwnd"`
	// Q is the exponent of Target power, from -2 to below 0; -0.5 is Swift's.
	Q float64 `yaml:"q" eg:"-0.25"`
	// FixedTarget is that of Target fixed; zero is K + P/2, the target of the
	// geometric mean of MinRate and MaxRate. The paper gives none.
	FixedTarget units.Time `yaml:"fixed_target" eg:"10us"`
	// Update is the law of the window's step: distance (equation 4), ratio
	// (equation 13 of appendix B.3), or aimd, which is Swift's additive increase
	// and multiplicative decrease (section 5.6.1).
	Update string `yaml:"update" eg:"aimd"`
	// RatioM is m of equation 13, a delay. The paper gives no value; equation 2
	// asks for more than P/(2 ln(MaxRate/MinRate)) - K.
	RatioM units.Time `yaml:"ratio_m" eg:"20us"`
	// AI and Beta are of Update aimd: packets that a round trip adds, and the
	// share of the window that goes for each part by which the delay exceeds the
	// target.
	AI   float64 `yaml:"ai" eg:"2"`
	Beta float64 `yaml:"beta" eg:"0.5"`
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

// Validate reports the first field out of its range, by the name it has in a
// scenario.
func (c Config) Validate() error {
	switch {
	case c.P <= 0:
		return field.Bad("poseidon", "p", c.P, "choose a positive span, such as 40us")
	case c.K <= 0:
		return field.Bad("poseidon", "k", c.K, "choose a positive span, such as 2us")
	case !(c.M > 0 && c.M < 2):
		return field.Bad("poseidon", "m", c.M, "choose a number between 0 and 2, such as 0.25; from 2 on flows do not converge (equation 12)")
	case !(c.MaxGain >= 0 && c.MaxGain < math.Pi/2):
		return field.Bad("poseidon", "max_gain", c.MaxGain, "choose a number above 0 and below pi/2, such as 1, or 0 for the paper's rule without a bound; from pi/2 on windows cycle")
	case c.MinRate < 0:
		return field.Bad("poseidon", "min_rate", c.MinRate, "choose a positive rate, or 0 for max_rate/10000")
	case c.MaxRate < 0:
		return field.Bad("poseidon", "max_rate", c.MaxRate, "choose a positive rate, or 0 for the line rate")
	case c.MaxRate > 0 && c.MinRate >= c.MaxRate:
		return field.Bad("poseidon", "min_rate", c.MinRate, "choose less than max_rate, %v", c.MaxRate)
	case !(c.MinMD > 0 && c.MinMD < 1):
		return field.Bad("poseidon", "min_md", c.MinMD, "choose a number between 0 and 1, such as 0.5")
	case !(c.MaxMI > 1 && c.MaxMI <= 1e6):
		return field.Bad("poseidon", "max_mi", c.MaxMI, "choose a number above 1, such as 4")
	case !(c.MinCwnd >= 0 && c.MinCwnd <= cwnd.MaxPackets):
		return field.Bad("poseidon", "min_cwnd", c.MinCwnd, "choose a positive number of packets, or 0 for what min_rate fills")
	case !(c.MaxCwnd >= 0 && c.MaxCwnd <= cwnd.MaxPackets):
		return field.Bad("poseidon", "max_cwnd", c.MaxCwnd, "choose a number of packets up to 1e9, or 0 for what the line rate fills")
	case c.MaxCwnd > 0 && c.MaxCwnd < c.MinCwnd:
		return field.Bad("poseidon", "max_cwnd", c.MaxCwnd, "choose at least min_cwnd, %v", c.MinCwnd)
	case !(c.InitialCwnd >= 0 && c.InitialCwnd <= cwnd.MaxPackets):
		return field.Bad("poseidon", "initial_cwnd", c.InitialCwnd, "choose a positive number of packets, or 0 for what the line rate fills")
	case c.RetxResetThreshold < 1:
		return field.Bad("poseidon", "retx_reset_threshold", c.RetxResetThreshold, "choose 1 or more timeouts")
	case c.BaseDelay < 0:
		return field.Bad("poseidon", "base_delay", c.BaseDelay, "choose a positive span, or 0 for the environment's base RTT")
	case !slices.Contains([]string{SignalMPD, SignalRTT}, c.Signal):
		return field.Bad("poseidon", "signal", c.Signal, "choose mpd or rtt")
	case c.Signal == SignalRTT && c.Brownfield:
		return field.Bad("poseidon", "brownfield", c.Brownfield, "signal rtt has no use for it, set one of them")
	case !slices.Contains([]string{TargetLog, TargetPower, TargetFixed}, c.Target):
		return field.Bad("poseidon", "target", c.Target, "choose log, power or fixed")
	case !slices.Contains([]string{ScalingRate, ScalingCwnd}, c.Scaling):
		return field.Bad("poseidon", "scaling", c.Scaling, "choose rate or cwnd")
	case !(c.Q >= -2 && c.Q < 0):
		return field.Bad("poseidon", "q", c.Q, "choose a number from -2 to below 0, such as -0.5 (appendix C)")
	case c.FixedTarget < 0:
		return field.Bad("poseidon", "fixed_target", c.FixedTarget, "choose a positive span, or 0 for k + p/2")
	case !slices.Contains([]string{UpdateDistance, UpdateRatio, UpdateAIMD}, c.Update):
		return field.Bad("poseidon", "update", c.Update, "choose distance, ratio or aimd")
	case c.RatioM < 0:
		return field.Bad("poseidon", "ratio_m", c.RatioM, "choose a span of 0 or more, such as 1us")
	case !(c.AI > 0 && c.AI <= cwnd.MaxPackets):
		return field.Bad("poseidon", "ai", c.AI, "choose a positive number of packets, such as 1")
	case !(c.Beta > 0 && c.Beta <= cwnd.MaxPackets):
		return field.Bad("poseidon", "beta", c.Beta, "choose a positive number, such as 0.8")
	}
	return nil
}
