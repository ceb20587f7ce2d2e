package mlx5

import "encoding/binary"

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
func (a *arming) fires(produced, wantsEvent uint32) bool {
	if !a.armed {
		return false
	}
	unpolled := (produced - a.word) & indexMask
	if unpolled > indexMask/2 { // the program is ahead of the device: nonsense
		return false
	}
	if a.word&armSolicited != 0 && produced-wantsEvent >= unpolled || unpolled == 0 {
		return false
	}
	a.armed, a.fired, a.by = false, true, a.word&armSequence
	return true
}

// readArms reads the arm words of all CQs with events, a call for many.
func (e *Engine) readArms() {
	for i := 0; i < len(e.cqs); {
		e.pieces, e.armed = e.pieces[:0], e.armed[:0]
		for ; i < len(e.cqs) && len(e.armed) < maxRecords; i++ {
			if c := e.cqs[i]; c.cfg.Event != nil && !c.failed {
				at := 4 * len(e.armed)
				e.armed = append(e.armed, c)
				e.pieces = append(e.pieces, Piece{c.cfg.Record + 4, e.records[at : at+4]})
			}
		}
		e.readRecords()
		for k, c := range e.armed {
			if e.pieces[k].Data == nil {
				c.fails()
				continue
			}
			c.arm.onWord(binary.BigEndian.Uint32(e.records[4*k:]))
		}
	}
}
