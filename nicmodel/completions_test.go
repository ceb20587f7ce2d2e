package nicmodel

import (
	"testing"

	"github.com/sluice-rdma/sluice/units"
)

// Completions are in their queue until they are polled, or gone with a queue pair or
// with the queue.
func TestCompletionsAreCounted(t *testing.T) {
	b := newBed(t, 2, 100*units.Gbps, preset(t, "cx6dx"), nil)
	x, y := b.connect(0, 1, [2]Congestion{}, plainSend, 1024)
	r := y.region(t, make([]byte, 256))
	held := func(want int, came uint64) {
		t.Helper()
		for _, u := range x.nic.Queues(b.e.Now()) {
			if u.Queue == "completions" && (u.Now != want || u.Came != came) {
				t.Errorf("%+v, want %d of %d", u, want, came)
			}
		}
	}
	for i := range uint64(5) {
		b.post(x, inlineWrite(i, r, 8))
	}
	b.e.RunUntil(units.Millisecond)
	held(5, 5)
	if n := x.nic.PollCQ(b.e.Now(), x.cq, make([]CQE, 2)); n != 2 {
		t.Fatalf("%d polled", n)
	}
	held(3, 5)
	x.nic.DestroyQP(x.qpn)
	held(0, 5)
	if err := x.nic.DestroyCQ(x.cq); err != nil {
		t.Fatal(err)
	}
	held(0, 5)
}
