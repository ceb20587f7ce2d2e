package completions

import (
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

func TestFinishedAndRoom(t *testing.T) {
	tab := NewTable(1, 5, 8)
	var q Queue
	var seg Segment
	for i, want := range []struct {
		status      ib.WCStatus
		signaled    bool
		all, failed uint64
		room        int
	}{
		{ib.WCSuccess, true, 1, 0, 4},
		{ib.WCSuccess, false, 2, 0, 4}, // it leaves nothing to poll
		{ib.WCRemAccessErr, false, 3, 1, 3},
		{ib.WCWRFlushErr, true, 4, 2, 2},
	} {
		slot, ok := tab.Add(Message{WRID: uint64(i), Signaled: want.signaled})
		if !ok {
			t.Fatal("full")
		}
		seq := tab.Post(slot, 1, true, 0)
		if !tab.Complete(seq, &verbs.WC{Status: want.status}, &seg) {
			t.Fatalf("segment %d is unknown", seq)
		}
		q.Push(tab)
		if all, failed := tab.Finished(); all != want.all || failed != want.failed || tab.Room() != want.room {
			t.Errorf("%d: %d finished, %d failed, room for %d, expected %+v", i, all, failed, tab.Room(), want)
		}
	}
	if n := q.Pop(make([]verbs.WC, 8)); n != 3 || tab.Room() != 5 {
		t.Errorf("%d completions, then room for %d, expected 3 and 5", n, tab.Room())
	}
}

// A queue that some completions have passed through grows as one does that is new.
func TestAQueueGrowsInTheMiddle(t *testing.T) {
	tab := NewTable(1, 64, 1)
	var q Queue
	var seg Segment
	next, polled := uint64(0), uint64(0)
	push := func(n int) {
		for range n {
			slot, ok := tab.Add(Message{WRID: next, Signaled: true})
			if !ok {
				t.Fatal("full")
			}
			tab.Complete(tab.Post(slot, 1, true, 0), &verbs.WC{}, &seg)
			if q.Push(tab) == nil {
				t.Fatalf("request %d has not finished", next)
			}
			next++
		}
	}
	pop := func(n int) {
		for range n {
			var wc [1]verbs.WC
			if q.Pop(wc[:]) != 1 || wc[0].WRID != polled {
				t.Fatalf("request %d was polled, expected %d", wc[0].WRID, polled)
			}
			polled++
		}
	}
	push(10)
	pop(7)
	push(40) // past the ring's end, and more than it holds
	if q.Len() != 43 {
		t.Errorf("%d wait, expected 43", q.Len())
	}
	pop(43)
}

// A round trip of the shortest time that there is counts as measured.
func TestTheShortestRoundTrip(t *testing.T) {
	for completed, want := range map[units.Time]Sample{
		5: {PostedAt: 4, CompletedAt: 5, RTT: 1, NetRTT: 1},
		4: {PostedAt: 4, CompletedAt: 4, RTT: 1, Clamped: true},
		3: {PostedAt: 4, CompletedAt: 3, RTT: 1, Clamped: true},
	} {
		if got := MeasureSerialized(&Segment{PostedAt: 4}, completed, 0); got != want {
			t.Errorf("completed at %d: %+v, expected %+v", completed, got, want)
		}
	}
}
