package fabric

import (
	"fmt"

	"github.com/sluice-rdma/sluice/units"
)

// RDCNSpec is a reconfigurable network: racks that a packet network and a circuit
// switch join side by side.
type RDCNSpec struct {
	Tors, HostsPerTor int // from 3 tors
	// Day is the time that a matching of the circuit switch lasts, and Night the time
	// that it then takes to set up the next.
	Day, Night units.Time
	Host       Link // host to tor
	Packet     Link // tor to the switch of the packet network
	Circuit    Link // tor to tor, through the circuit switch
}

// RDCN joins tor0, tor1, ... by the packet network's one switch, core0, and by
// circuits from each to each, of which a tor has one at a time: on day s of a week of
// Tors-1 days, that from tor i to tor i+s+1, modulo Tors. The first day begins at
// time 0. The circuit from a tor to another, "tor0->tor1", is the port with the
// virtual output queue for what goes there, by circuit or not. Hosts are numbered tor
// by tor.
func RDCN(s RDCNSpec) *Topology {
	t, ok := shape(number{"tors", s.Tors}, number{"hosts per tor", s.HostsPerTor})
	if ok && s.Tors < 3 {
		t.errs = append(t.errs, fmt.Errorf("%d tors have no matchings to rotate: set at least 3", s.Tors))
		ok = false
	}
	if s.Day <= 0 || s.Night < 0 || s.Day > units.Second || s.Night > units.Second {
		t.errs = append(t.errs, fmt.Errorf("a day of %v and a night of %v: set a day above 0 and a night from 0, each up to 1s", s.Day, s.Night))
		ok = false
	}
	if !ok {
		return t
	}
	tors := make([]Node, s.Tors)
	for i := range tors {
		tors[i] = t.rack(fmt.Sprintf("tor%d", i), s.HostsPerTor, s.Host)
	}
	core := t.AddSwitch("core0")
	r := &rdcn{day: s.Day, night: s.Night, tors: tors}
	for _, tor := range tors {
		r.uplinks = append(r.uplinks, t.Connect(tor, core, s.Packet))
	}
	r.circuits = make([][]LinkID, s.Tors)
	for i := range tors {
		r.circuits[i] = make([]LinkID, s.Tors-1)
	}
	for i := range tors {
		for j := i + 1; j < s.Tors; j++ {
			l := t.Connect(tors[i], tors[j], s.Circuit)
			r.circuits[i][j-i-1] = l
			r.circuits[j][s.Tors+i-j-1] = l.Reverse()
		}
	}
	t.rdcn = r
	return t
}

// rdcn is a Topology's description of its circuits.
type rdcn struct {
	day, night units.Time
	tors       []Node
	uplinks    []LinkID   // by tor
	circuits   [][]LinkID // by tor, then by day
}

// Night returns the time that an RDCN takes from one matching to the next; 0 without
// circuits.
func (t *Topology) Night() units.Time {
	if t.rdcn == nil {
		return 0
	}
	return t.rdcn.night
}

// Circuit says when a link of an RDCN is a circuit that is up: for day from dawn on,
// and again each week. ok is false for any other link.
func (t *Topology) Circuit(l LinkID) (dawn, day, week units.Time, ok bool) {
	if t.rdcn == nil {
		return 0, 0, 0, false
	}
	r := t.rdcn
	if l < r.circuits[0][0] { // circuits were connected last
		return 0, 0, 0, false
	}
	// Tors are the first switches.
	days := len(r.tors) - 1
	s := int(t.nodes[t.head(l)].index-t.nodes[t.tail(l)].index) - 1
	if s < 0 {
		s += len(r.tors)
	}
	period := r.day + r.night
	return units.Time(s) * period, r.day, units.Time(days) * period, true
}
