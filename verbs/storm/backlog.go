package storm

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/sluice-rdma/sluice/verbs/internal/cm"
)

// backlogs is how many requests may wait at a listener.
const backlogs = 16

// floodMark begins the private data of a flood's requests: each is new, and none is wrong.
var floodMark = slices.Concat(forgedMark, []byte(" flood"))

// backlog is the requests that wait at a listener for the program, oldest first, as the events of
// the connection manager have it.
type backlog []waiter

type waiter struct {
	id     uint32
	source netip.Addr
}

// remove forgets what waits no longer.
func (b *backlog) remove(gone func(id uint32) bool) {
	*b = slices.DeleteFunc(*b, func(w waiter) bool { return gone(w.id) })
}

// victim is who must give way to one more request of a source: the oldest of that source if it has
// its share of the places, else the oldest of those that have more than theirs.
func (b backlog) victim(source netip.Addr) uint32 {
	has := map[netip.Addr]int{source: 0}
	for _, w := range b {
		has[w.source]++
	}
	share := backlogs / len(has)
	for _, w := range b {
		if has[source] >= share && w.source == source || has[source] < share && has[w.source] > share {
			return w.id
		}
	}
	return 0
}

// receive holds the events of a message that has arrived against rule 23. flood says that it is one
// of a flood.
func (b *backlog) receive(flood bool, events []cm.Event) error {
	i := slices.IndexFunc(events, func(e cm.Event) bool { return e.Type == cm.EventRequest && e.ServiceID == service })
	if i < 0 {
		if flood {
			return fmt.Errorf("rule 23: a request that is new finds %d that wait, and the program does not learn of it", len(*b))
		}
		return nil
	}
	source := events[i].Parameters.Path.Remote
	var gone, want []uint32
	for _, w := range *b {
		if slices.ContainsFunc(events, func(e cm.Event) bool { return e.ID == w.id && e.Type.Ends() }) {
			gone = append(gone, w.id)
		}
	}
	if len(*b) == backlogs {
		want = []uint32{b.victim(source)}
	}
	if !slices.Equal(gone, want) {
		return fmt.Errorf("rule 23: a request of %v finds %d that wait, and %#x give way, expected %#x", source, len(*b), gone, want)
	}
	b.remove(func(id uint32) bool { return slices.Contains(gone, id) })
	*b = append(*b, waiter{events[i].ID, source})
	return nil
}
