package swift

import (
	"math"

	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/units"
)

// Config is Swift's parameters. Sections are the paper's, which gives no value but
// MinCwnd's; the others' sources are in docs/engines/swift.md. All flows that share
// links should have the same: they compete by their targets. Bounds of a second keep
// targets far from the end of theirs; hops go up to the largest TTL.
type Config struct {
	// BaseTarget is the target delay of a large window over no hop, the base
	// round trip included (section 3.5). Zero is 25us, as Poseidon's section
	// 5.1 has it, or five quarters of the environment's base RTT if that is
	// more.
	BaseTarget units.Time `yaml:"base_target" eg:"30us" range:"(0,1s]" zero:"one that suits the base RTT"`
	// HopScale is added to the target by each hop (topology scaling, section
	// 3.5).
	HopScale units.Time `yaml:"hop_scale" eg:"2us" range:"(0,1s]" zero:"no topology scaling"`
	// Hops is the number of switches on the forward path, for topology scaling,
	// where acknowledgements do not say it. The paper takes it from the IP TTL.
	Hops int `yaml:"hops" eg:"3" range:"[0,255]" of:"switches"`
	// EndpointTarget is the target of the time for which the receiving end holds a
	// packet before it answers (section 3.3). Zero is the base target's value.
	EndpointTarget units.Time `yaml:"endpoint_target" eg:"50us" range:"(0,1s]" zero:"the base target"`
	// FSRange is the most that flow scaling adds to the target (section 3.5);
	// zero turns flow scaling off.
	FSRange units.Time `yaml:"fs_range" eg:"50us" range:"(0,1s]" zero:"no flow scaling"`
	// FSMinCwnd and FSMaxCwnd are the windows, in packets, between which flow
	// scaling goes from all of FSRange to nothing, as 1/sqrt(cwnd) does
	// (section 3.5).
	FSMinCwnd float64 `yaml:"fs_min_cwnd" eg:"0.2" range:"(0,1e9]" of:"packets"`
	FSMaxCwnd float64 `yaml:"fs_max_cwnd" eg:"50" range:"(0,1e9]" of:"packets"`
	// AI is the additive increase, in packets a round trip (Algorithm 1).
	AI float64 `yaml:"ai" eg:"2" range:"(0,1e9]" of:"packets"`
	// Beta is the multiplicative decrease for each part by which the delay
	// exceeds the target (Algorithm 1), above 0.
	Beta float64 `yaml:"beta" eg:"0.5" range:"(0,1e9]"`
	// MaxMDF is the largest share of the window that one decrease takes, in
	// (0, 1) (Algorithm 1).
	MaxMDF float64 `yaml:"max_mdf" eg:"0.4" range:"(0,1)"`
	// MinCwnd and MaxCwnd bound the window, in packets (Algorithm 1). The least is
	// 0.001 in section 3.4. MaxCwnd zero is the window that the line rate fills in the target delay without
	// flow scaling, or one packet if that is more.
	MinCwnd float64 `yaml:"min_cwnd" eg:"0.02" range:"(0,1e9]" of:"packets"`
	MaxCwnd float64 `yaml:"max_cwnd" eg:"256" range:"(0,1e9]" of:"packets" zero:"what the line rate fills" least:"min_cwnd"`
	// InitialCwnd is the first window, in packets; zero is the window that the line rate
	// fills in one base RTT, or one packet if that is more.
	InitialCwnd float64 `yaml:"initial_cwnd" eg:"16" range:"(0,1e9]" of:"packets" zero:"what the line rate fills"`
	// RetxResetThreshold is the number of retransmission timeouts, without an
	// acknowledgement between them, that take the window to MinCwnd (Algorithm 1).
	RetxResetThreshold int `yaml:"retx_reset_threshold" eg:"3" range:"[1,)" of:"timeouts"`
	// PLB has the flow leave a path on which its delay stays above the target: after
	// PLBIdleRounds round trips in a row when it has nothing under way, after
	// PLBRounds in any case. A round trip counts if that share of its packets or more,
	// PLBShare, found the delay above the target. Linux has the same three for TCP.
	PLB           bool    `yaml:"plb" eg:"true"`
	PLBShare      float64 `yaml:"plb_share" eg:"0.75" range:"(0,1]"`
	PLBIdleRounds int     `yaml:"plb_idle_rounds" eg:"2" range:"[1,1048576]" of:"round trips" zero:"never"`
	PLBRounds     int     `yaml:"plb_rounds" eg:"8" range:"[1,1048576]" of:"round trips" zero:"never"`
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

var settings = field.Of[Config]("swift")

// Validate reports the first field out of its range, by the name it has in a
// scenario.
func (c Config) Validate() error {
	if err := settings.Check(&c); err != nil {
		return err
	}
	if !(1/math.Sqrt(c.FSMaxCwnd) < 1/math.Sqrt(c.FSMinCwnd)) {
		return field.Bad("swift", "fs_max_cwnd", c.FSMaxCwnd, "choose more than fs_min_cwnd, %v", c.FSMinCwnd)
	}
	return nil
}
