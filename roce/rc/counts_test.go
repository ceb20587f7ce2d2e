package rc_test

import (
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce/rc"
)

// Duplicates count on an unreliable connection too.
func TestUnreliableDuplicatesCount(t *testing.T) {
	recv, err := rc.NewRecvQueue(4)
	if err != nil {
		t.Fatal(err)
	}
	q, err := rc.New(rc.Config{Type: ib.UC, MTU: 256, SendDepth: 1, Recv: recv})
	if err != nil {
		t.Fatal(err)
	}
	var eff rc.Effects
	for range 2 {
		if _, err := recv.Post(rc.Recv{Length: 10}); err != nil {
			t.Fatal(err)
		}
	}
	h := rc.Header{Opcode: ib.ServiceUC | ib.SendOnly}
	for i, want := range []rc.Drop{rc.DropNone, rc.DropDuplicate, rc.DropDuplicate} {
		q.Receive(0, &h, 1, &eff)
		if n := q.Counters().DuplicateRequest; eff.Drop != want || n != uint64(i) {
			t.Errorf("packet %d: drop %v, %d duplicates, expected %v and %d", i, eff.Drop, n, want, i)
		}
	}
	if recv.Len() != 1 {
		t.Errorf("%d receives are left, expected 1", recv.Len())
	}
}

// An acknowledgement that lifts all credits lets what they held back go, also if it
// acknowledges nothing.
func TestUnlimitedCreditsLetSendsGo(t *testing.T) {
	q, err := rc.New(rc.Config{MTU: 256, SendDepth: 8, Credits: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := q.ReadyToSend(rc.SendConfig{InitialPSN: 9, Timeout: 14, RetryCount: 7}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := q.PostSend(&rc.Request{Op: ib.WRSend, Length: 1}); err != nil {
			t.Fatal(err)
		}
	}
	var d rc.Descriptor
	var eff rc.Effects
	for q.NextRequest(0, &d) {
	}
	if d.Header.PSN != 9 {
		t.Fatalf("without credits packets up to PSN %d went out", d.Header.PSN)
	}
	q.Receive(0, &rc.Header{Opcode: ib.Acknowledge, PSN: 8, Syndrome: rc.SyndromeUnlimited}, 0, &eff)
	if eff.Drop != rc.DropGhost || eff.Do&rc.DoSend == 0 {
		t.Errorf("drop %v, do %b: expected a ghost that lets requests go", eff.Drop, eff.Do)
	}
	n := 0
	for q.NextRequest(0, &d) {
		n++
	}
	if n != 2 {
		t.Errorf("%d more packets went out, expected 2", n)
	}
}
