package config

import (
	"slices"

	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/units"
)

// Transmission selection algorithms of a traffic class (IEEE 802.1Qaz).
const (
	TSAStrict = "strict"
	TSAETS    = "ets"
)

// Egress is the port's traffic classes, as mlnx_qos and dcb set them (IEEE 802.1Qaz). Without any, each
// priority is a class of its own, the higher ones go first, and all have one room before the wire. With
// them each class has a room of tx_buffer for its requests and one for its READ responses, and scheduler and wire
// divide by class: strict classes first, the higher numbers before the lower ones; then those
// of ETS with a share, and then those of ETS whose share is 0, one like the other.
type Egress struct {
	// PrioTC is the traffic class of each priority, from priority 0 on; omitted ones
	// are of class 0.
	PrioTC []int `yaml:"prio_tc" eg:"[0, 0, 0, 1]" most:"8" of:"priorities"`
	// TSA is how each traffic class is served, from class 0 on. Without any there are no
	// classes.
	TSA []string `yaml:"tsa" eg:"[ets, ets]" one:"strict ets" most:"8" of:"traffic classes"`
	// TCBW is the share of each class of ETS, percent; they add up to 100.
	TCBW []int `yaml:"tcbw" eg:"[20, 80]" range:"[0,100]"`
}

// Class is the traffic class of a priority.
func (c *Egress) Class(priority uint8) int {
	if int(priority) < len(c.PrioTC) {
		return c.PrioTC[priority]
	}
	return 0
}

func (c *Egress) rules() error {
	if len(c.TCBW) > len(c.TSA) {
		return field.Bad("nic", "egress.tcbw", len(c.TCBW), "choose at most as many shares as egress.tsa has traffic classes, %d", len(c.TSA))
	}
	sum := 0
	for i, share := range c.TCBW {
		if c.TSA[i] == TSAStrict && share != 0 {
			return field.Bad("nic", "egress.tcbw", share, "choose 0 to 100 for a traffic class of ets, and 0 for a strict one, such as class %d", i)
		}
		sum += share
	}
	if slices.Contains(c.TSA, TSAETS) && sum != 100 {
		return field.Bad("nic", "egress.tcbw", sum, "choose shares of the classes of ets that add up to 100")
	}
	if i := slices.IndexFunc(c.PrioTC, func(tc int) bool { return tc < 0 || tc >= len(c.TSA) }); i >= 0 {
		return field.Bad("nic", "egress.prio_tc", c.PrioTC[i], "choose one of the %d traffic classes that egress.tsa has", len(c.TSA))
	}
	return nil
}

// Function is a PCIe function of the NIC: the physical one, or a virtual one.
type Function struct {
	// MinTxRate is what the function is guaranteed against others that have a guarantee; 0 is none
	// (ip link set vf min_tx_rate).
	MinTxRate units.Rate `yaml:"min_tx_rate" eg:"20Gbps" range:"[1bps,100Tbps]" zero:"no guarantee"`
	// MaxTxRate is the most that it may send, of frames' bytes; 0 is no bound (max_tx_rate).
	MaxTxRate units.Rate `yaml:"max_tx_rate" eg:"50Gbps" range:"[1Mbps,100Tbps]" zero:"no bound" least:"min_tx_rate"`
}
