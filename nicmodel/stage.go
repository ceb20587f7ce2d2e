package nicmodel

import "github.com/sluice-rdma/sluice/units"

// Stall says why a stage did not begin work that waited in front of it.
type Stall uint8

// Reasons for stalls. A wait is charged to the stage that waits, once, to the
// resource that was last to come free.
const (
	StallNone        Stall = iota
	StallPCIe              // data or a descriptor had not arrived over PCIe
	StallWire              // the MAC was sending another frame
	StallPause             // the peer paused the priority (PFC)
	StallTxBuffer          // no room for another packet between scheduler and MAC
	StallOrder             // an earlier unit of work had to go first
	StallUnits             // all processing units were at work
	StallContext           // the queue pair's context was not on the chip
	StallTranslation       // a memory key's or a page's entry was not on the chip
	numStalls
)

var stallNames = [numStalls]string{"none", "pcie", "wire", "pause", "tx_buffer", "order", "units", "context", "translation"}

func (s Stall) String() string { return stallNames[s] }

// Stalls lists the reasons, StallNone first.
func Stalls() []Stall {
	all := make([]Stall, numStalls)
	for i := range all {
		all[i] = Stall(i)
	}
	return all
}

// stage is one unit of the pipeline that serves its work in order, each piece for a
// whole number of cycles of its clock. It is driven by events: nothing happens
// while it idles, and the next piece of work updates its account. At any instant
// busy, stalled and idle cycles add up to those elapsed.
type stage struct {
	name  string
	clock Clock
	free  int64      // first cycle not yet accounted for
	since units.Time // when it begins

	busy    int64
	idle    int64
	stalled [numStalls]int64
	served  uint64

	watch func(begin, end units.Time, why Stall) // see NIC.OnWork; nil if not set
}

func (s *stage) setWatch(f func(begin, end units.Time, why Stall)) { s.watch = f }

// serve accounts for a piece of work that reached the stage at ready, could not
// begin before blocked because of why, and takes so many cycles. It returns the
// instant at which the stage is done with it. Calls must come in the order in
// which the stage serves.
func (s *stage) serve(ready, blocked units.Time, why Stall, cycles int64) units.Time {
	if ready > s.since {
		at := s.clock.CycleAfter(ready)
		s.idle += at - s.free
		s.free = at
	}
	if blocked > ready {
		s.stall(blocked, why)
	}
	if s.watch != nil && cycles > 0 {
		s.watch(s.clock.Begin(s.free), s.clock.Begin(s.free+cycles), StallNone)
	}
	s.free += cycles
	s.busy += cycles
	s.served++
	s.since = s.clock.Begin(s.free)
	return s.since
}

// stall accounts for a wait until blocked.
func (s *stage) stall(blocked units.Time, why Stall) {
	b := s.clock.CycleAfter(blocked)
	if b <= s.free {
		return
	}
	s.stalled[why] += b - s.free
	if s.watch != nil {
		s.watch(s.clock.Begin(s.free), s.clock.Begin(b), why)
	}
	s.free = b // serve goes on
}

// await accounts for the first part of a wait that serve goes on with.
func (s *stage) await(ready, blocked units.Time, why Stall) {
	s.serve(ready, blocked, why, 0)
	s.served--
}

// began returns when the stage began what it has just served, which took so many
// cycles.
func (s *stage) began(cycles int64) units.Time { return s.clock.Begin(s.free - cycles) }

// freeAt returns the instant from which the stage can begin something.
func (s *stage) freeAt() units.Time { return s.since }

// Account is where the cycles of a stage went up to some instant. A piece of work
// in service counts as busy to its end, so Elapsed may be a little after the
// requested instant.
type Account struct {
	Stage string
	Clock Clock
	// Parallel is how many pieces of work the stage does at once: 1, or the number of
	// units; the cycles are then those of all units.
	Parallel int
	Served   uint64
	Elapsed  int64
	Busy     int64
	Idle     int64
	Stalled  [numStalls]int64
}

// account reports where the cycles until now went.
func (s *stage) account(now units.Time) Account {
	a := Account{Stage: s.name, Clock: s.clock, Parallel: 1, Served: s.served, Busy: s.busy, Idle: s.idle, Stalled: s.stalled, Elapsed: s.free}
	if c := s.clock.CycleAfter(now); c > s.free {
		a.Idle += c - s.free
		a.Elapsed = c
	}
	return a
}
