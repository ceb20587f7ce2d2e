package workload

import (
	"github.com/sluice-rdma/sluice/scenario/internal/tree"
	"github.com/sluice-rdma/sluice/units"
)

// RotatingIncast is incasts one after another, each to another host: in round r the
// hosts send to the r-th of them, and over again.
type RotatingIncast struct {
	// Who takes part, as at `senders`: receivers in this order.
	Hosts HostSet `yaml:"hosts" eg:"16"`
	// How many hosts send in a round, the next ones after the receiver.
	FanIn int `yaml:"fan_in" eg:"8" range:"[1,)" of:"senders" zero:"all others"`
	// Bytes of each flow.
	Size units.Bytes `yaml:"size" eg:"100KB" req:"yes"`
	// Time from the start of a round to that of the next.
	Period units.Time `yaml:"period" eg:"200us" req:"yes" range:"[0s,1000s]"`
	// Rounds in all.
	Rounds int `yaml:"rounds" eg:"20" range:"[1,)" of:"rounds" zero:"one for each host"`
}

func (p *RotatingIncast) plan(d *tree.Document, path string, w *Workload, net *network) plan {
	errs := d.Check(path, p)
	checkSize(d, path+".size", FlowSize(p.Size))
	if p.Period == 0 && !d.Given(path+".period") {
		d.Fail(path+".period", "it is missing: give the time from round to round, such as 200us")
	}
	hosts := net.hosts(d, path+".hosts", p.Hosts, -1)
	n := len(hosts)
	if n < 2 && len(d.Errs) == errs {
		d.Fail(path+".hosts", "an incast needs at least two hosts")
	}
	fanIn, rounds := p.FanIn, p.Rounds
	if fanIn == 0 {
		fanIn = n - 1
	}
	if rounds == 0 {
		rounds = n
	}
	if len(d.Errs) == errs {
		if fanIn >= n {
			d.Fail(path+".fan_in", "is %d: choose 1 to %d, or 0 for all others", p.FanIn, n-1)
		} else if most := maxListed / fanIn; rounds > most {
			d.Fail(path+".rounds", "is %d: choose 1 to %d, or 0 for one for each host", p.Rounds, most)
		}
	}
	if len(d.Errs) > errs {
		return nil
	}
	label := net.label(w.Label)
	l := &list{w: w}
	for r := range rounds {
		for k := 1; k <= fanIn; k++ {
			l.flows = append(l.flows, w.flow(label, hosts[(r+k)%n], hosts[r%n], FlowSize(p.Size), w.Start+units.Time(r)*p.Period))
		}
	}
	return l
}
