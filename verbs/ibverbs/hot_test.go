//go:build ibverbs

package ibverbs

import (
	"fmt"
	"testing"

	"github.com/sluice-rdma/sluice/verbs"
)

// batch is a list of Writes, the last of which is signaled.
func batch(a, b *end, n int) []verbs.SendWR {
	wrs := make([]verbs.SendWR, n)
	for i := range wrs {
		wrs[i] = write(a, b, 8)
		if i < n-1 {
			wrs[i].Flags = 0
		}
	}
	return wrs
}

func TestPostAndPollDoNotAllocate(t *testing.T) {
	for name, stamps := range map[string]bool{"plain": false, "timestamps": true} {
		a, b := connect(t, open(t, map[string]string{"PROFILE": "connectx"}), stamps)
		wrs, wc := batch(a, b, 16), make([]verbs.WC, 32)
		inline := []verbs.SendWR{write(a, b, 8)}
		inline[0].Flags, inline[0].Inline, inline[0].SGL = verbs.SendInline|verbs.SendSignaled, make([]byte, 16), nil
		recvs := []verbs.RecvWR{{SGL: []verbs.SGE{verbs.SGEOf(b.mr, 0, 8)}}}
		var q verbs.QP = a.qp
		allocs := testing.AllocsPerRun(50, func() {
			for _, list := range [][]verbs.SendWR{wrs, inline} {
				if n, err := q.PostSend(list); n != len(list) {
					t.Fatal(err)
				}
				if n, err := a.cq.Poll(wc); n != 1 || err != nil {
					t.Fatal(n, err)
				}
			}
			if n, err := b.qp.PostRecv(recvs); n != 1 {
				t.Fatal(err)
			}
		})
		if allocs != 0 {
			t.Errorf("%s: %v allocations", name, allocs)
		}
	}
}

// A crossing is a PostSend or a Poll; the device does nothing.
func BenchmarkCrossing(b *testing.B) {
	for _, n := range []int{1, 16} {
		for _, stamps := range []bool{false, true} {
			b.Run(fmt.Sprintf("batch=%d/timestamps=%v", n, stamps), func(b *testing.B) {
				x, y := connect(b, open(b, map[string]string{"PROFILE": "connectx", "DATA": "null", "SINGLE_THREADED": "1"}), stamps)
				wrs, wc := batch(x, y, n), make([]verbs.WC, 16)
				for i := range wrs {
					wrs[i].Flags = verbs.SendSignaled
				}
				for b.Loop() {
					if k, err := x.qp.PostSend(wrs); k != n {
						b.Fatal(err)
					}
					if k, err := x.cq.Poll(wc); k != n {
						b.Fatal(k, err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/2, "ns/crossing")
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/request")
			})
		}
	}
	b.Run("empty poll", func(b *testing.B) {
		x, _ := connect(b, open(b, nil), false)
		wc := make([]verbs.WC, 16)
		for b.Loop() {
			if k, err := x.cq.Poll(wc); k != 0 {
				b.Fatal(k, err)
			}
		}
	})
}
