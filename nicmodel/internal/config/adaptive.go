package config

import (
	"fmt"

	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// AdpRetrans is adaptive retransmission as package rc has it, by the names of NVIDIA's register ROCE_ACCL and its
// profile of it. Timeouts are time_base * 2^n, and n is what stands here. A connection without a timeout
// (`timeout: 0`), or with rto_high, has none of it.
type AdpRetrans struct {
	// Enabled is the register's roce_adp_retrans_en.
	Enabled bool `yaml:"enabled"`
	// TimeBase is the timeout of n = 0.
	TimeBase units.Time `yaml:"time_base" range:"[4us,65536us]" zero:"none"`
	// TimeoutInitLowBound is the least n of a connection's first timeout.
	TimeoutInitLowBound int `yaml:"timeout_init_low_bound" range:"[0,31]"`
	// TimeoutInitRangeSize is how many of them connections draw theirs from; 0 is 1.
	TimeoutInitRangeSize int `yaml:"timeout_init_range_size" range:"[1,32]" zero:"one"`
	// RetxTotalTimeout has the n of the time without progress after which a connection ends; 0 is
	// `timeout` times `retry_cnt` (the register's qp_total_timeout).
	RetxTotalTimeout int `yaml:"retx_total_timeout" range:"[1,31]" zero:"the connection's own"`
	// StartRangeIndex is the range that follows a first timeout that is in none.
	StartRangeIndex int `yaml:"start_range_index" range:"[0,3]"`
	// TimeoutRange lists the ranges that timeouts go through; without any there is one from
	// timeout_init_low_bound to the connection's `timeout`.
	TimeoutRange []AdpRange `yaml:"timeout_range" eg:"[{range_low_bound: 9, range_size: 2}]" most:"4" of:"ranges"`
}

// AdpRange is a range of timeouts.
type AdpRange struct {
	// RangeLowBound is the n of the first timeout.
	RangeLowBound int `yaml:"range_low_bound" eg:"9" range:"[0,31]"`
	// RangeSize is how often it doubles.
	RangeSize int `yaml:"range_size" eg:"2" range:"[0,31]"`
	// TimeoutRetryNum is how often each serves before it doubles; 0 is once.
	TimeoutRetryNum int `yaml:"timeout_retry_num" eg:"2" range:"[1,1023]" zero:"once"`
	// DecMode is what progress does to a timeout: to_low_bound, to_div_2 or to_div_4. If left out, the first.
	DecMode string `yaml:"dec_mode" eg:"to_div_2" one:"to_low_bound to_div_2 to_div_4" zero:"to_low_bound"`
	// PrevRangeIndex is the range that progress goes back to from the range's first timeout.
	PrevRangeIndex int `yaml:"prev_range_index" eg:"0" range:"[0,3]"`
}

// decModes are the ways to lower a timeout, by their names in scenarios.
var decModes = map[string]rc.AdpDecMode{"": rc.AdpLowBound, "to_low_bound": rc.AdpLowBound, "to_div_2": rc.AdpDiv2, "to_div_4": rc.AdpDiv4}

// longestStep is n of a timeout that is longer than any connection's with the least time_base.
const longestStep = 31

// profile is what a sender has to know of it.
func (c *AdpRetrans) profile() *rc.AdpProfile {
	p := &rc.AdpProfile{
		TimeBase: c.TimeBase, RetxTotalTimeout: uint8(c.RetxTotalTimeout), StartRangeIndex: uint8(c.StartRangeIndex),
		RangeNum: uint8(len(c.TimeoutRange)),
	}
	for i, r := range c.TimeoutRange {
		p.TimeoutRange[i] = rc.AdpRange{
			RangeLowBound: uint8(r.RangeLowBound), RangeSize: uint8(r.RangeSize), TimeoutRetryNum: uint16(max(r.TimeoutRetryNum, 1)),
			DecMode: decModes[r.DecMode], PrevRangeIndex: uint8(r.PrevRangeIndex),
		}
	}
	if len(c.TimeoutRange) == 0 {
		p.RangeNum = 1
		p.TimeoutRange[0] = rc.AdpRange{
			RangeLowBound: uint8(c.TimeoutInitLowBound), RangeSize: uint8(longestStep - c.TimeoutInitLowBound),
			TimeoutRetryNum: 1, DecMode: rc.AdpLowBound,
		}
	}
	return p
}

// initial draws the first timeout of the connection of that number: the same for the same number, and
// another one for the next.
func (c *AdpRetrans) initial(number uint32) uint8 {
	return uint8(c.TimeoutInitLowBound + int(number%uint32(max(c.TimeoutInitRangeSize, 1))))
}

func (c *AdpRetrans) rules() error {
	if !c.Enabled {
		return nil
	}
	if c.TimeBase == 0 {
		return field.Bad("nic", "transport.adp_retrans.time_base", c.TimeBase, "choose 4us to 65536us, such as 4us")
	}
	if last := c.TimeoutInitLowBound + max(c.TimeoutInitRangeSize, 1) - 1; last > longestStep {
		return field.Bad("nic", "transport.adp_retrans.timeout_init_range_size", c.TimeoutInitRangeSize, "choose at most %d from timeout_init_low_bound on", longestStep-c.TimeoutInitLowBound+1)
	}
	if most := max(len(c.TimeoutRange), 1) - 1; c.StartRangeIndex > most {
		return field.Bad("nic", "transport.adp_retrans.start_range_index", c.StartRangeIndex, "choose 0 to %d, a range of timeout_range", most)
	}
	for i, r := range c.TimeoutRange {
		key := fmt.Sprintf("transport.adp_retrans.timeout_range[%d].", i)
		switch {
		case r.RangeLowBound+r.RangeSize > longestStep:
			return field.Bad("nic", key+"range_size", r.RangeSize, "choose at most %d from range_low_bound on", longestStep-r.RangeLowBound)
		case i > 0 && r.RangeLowBound <= c.TimeoutRange[i-1].RangeLowBound:
			return field.Bad("nic", key+"range_low_bound", r.RangeLowBound, "choose more than the range before it has, %d", c.TimeoutRange[i-1].RangeLowBound)
		case r.PrevRangeIndex >= len(c.TimeoutRange):
			return field.Bad("nic", key+"prev_range_index", r.PrevRangeIndex, "choose 0 to %d, a range of timeout_range", len(c.TimeoutRange)-1)
		}
	}
	return nil
}
