package config

import (
	"slices"

	"github.com/sluice-rdma/sluice/nicmodel/internal/bounds"
	"github.com/sluice-rdma/sluice/sim/fabric"
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
	// PrioTC is the traffic class of each priority, 0 to 7, from priority 0 on; those that are left out
	// are of class 0.
	PrioTC []int `yaml:"prio_tc" eg:"[0, 0, 0, 1]"`
	// TSA is how each traffic class is served, from class 0 on: strict or ets. Without any there are no
	// classes.
	TSA []string `yaml:"tsa" eg:"[ets, ets]"`
	// TCBW is the share of each class of ETS, percent; they add up to 100.
	TCBW []int `yaml:"tcbw" eg:"[20, 80]"`
}

// Class is the traffic class of a priority.
func (c *Egress) Class(priority uint8) int {
	if int(priority) < len(c.PrioTC) {
		return c.PrioTC[priority]
	}
	return 0
}

func (c *Egress) rules() error {
	sum, ets := 0, false
	for i, tsa := range c.TSA {
		share := 0
		if i < len(c.TCBW) {
			share = c.TCBW[i]
		}
		switch {
		case tsa != TSAStrict && tsa != TSAETS:
			return bounds.Bad("egress.tsa", tsa, "choose %s or %s for each traffic class", TSAStrict, TSAETS)
		case share < 0 || share > 100 || tsa == TSAStrict && share != 0:
			return bounds.Bad("egress.tcbw", share, "choose 0 to 100 for a traffic class of ets, and 0 for a strict one, such as class %d", i)
		}
		sum, ets = sum+share, ets || tsa == TSAETS
	}
	switch {
	case len(c.TSA) > fabric.MaxPriorities:
		return bounds.Bad("egress.tsa", len(c.TSA), "choose at most %d traffic classes", fabric.MaxPriorities)
	case len(c.TCBW) > len(c.TSA):
		return bounds.Bad("egress.tcbw", len(c.TCBW), "choose at most as many shares as egress.tsa has traffic classes, %d", len(c.TSA))
	case ets && sum != 100:
		return bounds.Bad("egress.tcbw", sum, "choose shares of the classes of ets that add up to 100")
	case len(c.PrioTC) > fabric.MaxPriorities:
		return bounds.Bad("egress.prio_tc", len(c.PrioTC), "choose a class for at most %d priorities", fabric.MaxPriorities)
	}
	if i := slices.IndexFunc(c.PrioTC, func(tc int) bool { return tc < 0 || tc >= len(c.TSA) }); i >= 0 {
		return bounds.Bad("egress.prio_tc", c.PrioTC[i], "choose one of the %d traffic classes that egress.tsa has", len(c.TSA))
	}
	return nil
}

// Function is a PCIe function of the NIC: the physical one, or a virtual one.
type Function struct {
	// MinTxRate is what the function is guaranteed against others that have a guarantee; 0 is none
	// (ip link set vf min_tx_rate).
	MinTxRate units.Rate `yaml:"min_tx_rate" eg:"20Gbps"`
	// MaxTxRate is the most that it may send, of frames' bytes; 0 is no bound (max_tx_rate).
	MaxTxRate units.Rate `yaml:"max_tx_rate" eg:"50Gbps"`
}

// mostFunctions is a bound of the model, of the masks of shares.
const mostFunctions = 64

func functionRules(functions []Function) error {
	if n := len(functions); n > mostFunctions {
		return bounds.Bad("functions", n, "choose at most %d functions", mostFunctions)
	}
	for _, f := range functions {
		switch {
		case f.MaxTxRate != 0 && (f.MaxTxRate < units.Mbps || f.MaxTxRate > bounds.MostRate):
			return bounds.Bad("functions.max_tx_rate", f.MaxTxRate, "choose %v to %v, or 0 for no bound", units.Mbps, bounds.MostRate)
		case f.MinTxRate < 0 || f.MinTxRate > bounds.MostRate:
			return bounds.Bad("functions.min_tx_rate", f.MinTxRate, "choose at most %v, or 0 for no guarantee", bounds.MostRate)
		case f.MaxTxRate > 0 && f.MinTxRate > f.MaxTxRate:
			return bounds.Bad("functions.min_tx_rate", f.MinTxRate, "choose at most functions.max_tx_rate, %v", f.MaxTxRate)
		}
	}
	return nil
}
