package reduced

import "github.com/sluice-rdma/sluice/units"

// queue is the senders of a NIC that have something to send, a binary heap by
// when they may, and among those of an instant by their order in line. A sender
// knows its place.
type queue []entry

type entry struct {
	at     units.Time
	order  uint32
	sender uint32 // slot
}

func (a *entry) before(b *entry) bool {
	if a.at != b.at {
		return a.at < b.at
	}
	return int32(a.order-b.order) < 0
}

// place puts an entry at i, and tells its sender.
func (n *nic) place(i int, e entry) {
	n.due[i] = e
	n.senders[e.sender].place = int32(i + 1)
}

// push adds a sender, or gives one that is there another time.
func (n *nic) push(slot uint32, at units.Time) {
	n.order++
	e := entry{at, n.order, slot}
	i := int(n.senders[slot].place) - 1
	if i < 0 {
		n.due = append(n.due, e)
		i = len(n.due) - 1
	}
	n.sift(i, e)
}

// sift finds the place of an entry for which there is room at i.
func (n *nic) sift(i int, e entry) {
	for i > 0 {
		up := (i - 1) / 2
		if !e.before(&n.due[up]) {
			break
		}
		n.place(i, n.due[up])
		i = up
	}
	for {
		down := 2*i + 1
		if down >= len(n.due) {
			break
		}
		if r := down + 1; r < len(n.due) && n.due[r].before(&n.due[down]) {
			down = r
		}
		if !n.due[down].before(&e) {
			break
		}
		n.place(i, n.due[down])
		i = down
	}
	n.place(i, e)
}

// remove takes a sender out.
func (n *nic) remove(slot uint32) {
	i := int(n.senders[slot].place) - 1
	if i < 0 {
		return
	}
	n.senders[slot].place = 0
	last := n.due[len(n.due)-1]
	n.due = n.due[:len(n.due)-1]
	if i < len(n.due) {
		n.sift(i, last)
	}
}
