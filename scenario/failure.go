package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/scenario/internal/tree"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// Failure is something that fails, for a while or to the end ([failures.md](failures.md) has what programs see of it):
// a link, a host's port, a switch, or a NIC. Each names one of the four. Of several at a time about a link it
// is down if one says so, and has the lowest rate and the highest loss of them. With `random` or `gap` it begins at
// times that are drawn by a seed, each time at one drawn of all that match its name, in which `*` stands for any text: `tor*->spine*`, `h*`.
type Failure struct {
	// A direction of the link, such as `tor0->spine0`.
	Link string `yaml:"link" eg:"tor0->spine0"`
	// A host, for the link at its port.
	Port string `yaml:"port" eg:"h0"`
	// A switch, for all of its links: one that reboots is `down` for a while.
	Switch string `yaml:"switch" eg:"spine0"`
	// A host, for its NIC: give `dies`, `pcie`, `gid_change` or `qp`.
	NIC string `yaml:"nic" eg:"h0"`
	// Whether the other direction fails with it.
	Both bool `yaml:"both" eg:"false"`
	// When it begins.
	At units.Time `yaml:"at" eg:"2ms"`
	// In place of `at`: it begins when the link has carried so many packets; with `nic`, when the NIC has sent them, or its
	// queue pair `qp`.
	Packet uint64 `yaml:"packet" eg:"1000"`
	// How long it lasts; 0 is to the end of the run. Of a NIC's failures `pcie` alone ends.
	For units.Time `yaml:"for" eg:"500us"`
	// It begins again so long after each beginning: a link that flaps.
	Every units.Time `yaml:"every" eg:"1ms"`
	// How often it begins; 0 is to the end of the run.
	Times int `yaml:"times" eg:"5"`
	// How often it begins between `at` and `within` later, at times that are drawn.
	Random int `yaml:"random" eg:"5"`
	// In place of `random`: the mean time from one beginning to the next, of an exponential distribution.
	Gap units.Time `yaml:"gap" eg:"10ms"`
	// The time in which it may begin, with `random` or `gap`.
	Within units.Time `yaml:"within" eg:"50ms"`
	// What is drawn depends on it alone; 0 is the run's own seed.
	Seed uint64 `yaml:"seed" eg:"7"`
	// The link is cut: what is on it and what is put on it is lost. A host's port goes down
	// with both directions of its link.
	Down bool `yaml:"down" eg:"true"`
	// The link loses all, and nobody notices: ports stay up, and switches use it as before.
	Silent bool `yaml:"silent" eg:"true"`
	// What is left of the link's rate; 0 is all of it.
	Rate units.Rate `yaml:"rate" eg:"10Gbps"`
	// Probability of loss for each packet.
	Loss float64 `yaml:"loss" eg:"0.01"`
	// Probability that bits of a packet are inverted, so that its far end drops it.
	Corrupt float64 `yaml:"corrupt" eg:"0.001"`
	// The end that the link leads from, such as the host, sends pause frames without end: the lossless priorities of the other
	// end stop, until `fabric.pfc.watchdog` ends that. One frame stands for all of them. `both` does not matter.
	PFCStorm bool `yaml:"pfc_storm" eg:"true"`
	// The NIC is gone, to the end of the run.
	Dies bool `yaml:"dies" eg:"true"`
	// The PCIe link of the NIC trains down to what this one carries, by generation and lanes; its limits and latencies stay.
	PCIe string `yaml:"pcie" eg:"gen3x4"`
	// Programs are told that the NIC's addresses have changed (`IBV_EVENT_GID_CHANGE`). It has the same as before.
	GIDChange bool `yaml:"gid_change" eg:"true"`
	// A queue pair of the NIC: 1 is the first that was made. It goes to ERR, unless one of the next three says what fails, once.
	QP int `yaml:"qp" eg:"1"`
	// Its next request is not taken: the post fails with this `errno`. Not for `programs`, whose posts are libmlx5's.
	PostSend Errno `yaml:"post_send" eg:"ENOMEM"`
	// The next poll of a completion queue that it has fails with this `errno`. Not for `programs`.
	PollCQ Errno `yaml:"poll_cq" eg:"EIO"`
	// Its next request that succeeds completes with this status instead, libibverbs' name without `IBV_WC_`, and it goes to ERR.
	Status Status `yaml:"status" eg:"REM_ACCESS_ERR"`
	// The vendor's syndrome beside the status; 0 is what a ConnectX shows, where that is known.
	VendorErr Syndrome `yaml:"vendor_err" eg:"0x88"`
	// How many requests, or with `poll_cq` and `status` completions, go well before, counted from when it begins.
	After uint64 `yaml:"after" eg:"10"`

	// link is the name of the link, of Link or Port, and Host is the index of NIC.
	link string
	Host int `yaml:"-"`
}

// OfNIC reports whether it is about a NIC.
func (f *Failure) OfNIC() bool { return f.NIC != "" }

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
	if !f.drawn() {
		if f.Within != 0 || f.Seed != 0 {
			d.Fail(at(path), "within and seed go with random or gap, by which times are drawn")
		}
		f.checkNamed(d, at, path, g)
		return
	}
	switch {
	case f.Random != 0 && f.Gap != 0:
		d.Fail(at(path), "give random, how often it begins, or gap, the mean time between, one of the two")
	case f.Random < 0 || f.Random > mostDrawn:
		d.Fail(at(path+".random"), "is %d: choose 1 to %d times", f.Random, mostDrawn)
	case f.Within <= 0 || f.Within > 1000*units.Second:
		d.Fail(at(path+".within"), "is %v: choose the time in which it may begin, above 0 to 1000s", f.Within)
	case f.Gap < 0 || f.Gap > 0 && f.Within/f.Gap > mostDrawn/10:
		d.Fail(at(path+".gap"), "is %v: choose a mean time above 0 that makes at most %d failures within %v", f.Gap, mostDrawn/10, f.Within)
	case f.Packet != 0 || f.Every != 0 || f.Times != 0:
		d.Fail(at(path), "packet, every and times say when it begins, and random or gap draws that: leave one out")
	}
	names, err := f.candidates(g)
	if err != nil {
		d.Fail(at(path), "%v", err)
		return
	}
	for _, name := range names { // what is wrong with one is said of the first
		one, errs := f.named(name), len(d.Errs)
		if one.checkNamed(d, at, path, g); len(d.Errs) > errs {
			break
		}
		f.link, f.Host = one.link, one.Host
	}
}

func (f *Failure) checkNamed(d *tree.Document, at func(string) string, path string, g *fabric.Topology) {
	switch {
	case count(f.Link != "", f.Port != "", f.Switch != "", f.NIC != "") != 1:
		d.Fail(at(path), "name what fails: one of link, port, switch and nic")
	case f.NIC != "":
		f.checkNIC(d, at, path, g)
	case f.Switch != "":
		if known := g.SwitchNames(); !slices.Contains(known, f.Switch) {
			d.Fail(at(path+".switch"), "there is no such switch: there are %s", few(known))
		}
		f.checkNoNIC(d, at, path)
	case f.Port != "":
		h, err := g.Host(f.Port)
		if err != nil {
			d.Fail(at(path+".port"), "%v", err)
			return
		}
		f.link = g.LinkName(g.HostLink(h))
		f.checkLink(d, at, path, ".port", g)
	default:
		f.link = f.Link
		f.checkLink(d, at, path, ".link", g)
	}
}

func (f *Failure) checkLink(d *tree.Document, at func(string) string, path, key string, g *fabric.Topology) {
	l, err := g.FindLink(f.link)
	if err != nil {
		d.Fail(at(path+key), "%v", err)
	} else if full := g.Link(l).Rate; f.Rate >= full {
		d.Fail(at(path+".rate"), "is %v: choose less than the link has, %v", f.Rate, full)
	}
	f.checkNoNIC(d, at, path)
}

func (f *Failure) checkNoNIC(d *tree.Document, at func(string) string, path string) {
	if f.Dies || f.QP != 0 || f.PCIe != "" || f.GIDChange || f.OfCall() || f.After != 0 || f.VendorErr != 0 {
		d.Fail(at(path), "dies, pcie, gid_change, qp and what goes with it are a NIC's: name it by nic")
	}
}

func (f *Failure) checkNIC(d *tree.Document, at func(string) string, path string, g *fabric.Topology) {
	var err error
	if f.Host, err = g.Host(f.NIC); err != nil {
		d.Fail(at(path+".nic"), "%v", err)
	}
	switch {
	case f.Down || f.Silent || f.Rate != 0 || f.Loss != 0 || f.Corrupt != 0 || f.PFCStorm:
		d.Fail(at(path), "down, silent, rate, loss, corrupt and pfc_storm are a link's: name the host by port, or a link")
	case count(f.Dies, f.PCIe != "", f.GIDChange, f.QP != 0) != 1:
		d.Fail(at(path), "say what happens to the NIC, one of: dies: true, pcie: gen3x4, gid_change: true, or qp: 1 for its first queue pair")
	case f.QP < 0:
		d.Fail(at(path+".qp"), "is %d: 1 is the NIC's first queue pair", f.QP)
	case f.Every != 0 || f.Times != 0 || f.For != 0 && f.PCIe == "":
		d.Fail(at(path), "for, every and times are a link's: a NIC that is gone, or a queue pair in ERR, does not come back by itself")
	case f.For < 0:
		d.Fail(at(path+".for"), "is %v: choose a span above 0, or 0 for the rest of the run", f.For)
	case count(f.PostSend != 0, f.PollCQ != 0, f.Status != 0) > 1:
		d.Fail(at(path), "give one of post_send, poll_cq and status: each is a failure of its own")
	case f.QP == 0 && f.OfCall():
		d.Fail(at(path), "post_send, poll_cq and status are a queue pair's: name it, such as qp: 1")
	case f.After != 0 && !f.OfCall():
		d.Fail(at(path+".after"), "is %d: it goes with post_send, poll_cq or status", f.After)
	case f.VendorErr != 0 && f.Status == 0:
		d.Fail(at(path+".vendor_err"), "is %#x: it goes with status", uint8(f.VendorErr))
	case f.At < 0 || f.At != 0 && f.Packet != 0:
		d.Fail(at(path+".at"), "is %v: give a time of the run, or packet, one of the two", f.At)
	}
}

// OfCall reports whether a call about a queue pair fails, or a completion.
func (f *Failure) OfCall() bool { return f.PostSend != 0 || f.PollCQ != 0 || f.Status != 0 }

// PCIeRate is what the link that PCIe names carries.
func (f *Failure) PCIeRate() (units.Rate, error) { return nicmodel.ParseLink(f.PCIe) }

// checkOf holds the failures of NICs against the system's.
func (f *Failure) checkOf(d *tree.Document, at func(string) string, path string, sys *System) {
	if sys.Reduced() {
		d.Fail(at(path+".nic"), "reduced NICs have no device and no queue pairs that fail: set nic.model to staged, or name a link or port")
		return
	}
	if f.PCIe == "" || sys.nic == nil {
		return
	}
	if r, err := f.PCIeRate(); err != nil {
		d.Fail(at(path+".pcie"), "%v", err)
	} else if r >= sys.nic.PCIe.Rate {
		d.Fail(at(path+".pcie"), "is %s, which carries %v: choose less than the NIC's link does, %v", f.PCIe, r, sys.nic.PCIe.Rate)
	}
}

func count(of ...bool) (n int) {
	for _, is := range of {
		if is {
			n++
		}
	}
	return n
}

// fabricFailure is what it does to a link: nothing, if it is about a NIC.
func (f *Failure) fabricFailure() fabric.Failure {
	if f.OfNIC() {
		return fabric.Failure{}
	}
	one := fabric.Failure{
		Link: f.link, Switch: f.Switch, Both: f.Both, From: f.At, Down: f.Down, Rate: f.Rate, Loss: f.Loss, Corrupt: f.Corrupt, Every: f.Every, Times: f.Times, Packet: f.Packet, Storm: f.PFCStorm,
	}
	if f.Silent {
		one.Loss = 1
	}
	if f.For != 0 {
		one.To = f.At + f.For
	}
	return one
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
