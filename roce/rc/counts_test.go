package rc_test

import (
	"reflect"
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

// Add adds each counter to its own.
func TestCountersAdd(t *testing.T) {
	var a, b rc.Counters
	from, to := reflect.ValueOf(&b).Elem(), reflect.ValueOf(&a).Elem()
	for i := range from.NumField() {
		from.Field(i).SetUint(uint64(1) << i)
	}
	a.Add(&b)
	a.Add(&b)
	for i := range from.NumField() {
		if got, want := to.Field(i).Uint(), uint64(2)<<i; got != want {
			t.Errorf("%s is %d, expected %d", from.Type().Field(i).Name, got, want)
		}
	}
}

// An answer that is to nothing, or says nothing that there is, is dropped, counts, and changes nothing.
func TestGhostsCount(t *testing.T) {
	recv, err := rc.NewRecvQueue(4)
	if err != nil {
		t.Fatal(err)
	}
	q, err := rc.New(rc.Config{MTU: 256, SendDepth: 4, Recv: recv})
	if err != nil {
		t.Fatal(err)
	}
	if err := q.ReadyToSend(rc.SendConfig{RetryCount: 7, RNRRetry: 7, MaxRdAtomic: 1}); err != nil {
		t.Fatal(err)
	}
	var d rc.Descriptor
	var eff rc.Effects
	if _, err := q.PostSend(&rc.Request{Op: ib.WRRDMAWrite, Signaled: true, Length: 100}); err != nil || !q.NextRequest(0, &d) {
		t.Fatal(err, "no packet")
	}
	for i, h := range []rc.Header{
		{Opcode: ib.Acknowledge, PSN: 1, Syndrome: rc.SyndromeUnlimited},
		{Opcode: ib.Acknowledge, PSN: 1<<24 - 1, Syndrome: rc.SyndromeUnlimited},
		{Opcode: ib.Acknowledge, Syndrome: rc.SyndromeOperation + 1},
		{Opcode: ib.Acknowledge, Syndrome: 0x40},
		{Opcode: ib.Acknowledge, Syndrome: 0xe0},
		{Opcode: ib.ReadResponseOnly, PSN: 1},
	} {
		q.Receive(0, &h, 0, &eff)
		if n := q.Counters().GhostResponses; eff.Drop != rc.DropGhost || n != uint64(i)+1 || q.State() != ib.RTS {
			t.Errorf("%+v: drop %v, %d ghosts, %v, expected %v and %d", h, eff.Drop, n, q.State(), rc.DropGhost, i+1)
		}
	}
}
