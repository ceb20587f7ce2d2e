package wiretag

import (
	"fmt"
	"time"

	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/telemetry"
)

// Mode is how the telemetry of a device's connections is had.
type Mode uint8

// The modes.
const (
	// Auto takes Tags for the kernel's soft-RoCE and other devices in software, and
	// Probes for NICs.
	Auto Mode = iota
	// Tags puts a tag on each request, which the peer reflects.
	Tags
	// Probes sends probes on the paths of connections in use.
	Probes
	// Reflect sends neither. Whatever the mode, tags are reflected and probes answered.
	Reflect
)

var modeNames = [...]string{"auto", "tags", "probes", "reflect"}

func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("mode %d", uint8(m))
}

// Config sets the form of tags and what to send. DefaultConfig returns one filled
// in.
type Config struct {
	// Format is the network's, switches and hosts alike.
	Format telemetry.DelayFormat `yaml:"-"`
	Mode   Mode                  `yaml:"collect" one:"auto tags probes reflect"`
	// ProbeInterval is the least time between two probes of a path. A connection that
	// sends nothing probes nothing.
	ProbeInterval time.Duration `yaml:"every" range:"[0s,)"`
	// MaxAge is for how long the answer to a probe says something about completions,
	// and how long one is waited for until it counts as lost.
	MaxAge time.Duration `yaml:"maxage" range:"(0s,)" why:"it is longer than the round trip"`
	// SourcePort is the UDP source port of connections' packets, for probes to take
	// the same path; 0 computes it as Linux's drivers do.
	SourcePort uint16 `yaml:"sport"`
}

// DefaultConfig returns the configuration of a network that has DefaultDelayFormat of
// a form.
func DefaultConfig(form telemetry.DelayForm) Config {
	return Config{
		Format:        telemetry.DefaultDelayFormat(form),
		ProbeInterval: 100 * time.Microsecond, MaxAge: 10 * time.Millisecond,
	}
}

var ranges = field.Of[Config]("wiretag")

// Validate says what is wrong with c, by the names of the options of a device.
func (c *Config) Validate() error {
	if err := c.Format.Validate(); err != nil {
		return err
	}
	return ranges.Check(c)
}

// sourcePort is the UDP source port that Linux computes for the packets of a
// connection: from the flow label of its address vector, or where that is 0, from the
// queue pair numbers of both ends (rdma_get_udp_sport). Drivers whose NICs take the
// port from the host, mlx5's for instance, use this one; others have a rule of their
// own.
func sourcePort(flowLabel, local, peer uint32) uint16 {
	l := flowLabel & 0xfffff
	if l == 0 {
		v := uint64(local) * uint64(peer)
		v ^= v >> 20
		v ^= v >> 40
		l = uint32(v) & 0xfffff
	}
	return uint16((l&0x3fff)^(l>>14)) | 0xc000
}
