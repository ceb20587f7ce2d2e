package mlx5

import (
	"encoding/binary"

	"github.com/sluice-rdma/sluice/verbs"
)

// The arm word of a CQ's doorbell record: a sequence number, which the program counts up
// with each event it has taken, what it arms for, and its consumer index.
const (
	armSequence  = 3 << 28
	armSolicited = 1 << 24
	neverArmed   = armSequence | indexMask // no first arm: those have sequence number 0
)

// arming is what a CQ knows of its arms.
type arming struct {
	word  uint32 // as last read
	armed bool
	fired bool // there was an event, of the arm with sequence number by
	by    uint32
	last  uint32 // the index of the next CQE when the last event fired
}

// onWord takes the arm word. A word with the sequence number of an event that the program
// has not taken yet arms nothing: that event will do.
func (a *arming) onWord(w uint32) {
	if w == a.word {
		return
	}
	a.word = w
	a.armed = !a.fired || w&armSequence != a.by
}

// fires reports whether the arm has its event, and ends it then. produced is the index of
// the next CQE, and wantsEvent the one after the last that was solicited or an error.
// CQEs that an event has announced give no other one, although they may not be polled when
// the queue is armed again (IBA 11.4.2.2: of completions that are added afterwards).
// perftest's latency tests arm before they poll, and take each event for a new completion.
func (a *arming) fires(produced, wantsEvent uint32) bool {
	if !a.armed {
		return false
	}
	if a.fired && produced == a.last {
		return false
	}
	unpolled := (produced - a.word) & indexMask
	if unpolled > indexMask/2 { // the program is ahead of the device: nonsense
		return false
	}
	if a.word&armSolicited != 0 && produced-wantsEvent >= unpolled || unpolled == 0 {
		return false
	}
	a.armed, a.fired, a.by, a.last = false, true, a.word&armSequence, produced
	return true
}

// readArms reads the arm words of all CQs with events, a call for many.
func (e *Engine) readArms() {
	for i := 0; i < len(e.cqs); {
		pieces := e.recordPieces[:0]
		e.armed = e.armed[:0]
		for ; i < len(e.cqs) && len(e.armed) < maxRecords; i++ {
			if c := e.cqs[i]; c.cfg.Event != nil && !c.failed {
				at := 4 * len(e.armed)
				e.armed = append(e.armed, c)
				pieces = append(pieces, verbs.MemoryPiece{Addr: c.cfg.Record + 4, Data: e.records[at : at+4]})
			}
		}
		_ = e.readRecords(pieces)
		for k, c := range e.armed {
			if pieces[k].Data == nil {
				c.fails()
				continue
			}
			c.arm.onWord(binary.BigEndian.Uint32(e.records[4*k:]))
		}
	}
}
