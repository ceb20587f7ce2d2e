package stage

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
	NumStalls
)

var stallNames = [NumStalls]string{"none", "pcie", "wire", "pause", "tx_buffer", "order", "units", "context", "translation"}

func (s Stall) String() string { return stallNames[s] }

// Stalls lists the reasons, StallNone first.
func Stalls() []Stall {
	all := make([]Stall, NumStalls)
	for i := range all {
		all[i] = Stall(i)
	}
	return all
}

// Stage is one unit of the pipeline that serves its work in order, each piece for a
// whole number of cycles of its clock. It is driven by events: nothing happens
// while it idles, and the next piece of work updates its account. At any instant
// busy, stalled and idle cycles add up to those elapsed.
type Stage struct {
	Name  string
	Clock Clock
	Free  int64      // first cycle not yet accounted for
	since units.Time // when it begins

	busy    int64
	idle    int64
	stalled [NumStalls]int64
	served  uint64

	watch func(begin, end units.Time, why Stall) // see NIC.OnWork; nil if not set
}

// SetWatch implements Accounted.
func (s *Stage) SetWatch(f func(begin, end units.Time, why Stall)) { s.watch = f }

// Serve accounts for a job that reached the stage at ready, could not begin before
// blocked because of why, and takes cycles cycles. It returns the
// instant at which the stage is done with it. Calls must come in the order in
// which the stage serves.
func (s *Stage) Serve(ready, blocked units.Time, why Stall, cycles int64) units.Time {
	if ready > s.since {
		at := s.Clock.CycleAfter(ready)
		s.idle += at - s.Free
		s.Free = at
	}
	if blocked > ready {
		s.stall(blocked, why)
	}
	if s.watch != nil && cycles > 0 {
		s.watch(s.Clock.Begin(s.Free), s.Clock.Begin(s.Free+cycles), StallNone)
	}
	s.Free += cycles
	s.busy += cycles
	s.served++
	s.since = s.Clock.Begin(s.Free)
	return s.since
}

// stall accounts for a wait until blocked.
func (s *Stage) stall(blocked units.Time, why Stall) {
	b := s.Clock.CycleAfter(blocked)
	if b <= s.Free {
		return
	}
	s.stalled[why] += b - s.Free
	if s.watch != nil {
		s.watch(s.Clock.Begin(s.Free), s.Clock.Begin(b), why)
	}
	s.Free = b // serve goes on
}

// Await accounts for the first part of a wait that serve goes on with.
func (s *Stage) Await(ready, blocked units.Time, why Stall) {
	s.Serve(ready, blocked, why, 0)
	s.served--
}

// Began returns when the stage began its latest job, which took cycles cycles.
func (s *Stage) Began(cycles int64) units.Time { return s.Clock.Begin(s.Free - cycles) }

// FreeAt returns the instant from which the stage can begin something.
func (s *Stage) FreeAt() units.Time { return s.since }

// Account breaks down the cycles of a stage up to some instant. A job
// in service counts as busy to its end, so Elapsed may be a little after the
// requested instant.
type Account struct {
	Stage string
	Clock Clock
	// Parallel is the number of jobs that the stage does at once: 1, or the number of
	// units; the cycles are then those of all units.
	Parallel int
	Served   uint64
	Elapsed  int64
	Busy     int64
	Idle     int64
	Stalled  [NumStalls]int64
}

// Account reports where the cycles until now went.
func (s *Stage) Account(now units.Time) Account {
	a := Account{Stage: s.Name, Clock: s.Clock, Parallel: 1, Served: s.served, Busy: s.busy, Idle: s.idle, Stalled: s.stalled, Elapsed: s.Free}
	if c := s.Clock.CycleAfter(now); c > s.Free {
		a.Idle += c - s.Free
		a.Elapsed = c
	}
	return a
}
