package nicmodel

import (
	"fmt"
	"math/bits"

	"github.com/sluice-rdma/sluice/nicmodel/internal/config"
	"github.com/sluice-rdma/sluice/ratelimiter"
	"github.com/sluice-rdma/sluice/units"
)

// ring is queue pairs that take turns: all of a NIC, or with an arbiter those of one traffic class of one
// function.
type ring struct {
	limiter         *ratelimiter.Scheduler
	flows           []*qp // by ratelimiter.FlowID
	class, function int
}

// arbiter decides between rings: by class (EgressConfig), within a class by the functions' shares, and
// with no more of a function than its rate (FunctionConfig). It is there if the NIC has classes or functions.
//
// What a function sends counts, requests and READ responses, by the bytes of the frame; acknowledgements do not.
type arbiter struct {
	rings     []*ring
	classes   shares
	functions []shares // by class
	rates     []functionRate
	config    ratelimiter.Config
}

// functionRate holds a function to its rate: each frame is due once those before have taken their time.
type functionRate struct {
	rate units.Rate // 0 for no bound
	due  units.Time
	rem  uint64 // below a picosecond
}

// newArbiter returns nil for a NIC that has neither classes nor functions.
func newArbiter(c *config.Config, limiter ratelimiter.Config) *arbiter {
	if len(c.Egress.TSA) == 0 && len(c.Functions) == 0 {
		return nil
	}
	a := &arbiter{classes: classShares(&c.Egress), config: limiter, rates: make([]functionRate, max(len(c.Functions), 1))}
	for range a.classes.takers {
		a.functions = append(a.functions, functionShares(c.Functions))
	}
	for i, f := range c.Functions {
		a.rates[i].rate = f.MaxTxRate
	}
	return a
}

// ringOf returns the ring of a class and a function.
func (a *arbiter) ringOf(class, function int) (*ring, error) {
	for _, r := range a.rings {
		if r.class == class && r.function == function {
			return r, nil
		}
	}
	limiter, err := ratelimiter.New(a.config)
	if err != nil {
		return nil, err
	}
	r := &ring{limiter: limiter, class: class, function: function}
	a.rings = append(a.rings, r)
	return r, nil
}

// due returns when a ring has a packet that may go, in the past too; Never for none.
func (a *arbiter) due(r *ring) units.Time { return max(r.limiter.NextDue(), a.rates[r.function].due) }

// nextDue is that of all rings.
func (a *arbiter) nextDue() units.Time {
	next := units.Never
	for _, r := range a.rings {
		next = min(next, a.due(r))
	}
	return next
}

// choose returns the ring whose packet is next, or nil: if full, since classes that have one have no room; else
// there is none before the time returned.
func (a *arbiter) choose(now units.Time, rooms *[classRooms]txRoom) (next *ring, due units.Time, full bool) {
	due = units.Never
	var classes uint64
	for _, r := range a.rings {
		switch at := a.due(r); {
		case at > now:
			due = min(due, at)
		case !rooms[r.class].takes():
			full = true
		default:
			classes |= 1 << r.class
		}
	}
	if classes == 0 {
		return nil, due, full
	}
	class := a.classes.first(classes)
	var functions uint64
	for _, r := range a.rings {
		if r.class == class && a.due(r) <= now {
			functions |= 1 << r.function
		}
	}
	function := a.functions[class].first(functions)
	for _, r := range a.rings {
		if r.class == class && r.function == function {
			next = r
		}
	}
	return next, now, false
}

// responder returns the first of the queue pairs with responses whose class has room and whose function may send,
// or -1; then, when the next function may that has room.
func (a *arbiter) responder(now units.Time, all []*qp, m *mac) (i int, due units.Time) {
	due = units.Never
	for i, q := range all {
		if !m.responseRoom[q.class].takes() || !m.takesAck(q) {
			continue
		}
		at := a.rates[q.function].due
		if at <= now {
			return i, now
		}
		due = min(due, at)
	}
	return -1, due
}

// sent counts a frame of a queue pair.
func (a *arbiter) sent(now units.Time, q *qp, bytes int) {
	a.classes.served(int(q.class), bytes)
	a.functions[q.class].served(int(q.function), bytes)
	f := &a.rates[q.function]
	if f.rate == 0 {
		return
	}
	if f.due < now-catchUp {
		f.due, f.rem = now-catchUp, 0
	}
	var gap units.Time
	gap, f.rem = f.rate.SerializeRem(units.Bytes(bytes), f.rem)
	f.due += gap
}

// SetFunction gives a queue pair in RESET or INIT to a function of the NIC, from 0 on; queue pairs are of
// function 0 otherwise.
func (n *NIC) SetFunction(num uint32, function int) error {
	if most := max(len(n.chip.Config.Functions), 1); function < 0 || function >= most {
		return fmt.Errorf("function %d: the NIC has %d (nic.with.functions)", function, most)
	}
	n.pairs.find(num).function = uint8(function)
	return nil
}

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
