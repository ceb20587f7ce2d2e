package mlx5

import (
	"encoding/binary"
	"time"

	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/connectx"
)

// neverArmed is an arm word that no first arm is: those have sequence number 0.
const neverArmed = connectx.ArmSequence | connectx.IndexMask

// arming is a CQ's knowledge of its arms.
type arming struct {
	word  uint32 // as last read
	armed bool
	fired bool // there was an event, of the arm with sequence number by
	by    uint32
	last  uint32 // the index of the next CQE when the last event fired

	count  uint32        // completions that an event waits for; 0 for no number
	period time.Duration // that an event waits after the first of its completions; 0 for no end
	held   bool          // an event waits for more completions
	until  time.Duration // for so long at most, by Config.Now; with period
}

// onWord takes the arm word. A word with the sequence number of an event that the program
// has not taken yet arms nothing: that event will do.
func (a *arming) onWord(w uint32) {
	if w == a.word {
		return
	}
	a.word = w
	a.armed = !a.fired || w&connectx.ArmSequence != a.by
}

// fires reports whether the arm has its event, and ends it then. produced is the index of
// the next CQE, and wantsEvent the one after the last that was solicited or an error.
// CQEs that an event has announced give no other one, although they may not be polled when
// the queue is armed again (IBA 11.4.2.2: of completions that are added afterwards).
// perftest's latency tests arm before they poll, and take each event for a new completion.
func (a *arming) fires(produced, wantsEvent uint32, now func() time.Duration) bool {
	if !a.armed {
		return false
	}
	if a.fired && produced == a.last {
		return false
	}
	unpolled := (produced - a.word) & connectx.IndexMask
	if unpolled > connectx.IndexMask/2 { // the program is ahead of the device: nonsense
		return false
	}
	if a.word&connectx.ArmSolicited != 0 && produced-wantsEvent >= unpolled || unpolled == 0 {
		return false
	}
	if a.waits(produced-a.last, now) {
		return false
	}
	a.armed, a.fired, a.held, a.by, a.last = false, true, false, a.word&connectx.ArmSequence, produced
	return true
}

// waits reports whether moderation holds the event of n completions back, which are those
// since the last event: polled ones count too.
func (a *arming) waits(n uint32, now func() time.Duration) bool {
	if a.count == 0 && a.period == 0 || a.count > 0 && n >= a.count {
		return false
	}
	if a.period == 0 {
		return true
	}
	t := now()
	if !a.held {
		a.held, a.until = true, t+a.period
	}
	return t < a.until
}

// Moderate holds the queue's events back until there are count completions, or until
// period after the first of them. 0 for one leaves it to the other, 0 for both raises
// events at once. An event that is held back is judged anew.
func (c *CQ) Moderate(count uint16, period time.Duration) error {
	e := c.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.gone {
		return verbs.ErrClosed
	}
	c.arm.count, c.arm.period, c.arm.held = uint32(count), period, false
	e.judge = true
	e.cfg.Wake()
	return nil
}

// Due returns how long the first event that is held back waits at most, from now on, and
// whether there is one. Call Scan then.
func (e *Engine) Due() (wait time.Duration, any bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var first time.Duration
	for _, c := range e.cqs {
		if a := &c.arm; a.armed && a.held && (!any || a.until < first) {
			first, any = a.until, true
		}
	}
	if !any {
		return 0, false
	}
	return max(0, first-e.cfg.Now()), true
}

// raise raises the events that are due.
func (e *Engine) raise() {
	e.judge = false
	for _, c := range e.cqs {
		if c.arm.fires(c.produced, c.wantsEvent, e.cfg.Now) {
			c.cfg.Event()
		}
		e.judge = e.judge || c.arm.armed && c.arm.held
	}
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
