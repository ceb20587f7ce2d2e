package swift

import (
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/units"
)

func BenchmarkOnAck(b *testing.B) {
	env := cc.Env{LineRate: 200 * units.Gbps, BaseRTT: 6 * units.Microsecond, MTU: 4096}
	e := mustNew(b, DefaultConfig(), env)
	a := cc.Ack{Bytes: env.MTU, Packets: 1}
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		a.Now += 7 * units.Microsecond
		a.RTT = 28*units.Microsecond + units.Time(n&3)*4*units.Microsecond
		e.OnAck(&a)
	}
}
