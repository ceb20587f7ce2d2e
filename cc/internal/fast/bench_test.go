package fast

import (
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/units"
)

func BenchmarkOnAck(b *testing.B) {
	e := mustNew(b, DefaultConfig())
	a := cc.Ack{Scale: 1}
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		a.Now += 20 * us
		a.NetRTT = 20*us + units.Time(n&7)*us
		a.RTT = a.NetRTT + us
		e.OnAck(&a)
	}
}
