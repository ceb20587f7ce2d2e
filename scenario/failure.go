package scenario

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-rdma/sluice/scenario/internal/tree"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// Failure is a link that is down, slow or lossy for a while. Of several at a time it
// is down if one says so, and has the lowest rate and the highest loss of them.
type Failure struct {
	// A direction of the link, such as `tor0->spine0`.
	Link string `yaml:"link" eg:"tor0->spine0" req:"yes"`
	// Whether the other direction fails with it.
	Both bool `yaml:"both" eg:"false"`
	// When it begins.
	At units.Time `yaml:"at" eg:"2ms"`
	// How long it lasts; 0 is to the end of the run.
	For units.Time `yaml:"for" eg:"500us"`
	// The link is cut: what is on it and what is put on it is lost.
	Down bool `yaml:"down" eg:"true"`
	// What is left of the link's rate; 0 is all of it.
	Rate units.Rate `yaml:"rate" eg:"10Gbps"`
	// Probability of loss for each packet.
	Loss float64 `yaml:"loss" eg:"0.01"`
}

// EIN is Pulser's explicit incast notification (its Algorithm 1): on every packet from
// when the queue that it leaves grows faster than `gradient`, to the first that leaves
// `high_water` or less behind while it does not.
type EIN struct {
	// Share of the link's rate by which a queue grows in an incast; Pulser has
	// 0.25. 0 turns marking off.
	Gradient float64 `yaml:"gradient" eg:"0.25"`
	// Dequeues that the gradient is averaged over.
	Window int `yaml:"window" eg:"50" range:"[1,4096]" of:"dequeues"`
	// Queue at or below which an incast ends: more than ECN's threshold, and
	// `ecn.at_rate` goes for it as well.
	HighWater units.Bytes `yaml:"high_water" eg:"120KiB"`
}

// Class overrides the fabric's settings for one priority.
type Class struct {
	// The priority; 7 is the most urgent.
	Priority int `yaml:"priority" eg:"3" req:"yes" range:"[0,7]"`
	// 0 is strict priority: served before all that are less urgent, and before all
	// with a weight. Queues with weights share what remains in proportion.
	Weight int `yaml:"weight" eg:"2"`
	// Its `alpha`, if it differs.
	Alpha *float64 `yaml:"alpha" eg:"0.5"`
	// Whether it is lossless, if that differs.
	Lossless *bool `yaml:"lossless" eg:"false"`
	// Its `ecn.kmin`, if it differs.
	Kmin *units.Bytes `yaml:"kmin" eg:"20KiB"`
	// Its `ecn.kmax`, if it differs.
	Kmax *units.Bytes `yaml:"kmax" eg:"80KiB"`
	// Its `ecn.pmax`, if it differs.
	Pmax *float64 `yaml:"pmax" eg:"0.1"`
}

// Actions of a PFC watchdog.
const (
	watchdogDrop    = "drop"
	watchdogForward = "forward"
)

// SetDefaults implements tree.Defaulter.
func (f *Failure) SetDefaults() { *f = Failure{Both: true} }

// check holds the failure against the network.
func (f *Failure) check(d *tree.Document, at func(string) string, path string, g *fabric.Topology) {
	l, err := g.FindLink(f.Link)
	if err != nil {
		d.Fail(at(path+".link"), "%v", err)
	} else if full := g.Link(l).Rate; f.Rate >= full {
		d.Fail(at(path+".rate"), "is %v: choose less than the link has, %v", f.Rate, full)
	}
}

// checkClasses checks which priorities have something of their own.
func (f *Fabric) checkClasses(d *tree.Document, at func(string) string) {
	seen := map[int]bool{}
	for i, c := range f.Classes {
		path := fmt.Sprintf("fabric.classes[%d].priority", i)
		if seen[c.Priority] {
			d.Fail(at(path), "priority %d is there twice: say all of it once", c.Priority)
		}
		seen[c.Priority] = true
	}
}

// classWith returns the index of the class of a priority, if it gives the field of that
// name of package fabric or one that belongs to it, or -1.
func (f *Fabric) classWith(priority, name string) int {
	for i := len(f.Classes) - 1; i >= 0; i-- { // as class takes them
		c := &f.Classes[i]
		if strconv.Itoa(c.Priority) != priority {
			continue
		}
		if name == "weight" || name == "alpha" && c.Alpha != nil ||
			strings.HasPrefix(name, "ecn.k") && (c.Kmin != nil || c.Kmax != nil) || name == "ecn.pmax" && c.Pmax != nil {
			return i
		}
		return -1
	}
	return -1
}

func (c *Class) ecn(e ECN) ECN {
	if c.Kmin != nil {
		e.Kmin = *c.Kmin
	}
	if c.Kmax != nil {
		e.Kmax = *c.Kmax
	}
	if c.Pmax != nil {
		e.Pmax = *c.Pmax
	}
	return e
}

// class returns how a switch treats a priority.
func (f *Fabric) class(priority int) fabric.Class {
	c := Class{}
	for _, own := range f.Classes {
		if own.Priority == priority {
			c = own
		}
	}
	ecn := c.ecn(f.ECN)
	k := fabric.Class{
		Weight: c.Weight, Queue: f.Queue,
		ECN: fabric.ECN{Kmin: ecn.Kmin, Kmax: ecn.Kmax, Pmax: ecn.Pmax, AtRate: ecn.AtRate},
		EIN: fabric.Notice{Gradient: f.EIN.Gradient, Window: f.EIN.Window, HighWater: f.EIN.HighWater},
		PFC: fabric.PFC{
			Lossless: f.PFC.Enabled, XOFF: f.PFC.XOFF, XON: f.PFC.XON, Headroom: f.PFC.Headroom,
			Watchdog: f.PFC.Watchdog, WatchdogForwards: f.PFC.WatchdogAction == watchdogForward,
		},
	}
	if c.Alpha != nil {
		k.Alpha = *c.Alpha
	}
	if c.Lossless != nil {
		k.PFC.Lossless = *c.Lossless
	}
	return k
}
