package rc_test

import (
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/roce/rc"
	"github.com/sluice-rdma/sluice/units"
)

// Of a WRITE of two packets, a READ of three and an atomic, PSNs name the requests whose answers bring data, until
// they are answered.
func TestAnswerTo(t *testing.T) {
	q, err := rc.New(rc.Config{MTU: 1024, SendDepth: 8})
	if err != nil {
		t.Fatal(err)
	}
	if err := q.ReadyToSend(rc.SendConfig{InitialPSN: 100, Timeout: 14, RetryCount: 7, MaxRdAtomic: 4}); err != nil {
		t.Fatal(err)
	}
	for _, r := range []rc.Request{
		{Op: ib.WRRDMAWrite, Length: 2048}, {Op: ib.WRRDMARead, Length: 3000, Signaled: true}, {Op: ib.WRAtomicFetchAndAdd, Length: 8, Signaled: true},
	} {
		if _, err := q.PostSend(&r); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok := q.AnswerTo(102); ok {
		t.Error("an answer to what was not sent")
	}
	var d rc.Descriptor
	for q.NextRequest(0, &d) {
	}
	for _, c := range []struct {
		psn  units.PSN
		slot uint32
		ok   bool
	}{{99, 0, false}, {100, 0, false}, {101, 0, false}, {102, 1, true}, {104, 1, true}, {105, 2, true}, {106, 0, false}} {
		if slot, ok := q.AnswerTo(c.psn); slot != c.slot || ok != c.ok {
			t.Errorf("PSN %d: slot %d, %v; want %d, %v", c.psn, slot, ok, c.slot, c.ok)
		}
	}
	var eff rc.Effects
	for i, op := range []ib.Opcode{ib.ReadResponseFirst, ib.ReadResponseMiddle, ib.ReadResponseLast} {
		q.Receive(0, &rc.Header{Opcode: op, PSN: units.PSN(102 + i)}, min(3000-i*1024, 1024), &eff)
	}
	if _, ok := q.AnswerTo(104); ok {
		t.Error("an answer to what was answered")
	}
	if slot, ok := q.AnswerTo(105); !ok || slot != 2 {
		t.Errorf("the atomic's is slot %d, %v", slot, ok)
	}
}
