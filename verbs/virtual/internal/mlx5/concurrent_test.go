package mlx5

import (
	"sync"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// Objects come and go, and change their states, while another goroutine scans and the back
// end fetches receives: for the race detector.
func TestConcurrentCalls(t *testing.T) {
	p := newProgram(t, &instant{}, true)
	fixed := p.newCQ(64, 64)
	s := p.newSRQ(16, 64)
	type set struct {
		q *queue
		x *pair
	}
	var sets []set
	for range 4 { // the program's own memory has one writer at a time
		q := p.newCQ(64, 64)
		sets = append(sets, set{q, p.newQP(pairConfig{typ: ib.RC, blocks: 16, recvs: 16, stride: 64}, q, fixed)})
	}
	stop := make(chan struct{})
	var scanning, calling sync.WaitGroup
	scanning.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				p.e.Scan()
				_ = p.e.Arm()
				p.e.MustPoll()
			}
		}
	})
	for _, c := range sets {
		calling.Go(func() {
			var wrs [4]verbs.RecvWR
			for i := range 200 {
				for _, state := range []ib.QPState{ib.RTS, ib.Err, ib.Reset} {
					if err := c.x.qp.Modify(verbs.QPAttr{State: state}, verbs.AttrState); err != nil {
						t.Error(err)
					}
					c.x.qp.recv.FetchRecv(wrs[:])
				}
				c.x.qp.OnError()
				s.srq.SetLimit(i % 2)
				if err := c.q.cq.Resize(c.q.buffer, 64, 64); err != nil && i == 0 {
					t.Error(err)
				}
			}
			if err := c.x.qp.Close(); err != nil {
				t.Error(err)
			}
			if err := c.q.cq.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	calling.Wait()
	close(stop)
	scanning.Wait()
	if len(p.e.cqs) != 1 || p.e.MustPoll() || len(p.page.qps) != 0 {
		t.Errorf("%d CQs and %d queue pairs are left", len(p.e.cqs), len(p.page.qps))
	}
}
