package config

import (
	"fmt"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// Transport is how reliable connections recover from losses. Both ends of a
// connection need the same.
type Transport struct {
	// Loss is go-back-n or selective-repeat. With the latter Writes and Reads' responses
	// beyond a gap are placed, and only what is missing is sent again (IRN, SIGCOMM 2018);
	// requests complete in order.
	Loss LossRecovery `yaml:"loss" eg:"selective-repeat" one:"go-back-n selective-repeat"`
	// Reorder is how many packets beyond a gap selective repeat keeps; 0 is 4096. A connection has no more under way. They take three bits each
	// on the chip, in addition to a queue pair's context.
	Reorder int `yaml:"reorder" range:"[64,2^16]" power:"2" zero:"the usual one"`
	// RTOHigh is the time without progress after which a connection sends again; 0 leaves
	// it to the connection's `timeout`.
	RTOHigh units.Time `yaml:"rto_high" range:"[1us,10s]" zero:"the connection's timeout"`
	// RTOLow is what selective repeat uses instead with at most three packets under way;
	// 0 is none.
	RTOLow units.Time `yaml:"rto_low" range:"[1us,10s]" zero:"none"`
	// NAKTime is what a card takes from a gap to the repetition beyond its stages and the way: to make a NAK and to react to it. It is
	// spent where the NAK arrives, and with go-back-n only. Under other engines than none and nic-default it is 0 unless a
	// scenario has it.
	NAKTime units.Time `yaml:"nak_time" eg:"5us" range:"[1ns,10ms]" zero:"none"`
	// AdpRetrans begins with shorter timeouts than the connection's `timeout`. Under other engines than none and nic-default it is off
	// unless a scenario has it enabled.
	AdpRetrans AdpRetrans `yaml:"adp_retrans"`
	// SlowRestart lowers a connection's rate after a loss, and has receivers notify of gaps: the register's
	// roce_slow_restart_en. Only engine nic-default knows it.
	SlowRestart bool `yaml:"slow_restart"`
}

// usualReorder is twice what a path of 200 Gbps and 80 us holds in packets of 1 KiB:
// an estimate.
const usualReorder = 4096

// LossRecovery is a way to recover from losses.
type LossRecovery uint8

// Ways to recover from losses.
const (
	GoBackN LossRecovery = iota
	SelectiveRepeat
)

func (r LossRecovery) String() string {
	switch r {
	case GoBackN:
		return "go-back-n"
	case SelectiveRepeat:
		return "selective-repeat"
	}
	return fmt.Sprintf("LossRecovery(%d)", uint8(r))
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *LossRecovery) UnmarshalText(b []byte) error {
	for v := GoBackN; v <= SelectiveRepeat; v++ {
		if v.String() == string(b) {
			*r = v
			return nil
		}
	}
	return fmt.Errorf("unknown value %q, expected %v or %v", b, GoBackN, SelectiveRepeat)
}

// MarshalText implements encoding.TextMarshaler.
func (r LossRecovery) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// Set sets what a receiver has to know of it.
func (c *Transport) Set(cfg *rc.Config) {
	if c.Loss == SelectiveRepeat && (cfg.Type == 0 || cfg.Type == ib.RC) {
		cfg.Reorder = c.Reorder
		if cfg.Reorder == 0 {
			cfg.Reorder = usualReorder
		}
	}
}

// SetSend sets what the sender of that number has to know of it, of a reliable connection.
func (c *Transport) SetSend(cfg *rc.SendConfig, number uint32) {
	cfg.RTOHigh, cfg.RTOLow = c.RTOHigh, c.RTOLow
	if c.AdpRetrans.Enabled && c.RTOHigh == 0 {
		cfg.Adp, cfg.AdpInitial = c.AdpRetrans.profile(), c.AdpRetrans.initial(number)
	}
}

func (c *Transport) rules() error {
	switch {
	case c.Loss == GoBackN && c.Reorder > 0:
		return field.Bad("nic", "transport.reorder", c.Reorder, "choose transport.loss: selective-repeat, or 0")
	case c.Loss == GoBackN && c.RTOLow > 0:
		return field.Bad("nic", "transport.rto_low", c.RTOLow, "choose transport.loss: selective-repeat, or 0")
	}
	return c.AdpRetrans.rules()
}
