package swift

import (
	"math"

	"github.com/sluice-rdma/sluice/cc/internal/cwnd"
	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/units"
)

// Config is Swift's parameters. Sections are the paper's, which gives no value but
// MinCwnd's; the others' sources are in docs/engines/swift.md. All flows that share
// links should have the same: they compete by their targets.
type Config struct {
	// BaseTarget is the target delay of a large window over no hop, the base
	// round trip included (section 3.5). Zero is 25us, as Poseidon's section
	// 5.1 has it, or five quarters of the environment's base RTT if that is
	// more.
	BaseTarget units.Time `yaml:"base_target" eg:"30us"`
	// HopScale is added to the target by each hop (topology scaling, section
	// 3.5).
	HopScale units.Time `yaml:"hop_scale" eg:"2us"`
	// Hops is the number of switches on the forward path, for topology scaling,
	// where acknowledgements do not say it. The paper takes it from the IP TTL.
	Hops int `yaml:"hops" eg:"3"`
	// EndpointTarget is the target of the time for which the receiving end holds a
	// packet before it answers (section 3.3). Zero is the base target's value.
	EndpointTarget units.Time `yaml:"endpoint_target" eg:"50us"`
	// FSRange is the most that flow scaling adds to the target (section 3.5);
	// zero turns flow scaling off.
	FSRange units.Time `yaml:"fs_range" eg:"50us"`
	// FSMinCwnd and FSMaxCwnd are the windows, in packets, between which flow
	// scaling goes from all of FSRange to nothing, as 1/sqrt(cwnd) does
	// (section 3.5).
	FSMinCwnd float64 `yaml:"fs_min_cwnd" eg:"0.2"`
	FSMaxCwnd float64 `yaml:"fs_max_cwnd" eg:"50"`
	// AI is the additive increase, in packets a round trip (Algorithm 1).
	AI float64 `yaml:"ai" eg:"2"`
	// Beta is the multiplicative decrease for each part by which the delay
	// exceeds the target (Algorithm 1), above 0.
	Beta float64 `yaml:"beta" eg:"0.5"`
	// MaxMDF is the largest share of the window that one decrease takes, in
	// (0, 1) (Algorithm 1).
	MaxMDF float64 `yaml:"max_mdf" eg:"0.4"`
	// MinCwnd and MaxCwnd bound the window, in packets (Algorithm 1). The least is
	// 0.001 in section 3.4. MaxCwnd zero is the window that the line rate fills in the target delay without
	// flow scaling, or one packet if that is more.
	MinCwnd float64 `yaml:"min_cwnd" eg:"0.02"`
	MaxCwnd float64 `yaml:"max_cwnd" eg:"256"`
	// InitialCwnd is the first window, in packets; zero is the window that the line rate
	// fills in one base RTT, or one packet if that is more.
	InitialCwnd float64 `yaml:"initial_cwnd" eg:"16"`
	// RetxResetThreshold is the number of retransmission timeouts, without an
	// acknowledgement between them, that take the window to MinCwnd (Algorithm 1).
	RetxResetThreshold int `yaml:"retx_reset_threshold" eg:"3"`
	// PLB has the flow leave a path on which its delay stays above the target: after
	// PLBIdleRounds round trips in a row when it has nothing under way, after
	// PLBRounds in any case. A round trip counts if that share of its packets or more,
	// PLBShare, found the delay above the target. Linux has the same three for TCP.
	PLB           bool    `yaml:"plb" eg:"true"`
	PLBShare      float64 `yaml:"plb_share" eg:"0.75"`
	PLBIdleRounds int     `yaml:"plb_idle_rounds" eg:"2"`
	PLBRounds     int     `yaml:"plb_rounds" eg:"8"`
}

// DefaultConfig returns the parameters that docs/engines/swift.md gives the
// source of.
func DefaultConfig() Config {
	return Config{
		HopScale: units.Microsecond, Hops: 5,
		FSRange: 100 * units.Microsecond, FSMinCwnd: 0.1, FSMaxCwnd: 100,
		AI: 1, Beta: 0.8, MaxMDF: 0.5,
		MinCwnd: 0.001, RetxResetThreshold: 5,
		PLBShare: 0.5, PLBIdleRounds: 3, PLBRounds: 12,
	}
}

// Validate reports the first field out of its range, by the name it has in a
// scenario.
func (c Config) Validate() error {
	switch {
	case c.BaseTarget < 0:
		return field.Bad("swift", "base_target", c.BaseTarget, "choose a positive span, such as 25us, or 0 for one that suits the base RTT")
	case c.HopScale < 0:
		return field.Bad("swift", "hop_scale", c.HopScale, "choose a span such as 1us, or 0 for no topology scaling")
	case c.Hops < 0 || c.Hops > maxHops:
		return field.Bad("swift", "hops", c.Hops, "choose the number of switches on the path, 0 to %d", maxHops)
	case c.EndpointTarget < 0:
		return field.Bad("swift", "endpoint_target", c.EndpointTarget, "choose a positive span, such as 50us, or 0 for the base target")
	case c.EndpointTarget > maxSpan:
		return field.Bad("swift", "endpoint_target", c.EndpointTarget, "choose at most %v", maxSpan)
	case c.FSRange < 0:
		return field.Bad("swift", "fs_range", c.FSRange, "choose a positive span, such as 100us, or 0 for no flow scaling")
	case c.BaseTarget > maxSpan:
		return field.Bad("swift", "base_target", c.BaseTarget, "choose at most %v", maxSpan)
	case c.HopScale > maxSpan:
		return field.Bad("swift", "hop_scale", c.HopScale, "choose at most %v", maxSpan)
	case c.FSRange > maxSpan:
		return field.Bad("swift", "fs_range", c.FSRange, "choose at most %v", maxSpan)
	case !(c.FSMinCwnd > 0 && c.FSMinCwnd <= cwnd.MaxPackets):
		return field.Bad("swift", "fs_min_cwnd", c.FSMinCwnd, "choose a positive number of packets, such as 0.1")
	case !(1/math.Sqrt(c.FSMaxCwnd) < 1/math.Sqrt(c.FSMinCwnd) && c.FSMaxCwnd <= cwnd.MaxPackets):
		return field.Bad("swift", "fs_max_cwnd", c.FSMaxCwnd, "choose more than fs_min_cwnd, %v, and up to 1e9, such as 100", c.FSMinCwnd)
	case !(c.AI > 0 && c.AI <= cwnd.MaxPackets):
		return field.Bad("swift", "ai", c.AI, "choose a positive number of packets, such as 1")
	case !(c.Beta > 0 && c.Beta <= cwnd.MaxPackets):
		return field.Bad("swift", "beta", c.Beta, "choose a positive number, such as 0.8")
	case !(c.MaxMDF > 0 && c.MaxMDF < 1):
		return field.Bad("swift", "max_mdf", c.MaxMDF, "choose a number between 0 and 1, such as 0.5")
	case !(c.MinCwnd > 0 && c.MinCwnd <= cwnd.MaxPackets):
		return field.Bad("swift", "min_cwnd", c.MinCwnd, "choose a positive number of packets, such as 0.01")
	case !(c.MaxCwnd >= 0 && c.MaxCwnd <= cwnd.MaxPackets):
		return field.Bad("swift", "max_cwnd", c.MaxCwnd, "choose a number of packets up to 1e9, or 0 for what the line rate fills")
	case c.MaxCwnd > 0 && c.MaxCwnd < c.MinCwnd:
		return field.Bad("swift", "max_cwnd", c.MaxCwnd, "choose at least min_cwnd, %v", c.MinCwnd)
	case !(c.InitialCwnd >= 0 && c.InitialCwnd <= cwnd.MaxPackets):
		return field.Bad("swift", "initial_cwnd", c.InitialCwnd, "choose a positive number of packets, or 0 for what the line rate fills")
	case c.RetxResetThreshold < 1:
		return field.Bad("swift", "retx_reset_threshold", c.RetxResetThreshold, "choose 1 or more timeouts")
	case !(c.PLBShare > 0 && c.PLBShare <= 1):
		return field.Bad("swift", "plb_share", c.PLBShare, "choose a share above 0 and up to 1, such as 0.5")
	case c.PLBIdleRounds < 0 || c.PLBIdleRounds > maxRounds:
		return field.Bad("swift", "plb_idle_rounds", c.PLBIdleRounds, "choose 1 to %d round trips, or 0 for never", maxRounds)
	case c.PLBRounds < 0 || c.PLBRounds > maxRounds:
		return field.Bad("swift", "plb_rounds", c.PLBRounds, "choose 1 to %d round trips, or 0 for never", maxRounds)
	}
	return nil
}

const (
	// maxHops is the largest TTL.
	maxHops = 255
	// maxSpan keeps targets far from the end of theirs.
	maxSpan = units.Second
	// maxRounds is a bound that no network's congestion lasts for.
	maxRounds = 1 << 20
)
