package nicmodel

import "math/bits"

// shares divides what is served between a few takers in proportion to their weights, those of a higher
// rank first: start-time fair queueing (Goyal et al., SIGCOMM 1996, section 2), in which a taker that wanted
// nothing has saved up nothing.
type shares struct {
	takers []share
	now    uint64 // start tag of what was served last, of the lowest rank there is
}

type share struct {
	rank   int    // the higher ones go first
	weight uint64 // from 1
	finish uint64 // tag of what it had last, bytes by weight
}

// tagScale keeps fractions of a byte by weight. Bytes up to 10^16, 1000 s at 80 Tbps, do not overflow.
const tagScale = 1 << 10

// first returns which of the takers in a mask goes next; the mask is not empty.
func (s *shares) first(of uint64) int {
	best := bits.TrailingZeros64(of)
	for left := of & (of - 1); left != 0; left &= left - 1 {
		i := bits.TrailingZeros64(left)
		switch a, b := &s.takers[i], &s.takers[best]; {
		case a.rank > b.rank:
			best = i
		case a.rank == b.rank && max(a.finish, s.now) < max(b.finish, s.now):
			best = i
		}
	}
	return best
}

// served counts bytes that a taker has had.
func (s *shares) served(i int, bytes int) {
	t := &s.takers[i]
	s.now = max(t.finish, s.now)
	t.finish = s.now + uint64(bytes)*tagScale/t.weight
}
