package turns

import "github.com/sluice-rdma/sluice/units"

// wait is the condition for which a program or a thread waits.
type wait struct {
	until units.Time  // runs at the latest then, or units.Never
	ready func() bool // runs as soon as this holds; nil: for time alone
	// later is the delay with which the waiter's next actions reach the memory of the
	// thread that has the turn, unless by a call.
	later units.Time
}

// over reports whether the wait has ended, and by what it was for.
func (w *wait) over(now units.Time) (over, ready bool) {
	if w.ready != nil && w.ready() {
		return true, true
	}
	return w.until <= now, false
}

// next returns which of the waits ends first, by position if several end at one
// instant, after the simulation has advanced to that instant; and -1 if none can end. fire
// is called at each instant, for timers to end waits, and returns when it has to be called
// next. A wait of nil is none.
func next(sim Simulation, waits []*wait, fire func(now units.Time) (again units.Time)) (which int, ready bool) {
	for {
		now := sim.Now()
		earliest := fire(now)
		for i, w := range waits {
			if w == nil {
				continue
			}
			if over, ready := w.over(now); over {
				return i, ready
			}
			earliest = min(earliest, w.until)
		}
		switch event := sim.Next(); {
		case event != units.Never && event <= earliest:
			if !sim.Step() { // it is over
				return -1, false
			}
		case earliest != units.Never:
			if sim.RunUntil(earliest); sim.Now() < earliest {
				return -1, false
			}
		default:
			return -1, false
		}
	}
}

// longestAlone bounds for how long, in simulated time, a thread lets costs pass by itself:
// so late others notice at most what it did that its library has not seen.
const longestAlone = 100 * units.Microsecond

// horizon returns up to when the thread whose turn it is is alone: before that neither the
// simulation nor another wait has anything to happen. And up to when it can let costs pass by
// itself, ahead of others: before that nothing happens that it sees without a call. They
// are now if another one may run already. again is fire's.
func horizon(sim Simulation, waits []*wait, again units.Time) (alone, ahead units.Time) {
	now := sim.Now()
	alone = min(sim.Next(), again, now+longestAlone)
	ahead = alone
	for _, w := range waits {
		if w == nil {
			continue
		}
		at := w.until
		if over, _ := w.over(now); over {
			at = now
		}
		alone = min(alone, at)
		if at != units.Never {
			ahead = min(ahead, at+w.later)
		}
	}
	return max(alone, now), max(ahead, now)
}
