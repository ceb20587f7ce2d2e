package scenario

import (
	"fmt"

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
	// Probability of loss for each packet, 0 to 1.
	Loss float64 `yaml:"loss" eg:"0.01"`
}

// EIN is Pulser's explicit incast notification (its Algorithm 1): on every packet from
// when the queue that it leaves grows faster than `gradient`, to the first that leaves
// `high_water` or less behind while it does not.
type EIN struct {
	// Share of the link's rate by which a queue grows in an incast; Pulser has
	// 0.25. 0 turns marking off.
	Gradient float64 `yaml:"gradient" eg:"0.25"`
	// Dequeues that the gradient is averaged over, 1 to 4096.
	Window int `yaml:"window" eg:"50"`
	// Queue at or below which an incast ends: more than ECN's threshold, and
	// `ecn.at_rate` goes for it as well.
	HighWater units.Bytes `yaml:"high_water" eg:"120KiB"`
}

// Class is what differs for one priority.
type Class struct {
	// The priority, 0 to 7; 7 is the most urgent.
	Priority int `yaml:"priority" eg:"3" req:"yes"`
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

func (f *Failure) check(d *tree.Document, at func(string) string, path string, g *fabric.Topology) {
	if f.At < 0 || f.At > 1000*units.Second {
		d.Fail(at(path+".at"), "is %v: choose 0 to 1000s", f.At)
	}
	if f.For < 0 || f.For > 1000*units.Second {
		d.Fail(at(path+".for"), "is %v: choose a span above 0, or 0 for the rest of the run", f.For)
	}
	if !(f.Loss >= 0 && f.Loss <= 1) {
		d.Fail(at(path+".loss"), "is %v: choose a probability, 0 to 1", f.Loss)
	}
	if !f.Down && f.Rate == 0 && f.Loss == 0 {
		d.Fail(at(path), "it changes nothing: give down, rate or loss")
	}
	if f.Rate < 0 {
		d.Fail(at(path+".rate"), "is %v: choose a rate above 0", f.Rate)
	}
	if g == nil {
		return
	}
	l, err := g.FindLink(f.Link)
	if err != nil {
		d.Fail(at(path+".link"), "%v", err)
	} else if full := g.Link(l).Rate; f.Rate >= full {
		d.Fail(at(path+".rate"), "is %v: choose less than the link has, %v", f.Rate, full)
	}
}

// checkClasses checks what priorities have of their own.
func (f *Fabric) checkClasses(d *tree.Document, at func(string) string) {
	seen := map[int]bool{}
	for i, c := range f.Classes {
		path := fmt.Sprintf("fabric.classes[%d]", i)
		if c.Priority < 0 || c.Priority >= fabric.MaxPriorities {
			d.Fail(at(path+".priority"), "is %d: choose 0 to %d", c.Priority, fabric.MaxPriorities-1)
		}
		if seen[c.Priority] {
			d.Fail(at(path+".priority"), "priority %d is there twice: say all of it once", c.Priority)
		}
		seen[c.Priority] = true
		if c.Weight < 0 || c.Weight > 1000 {
			d.Fail(at(path+".weight"), "is %d: choose 0 (strict) to 1000", c.Weight)
		}
		if c.Alpha != nil && !(*c.Alpha >= 1.0/1024 && *c.Alpha <= 1<<20) {
			d.Fail(at(path+".alpha"), "is %v: choose a number from 1/1024 to 2^20", *c.Alpha)
		}
		ecn := c.ecn(f.ECN)
		if ecn.Kmin < 0 || ecn.Kmax < ecn.Kmin || ecn.Kmax >= 2*units.GiB {
			d.Fail(at(path+".kmax"), "is %v and kmin %v: choose 0 <= kmin <= kmax < 2GiB", ecn.Kmax, ecn.Kmin)
		}
		if !(ecn.Pmax >= 0 && ecn.Pmax <= 1) {
			d.Fail(at(path+".pmax"), "is %v: choose a probability, 0 to 1", ecn.Pmax)
		}
	}
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
		Weight: c.Weight, Alpha: f.Alpha,
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
