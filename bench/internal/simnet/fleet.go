package simnet

import (
	"github.com/sluice-rdma/sluice/bench/internal/reduced"
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/units"
)

// NewFleet puts a reduced NIC at every host. fail is called with what goes wrong later.
func (n *Network) NewFleet(fail func(error)) (*reduced.Fleet, error) {
	latencies, nic := n.Sys.ReducedLatencies(), &n.Sys.NIC
	cfg := reduced.Config{
		MTU: nic.MTU, AckEvery: nic.AckEvery, Priority: uint8(nic.Priority),
		Timeout: uint8(nic.Timeout), RetryCount: uint8(nic.RetryCount), SendDepth: nic.SendDepth, MaxRdAtomic: nic.MaxRdAtomic, Completion: latencies.Completion,
		Classes: n.Sys.Scheme.Classes > 0, Transport: n.Sys.NICConfig().Transport,
	}
	if nic.HostSend == nil {
		cfg.Wire = latencies.Send
	}
	if err := n.beforeWire(&cfg, fail); err != nil {
		return nil, err
	}
	if n.Sys.Scheme.NewReceiver != nil {
		cfg.Receiver = func(_ int, line units.Rate) (cc.Receiver, error) { return n.Sys.NewReceiver(n.Env(line, 0)) }
	}
	return reduced.New(n.Engine, n.Net, cfg)
}

// beforeWire sets what a reduced NIC takes before the wire: what the scenario says, or
// what the preset takes when it is idle. That is measured for payloads of whole cache
// lines as they come, and for none, which is what a request of a READ has.
func (n *Network) beforeWire(cfg *reduced.Config, fail func(error)) error {
	nic := &n.Sys.NIC
	if nic.HostStart != nil {
		cfg.Start = *nic.HostStart
		return nil
	}
	preset := n.Sys.NICConfig()
	var err error
	cfg.TxPackets = preset.PacketsBeforeWire(int(nic.MTU))
	const line = 64
	taken := make([]units.Time, 1+(nic.MTU+line-1)/line)
	measure := func(lines int) (start units.Time, err error) {
		// The port's rate has no part in it: this is before the wire.
		start, taken[lines], err = nicmodel.FirstPacket(&preset, min(lines*line, int(nic.MTU)), nic.MTU, n.Net.LineRate(0))
		return start, err
	}
	if cfg.Start, err = measure(len(taken) - 1); err != nil {
		return err
	}
	cfg.Fetch = func(payload int) units.Time {
		lines := (payload + line - 1) / line
		if taken[lines] == 0 {
			if _, err := measure(lines); err != nil {
				fail(err)
			}
		}
		return taken[lines]
	}
	return nil
}
