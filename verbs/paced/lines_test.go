package paced_test

import (
	"strconv"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/internal/cacheline"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/paced"
)

// Threads of which each has a CQ of its own write no cache line that another one writes
// or reads.
func TestShardsShareNoCacheLine(t *testing.T) {
	if strconv.IntSize != 64 {
		t.Skipf("sizes are those of 64 bits, and this is %d", strconv.IntSize)
	}
	for _, scheme := range []string{"timely", "swift", "dcqcn"} {
		c := paced.DefaultConfig()
		c.Scheme = scheme
		shim := must(paced.Wrap(&nullDevice{}, c))(t)
		pd := must(shim.AllocPD())(t)
		owner := map[uintptr]int{}
		for thread := range 8 {
			cq := must(shim.CreateCQ(verbs.CQInitAttr{CQE: 64}))(t)
			q := must(pd.CreateQP(verbs.QPInitAttr{Type: ib.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 64, MaxSendSGE: 1}}))(t)
			if err := verbs.ConnectRC(q, verbs.Endpoint{}, verbs.Endpoint{}, verbs.DefaultRC()); err != nil {
				t.Fatal(err)
			}
			for what, m := range q.(*paced.QP).Written() {
				for line := m.From / cacheline.Size; line <= (m.From+m.Size-1)/cacheline.Size; line++ {
					if other, taken := owner[line]; taken && other != thread {
						t.Errorf("%s: the %s of thread %d is in a line of thread %d", scheme, what, thread, other)
					}
					owner[line] = thread
				}
			}
		}
	}
}
