package fabric_test

import (
	"fmt"

	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

// printer is an endpoint that prints what reaches it.
type printer struct{ net *fabric.Network }

func (e printer) Arrive(_ *fabric.Lane, now units.Time, h fabric.Handle, f *fabric.Frame) {
	fmt.Printf("%v: %v from host %d\n", now, units.Bytes(f.Size), e.net.Packet(h).Src)
	for _, hop := range e.net.INT(h, f).Path() {
		fmt.Printf("  %v: %v queued at %v\n", hop.Time, hop.QLen, hop.Rate)
	}
	e.net.Free(h)
}

func (e printer) Pause(*fabric.Lane, units.Time, uint8) {}

// Two packets meet at a slow trunk.
func Example() {
	edge := fabric.Link{Rate: 100 * units.Gbps, Delay: units.Microsecond}
	trunk := fabric.Link{Rate: 40 * units.Gbps, Delay: 2 * units.Microsecond}
	e := des.New()
	net, err := fabric.New(e, fabric.Dumbbell(2, 1, edge, trunk), fabric.Default(), 1)
	if err != nil {
		fmt.Println(err)
		return
	}
	net.Attach(2, printer{net})
	for host := range 2 {
		h := net.Alloc()
		net.Packet(h).Src = int32(host)
		net.Transmit(0, host, h, &fabric.Frame{Size: 1000, Dst: 2, Telemetry: telemetry.PerHop})
	}
	e.RunUntil(units.Millisecond)

	l, _ := net.Topology().FindLink("tor0->tor1")
	fmt.Println("largest queue:", net.Port(l).Stats().MaxQueue)
	fmt.Println("round trip:", net.BaseRTT(0, 2, 1000, 64))
	// Output:
	// 5.57008us: 1016B from host 0
	//   1.6816us: 0B queued at 40Gbps
	//   4.4872us: 0B queued at 100Gbps
	// 5.77568us: 1016B from host 1
	//   1.8872us: 0B queued at 40Gbps
	//   4.6928us: 0B queued at 100Gbps
	// largest queue: 1KB
	// round trip: 10.79744us
}
