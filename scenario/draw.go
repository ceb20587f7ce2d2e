package scenario

import (
	"fmt"
	"path"
	"slices"

	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// mostDrawn bounds how often a failure begins whose times are drawn.
const mostDrawn = 10_000

// drawn reports whether the times of the failure are drawn.
func (f *Failure) drawn() bool { return f.Random != 0 || f.Gap != 0 }

// named is the failure at one of what matches its name.
func (f *Failure) named(name string) Failure {
	one := *f
	for _, s := range []*string{&one.Link, &one.Port, &one.Switch, &one.NIC} {
		if *s != "" {
			*s = name
		}
	}
	return one
}

// candidates are the names of what may fail, in the order of the network.
func (f *Failure) candidates(g *fabric.Topology) (names []string, err error) {
	pattern := f.Link + f.Port + f.Switch + f.NIC // one, or the checks say so
	if _, err := path.Match(pattern, ""); err != nil {
		return nil, fmt.Errorf("%q is no name in which * stands for any text", pattern)
	}
	var all []string
	switch {
	case f.Link != "":
		for l := range g.Links() {
			all = append(all, g.LinkName(fabric.LinkID(l)))
		}
	case f.Switch != "":
		all = g.SwitchNames()
	default:
		for h := range g.Hosts() {
			all = append(all, g.HostName(h))
		}
	}
	for _, name := range all {
		if ok, _ := path.Match(pattern, name); ok {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return []string{pattern}, nil // whose check says what there is
	}
	return names, nil
}

// times draws when the failure begins.
func (f *Failure) times(s des.Stream) (all []units.Time) {
	end := f.At + f.Within
	if f.Gap > 0 {
		for t := f.At + s.Exp(f.Gap); t < end && len(all) < mostDrawn; t += max(1, s.Exp(f.Gap)) {
			all = append(all, t)
		}
		return all
	}
	for range f.Random {
		all = append(all, f.At+units.Time(s.Uint64()%uint64(f.Within)))
	}
	slices.Sort(all)
	return all
}

// Drawn returns the system with the failures that are drawn in place of those that say what to draw, for a run
// with that seed. Systems of a scenario get the same.
func (s *System) Drawn(g *fabric.Topology, seed uint64) (*System, error) {
	if !slices.ContainsFunc(s.Fabric.Failures, func(f Failure) bool { return f.drawn() }) {
		return s, nil
	}
	one := *s
	one.Fabric.Failures = nil
	for i := range s.Fabric.Failures {
		f := &s.Fabric.Failures[i]
		if !f.drawn() {
			one.Fabric.Failures = append(one.Fabric.Failures, *f)
			continue
		}
		names, err := f.candidates(g)
		if err != nil {
			return nil, err
		}
		by := f.Seed
		if by == 0 {
			by = seed
		}
		stream := des.NewStream(by, fmt.Sprintf("failures/%d", i))
		for _, t := range f.times(stream) {
			x := f.named(names[stream.IntN(len(names))])
			x.At, x.Random, x.Gap, x.Within, x.Seed = t, 0, 0, 0, 0
			if err := x.find(g); err != nil {
				return nil, err
			}
			one.Fabric.Failures = append(one.Fabric.Failures, x)
		}
	}
	return &one, nil
}

// find finds the link or host that the failure names.
func (f *Failure) find(g *fabric.Topology) (err error) {
	switch {
	case f.NIC != "":
		f.Host, err = g.Host(f.NIC)
	case f.Port != "":
		var h int
		if h, err = g.Host(f.Port); err == nil {
			f.link = g.LinkName(g.HostLink(h))
		}
	case f.Link != "":
		f.link = f.Link
	}
	return err
}
