package ratelimiter

import "fmt"

// MaxWeight is the largest weight of a flow.
const MaxWeight = 255

// turns are the weights of a round robin: a flow of weight w may send w segments a
// turn. It is used through a nil pointer where no flow has a weight.
type turns struct {
	weights []uint8 // by flow; 0 is 1
	serving uint32  // whose turn it is
	left    uint8   // segments that it may still send
	going   bool    // the next of them is at the head of the ring
}

// SetWeight has the flow send up to w segments, 1 to MaxWeight, at each of its turns
// while others wait, instead of one. It applies from the flow's next turn on. A turn
// ends early when the flow's next segment is not enqueued, or not due, before another
// flow's is dequeued: a paced flow does not save up turns. SetWeight fails, and
// changes nothing, if w is out of range.
func (s *Scheduler) SetWeight(id FlowID, w int) error {
	s.flow(id)
	if w < 1 || w > MaxWeight {
		return fmt.Errorf("ratelimiter: weight %d of a flow, expected 1 to %d", w, MaxWeight)
	}
	if s.turns == nil {
		if w == 1 {
			return nil
		}
		s.turns = &turns{serving: none}
	}
	for int(id) >= len(s.turns.weights) {
		s.turns.weights = append(s.turns.weights, 0)
	}
	s.turns.weights[id] = uint8(w)
	return nil
}

// goesOn reports whether a segment that is due as it is enqueued goes before all that
// wait, as the flow's turn is not over, and counts it.
func (t *turns) goesOn(id uint32) bool {
	if t == nil || t.serving != id || t.left == 0 {
		return false
	}
	t.left--
	t.going = true
	return true
}

// served says that a segment of the flow has left.
func (t *turns) served(id uint32) {
	if t == nil {
		return
	}
	if !t.going || t.serving != id {
		t.serving, t.left = id, 0
		if int(id) < len(t.weights) && t.weights[id] > 0 {
			t.left = t.weights[id] - 1
		}
	}
	t.going = false
}

// withdrawn says that the flow's segment was taken back.
func (t *turns) withdrawn(id uint32) {
	if t != nil && t.serving == id {
		t.left, t.going = 0, false
	}
}

// forget drops the weight of a flow that is removed.
func (t *turns) forget(id uint32) {
	if t == nil {
		return
	}
	t.withdrawn(id)
	if int(id) < len(t.weights) {
		t.weights[id] = 0
	}
}
