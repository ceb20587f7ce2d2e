package capture

import "github.com/sluice-rdma/sluice/units"

// psnSet is the PSNs of one direction that were seen, so that a packet sent again
// is told from one that is late. PSNs are counted on without end from the first, so
// that wrapping around does not matter.
type psnSet struct {
	runs []run // ascending, apart
	last int64 // the highest PSN seen
}

type run struct{ from, to int64 } // to is the first not seen

const (
	// maxRuns bounds a set's memory: beyond it the oldest gap is forgotten, and
	// counts as seen.
	maxRuns = 64
	// restart is the distance of a PSN behind the highest one from which it means
	// that the queue pair's number was given to a new connection. No sender has that
	// many packets outstanding.
	restart = 1 << 20
)

// place is a PSN's relation to a set.
type place uint8

const (
	placeNew     place = iota // ahead of all, or the first
	placeLate                 // behind the highest, but not seen: out of order
	placeAgain                // seen before
	placeRestart              // so far behind that it begins anew
)

// number returns p counted on from the set's first PSN.
func (s *psnSet) number(p units.PSN) int64 {
	if len(s.runs) == 0 {
		return int64(p)
	}
	return s.last + int64(p.Sub(units.MakePSN(uint32(s.last))))
}

// add adds the n PSNs from p on and says what p was.
func (s *psnSet) add(p units.PSN, n int64) place {
	from := s.number(p)
	if len(s.runs) == 0 {
		s.runs, s.last = append(s.runs, run{from, from + n}), from+n-1
		return placeNew
	}
	if from < s.last-restart {
		s.runs = append(s.runs[:0], run{from, from + n})
		s.last = from + n - 1
		return placeRestart
	}
	at := placeNew
	switch {
	case s.has(from):
		at = placeAgain
	case from < s.last:
		at = placeLate
	}
	s.insert(run{from, from + n})
	s.last = max(s.last, from+n-1)
	return at
}

func (s *psnSet) has(n int64) bool {
	for i := len(s.runs) - 1; i >= 0; i-- {
		if n >= s.runs[i].from {
			return n < s.runs[i].to
		}
	}
	return false
}

func (s *psnSet) insert(r run) {
	// Runs i to j-1 touch r.
	j := len(s.runs)
	for j > 0 && s.runs[j-1].from > r.to {
		j--
	}
	i := j
	for i > 0 && s.runs[i-1].to >= r.from {
		i--
		r.from = min(r.from, s.runs[i].from)
		r.to = max(r.to, s.runs[i].to)
	}
	if i < j {
		s.runs[i] = r
		s.runs = append(s.runs[:i+1], s.runs[j:]...)
		return
	}
	s.runs = append(s.runs, run{})
	copy(s.runs[i+1:], s.runs[i:])
	s.runs[i] = r
	if len(s.runs) > maxRuns {
		s.runs[1].from = s.runs[0].from
		s.runs = append(s.runs[:0], s.runs[1:]...)
	}
}
