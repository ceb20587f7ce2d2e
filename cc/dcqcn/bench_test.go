package dcqcn

import (
	"testing"

	"github.com/sluice-rdma/sluice/cc"
)

func BenchmarkOnAck(b *testing.B) {
	e := mustNew(b, DefaultConfig())
	a := cc.Ack{RTT: 5 * us}
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		if n++; n%512 == 0 {
			e.OnCNP(a.Now)
		}
		a.Now += us
		a.Sent += 5000
		e.OnAck(&a)
	}
}
