package paced

import (
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// departed reckons the round trip of shim.segment from when it left the host, where
// the provider knows that (verbs.SentTimestampQP): the delay between posting and
// leaving is the host's own.
//
// A segment at line rate ends its serialisation, on an idle link, no earlier than
// its first packet's start allows, nor than its last one's. Measure takes the
// serialisation of all of it off; so the round trip begins at the first packet, or
// if the host tore packets apart, as much before the last as the rest takes at
// line rate. Queueing behind the hook, in the NIC, stays part of it (TIMELY
// section 5). Of a Read one packet left, and all of its bytes come back.
//
// By NICClock it begins when the first packet left, before done.
func (q *QP) departed(now, done units.Time, wc *verbs.WC) {
	s := q.shim
	first, last, ok := q.departs.SentTimestamps(wc)
	if !ok {
		return
	}
	if s.cfg.Clock == NICClock {
		s.segment.PostedAt = done - s.ticksPassed(first, wc.Timestamp)
		s.stats.SentTime++
		return
	}
	from, ok1 := s.clock.HostTime(first, now)
	end, ok2 := s.clock.HostTime(last, now)
	if !ok1 || !ok2 {
		return
	}
	seg := &s.segment
	if rest := seg.Bytes - 1; rest > 0 {
		rest -= rest % units.Bytes(q.mtu) // all but the last packet
		end -= q.wire.Serialize(rest)
	}
	seg.PostedAt = max(seg.PostedAt, from, end)
	s.stats.SentTime++
}
