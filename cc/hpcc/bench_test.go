package hpcc

import (
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

func BenchmarkOnAckFiveHops(b *testing.B) {
	env := cc.Env{LineRate: 100 * units.Gbps, BaseRTT: 20 * units.Microsecond, MTU: 1024}
	e := mustNew(b, DefaultConfig(), env)
	gap := env.LineRate.Serialize(env.MTU)
	var path telemetry.Stack
	for range 5 {
		path.Push(telemetry.Hop{Rate: env.LineRate})
	}
	a := cc.Ack{Bytes: env.MTU, Packets: 1, Path: &path, Scale: 1}
	b.ReportAllocs()
	for b.Loop() {
		a.Now += gap
		a.Acked += env.MTU
		a.Sent = a.Acked + 250_000
		for i := range path.Path() {
			h := &path.Hops[i]
			h.Time += gap
			h.TxBytes += env.MTU
			h.QLen = units.Bytes(a.Acked>>10&7) * env.MTU
		}
		e.OnAck(&a)
	}
}
