package endpoint

import (
	"net/netip"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
)

// SetPort has the endpoint go on with another GID table and another largest path MTU.
// Connections keep what they have: their GIDs' places stay (GIDUsed).
func (e *Endpoint) SetPort(gids []netip.Addr, mtu ib.MTU) { e.cfg.GIDs, e.cfg.MTU = gids, mtu }

// GIDUsed reports whether a queue pair or an address handle sends from a place of the
// GID table.
func (e *Endpoint) GIDUsed(i int) bool { return i < len(e.users) && e.users[i] > 0 }

// useGID notes that one more or one less sends from a place of the GID table.
func (e *Endpoint) useGID(i, more int) {
	for i >= len(e.users) {
		e.users = append(e.users, 0)
	}
	e.users[i] += more
}

// QP returns the queue pair of a number, or nil.
func (e *Endpoint) QP(num uint32) *QP { return e.qps.get(num) }

// FailQP takes a queue pair to the error state, with EventQPFatal, unless it is in RESET or in that
// state. It reports whether there is one of that number.
func (e *Endpoint) FailQP(now units.Time, num uint32) bool {
	q := e.qps.get(num)
	if q == nil {
		return false
	}
	if s := q.State(); s != ib.Reset && s != ib.Err {
		e.raise(Event{Type: ib.EventQPFatal, QP: q})
		q.fail(now)
	}
	return true
}

// Fail takes all queue pairs that are in use to the error state, which flushes their
// requests.
func (e *Endpoint) Fail(now units.Time) {
	for _, s := range e.qps.slots {
		if q := s.v; q != nil && q.State() != ib.Reset && q.State() != ib.Err {
			q.fail(now)
		}
	}
}
