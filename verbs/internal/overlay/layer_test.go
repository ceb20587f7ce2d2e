package overlay

import (
	"sync"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// conn is the queue pair of the tests' layer, which begins on the way to RTS. What it
// knows of a completion is its WRID and one more.
type conn struct {
	*QP[*conn, uint64]
	l     *layer
	ended int
}

func (c *conn) Begins(a *verbs.QPAttr, _ verbs.QPAttrMask) bool { return a.State == ib.RTS }
func (c *conn) Start() error                                    { return c.Register(c.l.register) }
func (c *conn) End()                                            { c.ended++ }

// layer is the tests' layer, and its program.
type layer struct {
	*Device[*conn, uint64]
	t         testing.TB
	mu        sync.Mutex
	known     map[uint32]Connection
	fails     error // of register
	unmatched int   // successful sends that are in no queue
	closed    bool
}

func (l *layer) register(id uint32, c Connection) error {
	if _, ok := l.known[id]; ok {
		l.t.Errorf("id %#x is given out twice", id)
	}
	if l.fails == nil {
		l.known[id] = c
	}
	return l.fails
}

func (l *layer) Unregister(id uint32, c Connection) error {
	if l.known[id] != c {
		l.t.Errorf("%v ends under id %#x, which is %v", c, id, l.known[id])
	}
	delete(l.known, id)
	return nil
}

func (l *layer) Close() error {
	l.closed = true
	return nil
}

// lay lays the tests' layer over a device, with ids of bits bits for connections.
func lay(t testing.TB, dev verbs.Device, bits uint) *layer {
	l := &layer{t: t, known: map[uint32]Connection{}}
	l.Device = New(dev, Layer[*conn, uint64]{
		Mu: &l.mu, Program: l, IndexBits: bits, Matches: true, Refusal: "a test's connection can't begin",
		Watches: func(a *verbs.CQInitAttr) bool { return a.CQE != unwatched },
		Cover:   func(q *QP[*conn, uint64], _ verbs.QPInitAttr) *conn { return &conn{QP: q, l: l} },
		Polled: func(c *CQ[*conn, uint64], wc []verbs.WC) {
			for i := range wc {
				q, ok := c.Sender(&wc[i])
				if !ok {
					continue
				}
				if _, ok = q.Queue.Complete(wc[i].WRID); !ok {
					l.unmatched++
				}
				c.Put(&wc[i], wc[i].WRID+1)
			}
		},
	})
	return l
}

// unwatched is the size of a CQ that the layer is not told of.
const unwatched = 7

// left reports what the device still holds of objects that are gone.
func (l *layer) left() bool {
	for _, f := range l.flows.list {
		if f.used {
			return true
		}
	}
	return len(l.known)+len(l.inner) > 0
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
