package fakenic

import (
	"container/heap"
	"errors"

	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

// World is the devices that can reach each other, and their time.
type World struct {
	// PollCost is the time of a Poll that finds nothing; set it for programs
	// that poll, and leave it 0 where a driver decides when time passes.
	PollCost units.Time

	now    units.Time
	events events
	seq    int
	qps    []*QP // by number
	mrs    []*MR // by key
	addr   uint64
}

// New returns an empty world at time 0.
func New() *World {
	return &World{qps: []*QP{nil}, mrs: []*MR{nil}, addr: 0x10000}
}

// Now is the world's time.
func (w *World) Now() units.Time { return w.now }

type event struct {
	at  units.Time
	seq int
	do  func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }

// Push implements heap.Interface.
func (e *events) Push(x any) { *e = append(*e, x.(event)) }

// Pop implements heap.Interface.
func (e *events) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}

// At lets something happen at time t.
func (w *World) At(t units.Time, do func()) { w.at(t, do) }

func (w *World) at(t units.Time, do func()) {
	w.seq++
	heap.Push(&w.events, event{max(t, w.now), w.seq, do})
}

// Next returns when something happens next, or units.Never.
func (w *World) Next() units.Time {
	if len(w.events) == 0 {
		return units.Never
	}
	return w.events[0].at
}

// RunUntil lets time pass until t.
func (w *World) RunUntil(t units.Time) {
	for w.Next() <= t {
		w.step()
	}
	w.now = max(w.now, t)
}

func (w *World) step() {
	e := heap.Pop(&w.events).(event)
	w.now = e.at
	e.do()
}

// ErrStuck is the error of a Wait without end in a world in which nothing will
// happen.
var ErrStuck = errors.New("fakenic: nothing will ever happen")

// MR is a memory region.
type MR struct {
	dev    *Device
	buf    []byte
	addr   uint64
	key    uint32
	access accessFlags
	dead   bool
}

var _ verbs.MR = (*MR)(nil)
