package poseidon

import (
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/units"
)

// Both branches in turn; each increase takes a logarithm and an exponential.
func BenchmarkOnAck(b *testing.B) {
	env := cc.Env{LineRate: 200 * units.Gbps, BaseRTT: 6 * units.Microsecond, MTU: 4096}
	e, err := New(DefaultConfig(), env)
	if err != nil {
		b.Fatal(err)
	}
	a := cc.Ack{RTT: 12 * units.Microsecond, Bytes: env.MTU, Packets: 1, HasMaxDelay: true}
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		a.Now += 7 * units.Microsecond
		a.MaxHopDelay = units.Time(n&3) * 4 * units.Microsecond
		e.OnAck(&a)
	}
}
