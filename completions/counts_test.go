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
		{ib.WCSuccess, false, 2, 0, 3}, // it leaves nothing to poll, and keeps its place
		{ib.WCRemAccessErr, false, 3, 1, 2},
		{ib.WCWRFlushErr, true, 4, 2, 1},
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

// Next fills all of a completion, whatever was in it.
func TestNextOverwrites(t *testing.T) {
	tab := NewTable(7, 1, 1)
	slot, _ := tab.Add(Message{WRID: 5, Opcode: ib.WRSend, Signaled: true})
	var seg Segment
	tab.Complete(tab.Post(slot, 9, true, 0), &verbs.WC{Timestamp: 3}, &seg)
	wc := verbs.WC{
		WRID: 1, Status: ib.WCGeneralErr, VendorErr: 1, Opcode: ib.WCRecv, ByteLen: 1, Flags: verbs.WCWithImm, Imm: 1, QPN: 1, SrcQP: 1, Timestamp: 1,
	}
	want := verbs.WC{WRID: 5, Opcode: ib.WCSend, ByteLen: 9, QPN: 7, Timestamp: 3}
	if !tab.Next(&wc) || wc != want {
		t.Errorf("completion %+v, expected %+v", wc, want)
	}
}

// What HostTime is computed from is what it returns, but for times after the poll.
func TestMapping(t *testing.T) {
	var none *Clock
	if _, ok := none.Mapping(0); ok {
		t.Error("a mapping without timestamps")
	}
	c, err := NewClock(64, 1e9, units.Second)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := c.Mapping(0); ok {
		t.Error("a mapping without samples")
	}
	const us = units.Microsecond
	for at := units.Time(0); at < 1000*us; at += 20 * us {
		c.Add(at, uint64(at/units.Nanosecond), at+units.Nanosecond)
	}
	m, ok := c.Mapping(1_000_000)
	got, ok2 := c.HostTime(1_000_000, 2000*us)
	if by := m.Host - 1000*us; !ok || !ok2 || got != m.Host || by < -m.Bound || by > m.Bound {
		t.Errorf("mapped to %+v, %v; the host time is %v, %v", m, ok, got, ok2)
	}
	if got, ok := c.HostTime(1_000_000, 900*us); !ok || got != 900*us {
		t.Errorf("completed at %v, %v, polled at 900us", got, ok)
	}
}
