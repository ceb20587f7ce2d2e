package nicmodel

import "github.com/sluice-rdma/sluice/roce/rc"

// departure is when a send request's packets left, by the counter of completion
// timestamps.
type departure struct {
	first, last uint64
	reach       uint64 // of the message's bytes, and one: what has left
}

// StampSends makes the NIC note when each send request's packets leave, for the queue
// pairs that are created from then on: see Departed.
func (n *NIC) StampSends() { n.stampSends = true }

// Departed returns what the counter of completion timestamps showed when the first
// and the last packet of a completed send request went on the wire, for the first
// time if packets were sent again. It reports false without StampSends, and for a
// request that sent no packet. The result is valid until the slot is used again.
func (n *NIC) Departed(num, slot uint32) (first, last uint64, ok bool) {
	q := n.pairs.find(num)
	if q == nil || q.departures == nil || q.departures[slot].reach == 0 {
		return 0, 0, false
	}
	d := &q.departures[slot]
	return d.first, d.last, true
}

// leaves takes note that a request's packet goes on the wire when the counter shows
// ticks.
func (d *departure) leaves(ticks uint64, p *rc.Descriptor) {
	reach := uint64(p.Offset) + uint64(p.Payload) + 1
	if reach <= d.reach {
		return // again
	}
	if d.reach == 0 {
		d.first = ticks
	}
	d.last, d.reach = ticks, reach
}
