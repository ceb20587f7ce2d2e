package nicmodel

import (
	"math/bits"

	"github.com/sluice-rdma/sluice/nicmodel/internal/config"
	"github.com/sluice-rdma/sluice/units"
)

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

// Ranks of classes: those of ETS without a share, then ETS, then the strict ones.
const (
	rankLowest = iota
	rankETS
	rankStrict
)

// classShares are those of the port's classes.
func classShares(c *config.Egress) shares {
	all := shares{takers: make([]share, max(len(c.TSA), 1))}
	for i := range all.takers {
		t := &all.takers[i]
		switch {
		case len(c.TSA) == 0 || c.TSA[i] == config.TSAStrict:
			t.rank, t.weight = rankStrict+i, 1
		case i < len(c.TCBW) && c.TCBW[i] > 0:
			t.rank, t.weight = rankETS, uint64(c.TCBW[i])
		default:
			t.rank, t.weight = rankLowest, 1
		}
	}
	return all
}

// mostShare is the largest share of a function, max_tsar_bw_share of a device: an estimate.
const mostShare = 100

// functionShares are the shares that the kernel's driver makes of guarantees (mlx5, esw/qos.c, as recalled): in proportion
// to them, the largest being mostShare, and 1 for who has none. Without guarantees all are alike.
func functionShares(functions []config.Function) shares {
	most := units.Rate(0)
	for _, f := range functions {
		most = max(most, f.MinTxRate)
	}
	divider := max(most/mostShare, units.Mbps)
	all := shares{takers: make([]share, max(len(functions), 1))}
	for i := range all.takers {
		all.takers[i].weight = 1
		if i < len(functions) {
			all.takers[i].weight = uint64(max((functions[i].MinTxRate+divider-1)/divider, 1))
		}
	}
	return all
}
