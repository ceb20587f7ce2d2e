package pulser

import (
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/units"
)

func BenchmarkOnAck(b *testing.B) {
	env := cc.Env{LineRate: 200 * units.Gbps, BaseRTT: 6 * units.Microsecond, MTU: 4096}
	e, err := New(DefaultConfig(), env)
	if err != nil {
		b.Fatal(err)
	}
	a := cc.Ack{RTT: 10 * us, Bytes: env.MTU, Packets: 1}
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		a.Acked += env.MTU
		a.Sent = a.Acked + e.Control().Window
		a.ECN, a.EIN = n%64 == 0, n%256 < 8
		e.OnAck(&a)
	}
}
