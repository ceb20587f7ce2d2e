package storm

import (
	"fmt"
	"math/rand/v2"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/roce"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs/simverbs"
	"github.com/sluice-rdma/sluice/verbs/softroce"
)

// build makes the network and its devices.
func (r *run) build() error {
	if r.cfg.Provider == "sim" {
		return r.buildSim()
	}
	c := softroce.DefaultWorld()
	c.Seed, c.Wire = r.cfg.Seed, r
	r.observer = newObserver(r)
	c.Sent, c.Delivered, c.Forge, c.Expired = r.sent, r.observer.delivered, r.forge, r.observer.rings
	// Half of the seeds have a window that matters.
	draw := rand.New(rand.NewPCG(c.Seed, 0x817d))
	if draw.IntN(2) == 0 {
		c.Window = 1 + draw.IntN(32)
		r.observer.window = c.Window
	}
	if draw.IntN(2) == 0 {
		c.TrafficClass = roce.ECNECT0
	}
	c.Turnaround = draw.IntN(2) == 0
	r.observer.turnaround = c.Turnaround
	if draw.IntN(4) == 0 { // instants are set back within the span
		c.Start = clockRange - units.Time(draw.Int64N(int64(r.cfg.Span)))
		r.observer.start = c.Start
	}
	if draw.IntN(3) == 0 {
		c.Moderation = units.Time(draw.Int64N(int64(5 * units.Microsecond)))
	}
	w, err := softroce.NewWorld(r.engine, r.cfg.Processes, c)
	if err != nil {
		return err
	}
	r.world = w
	for i := range r.cfg.Processes {
		r.devices = append(r.devices, w.Device(i))
	}
	return nil
}

// clockRange is after how long the devices and the shim set their instants back.
const clockRange units.Time = 1 << 60

// buildSim makes a lossless star: what is lost, the faults have lost.
func (r *run) buildSim() error {
	cfg := fabric.Default()
	for i := range cfg.Switch.Classes {
		cfg.Switch.Classes[i].PFC.Lossless = true
	}
	rate := 25 * units.Gbps
	net, err := fabric.New(r.engine, fabric.Star(r.cfg.Processes, fabric.Link{Rate: rate, Delay: units.Microsecond}), cfg, r.cfg.Seed)
	if err != nil {
		return err
	}
	w := simverbs.NewWorld(r.engine, net)
	w.ForApplications()
	preset, err := nicmodel.Preset("cx6dx")
	if err != nil {
		return err
	}
	timers := rand.New(rand.NewPCG(r.cfg.Seed, 0x71e5))
	if preset.Transport.AdpRetrans.Enabled = timers.IntN(2) == 0; preset.Transport.AdpRetrans.Enabled {
		preset.Transport.AdpRetrans.TimeoutInitLowBound = timers.IntN(3)
	} else if timers.IntN(2) == 0 {
		preset.Transport.RTOHigh = units.Time(500+timers.IntN(1500)) * units.Microsecond
	}
	// Half of the seeds send again only what is missing, with room for few packets or many.
	if draw := rand.New(rand.NewPCG(r.cfg.Seed, 0x5e1e)); draw.IntN(2) == 0 {
		r.unordered = true
		preset.Transport.Loss = nicmodel.SelectiveRepeat
		preset.Transport.Reorder = []int{0, 64, 256}[draw.IntN(3)]
		if timers.IntN(2) == 0 {
			preset.Transport.RTOLow = units.Time(300+timers.IntN(700)) * units.Microsecond
		}
	}
	var carried nicmodel.Congestion // in packets, for the shim's engine
	if scheme, err := cc.Lookup(r.cfg.Shim); err == nil {
		carried.Telemetry = scheme.Telemetry
	}
	r.stamps = timers.IntN(2) == 0
	congestion := func(int) (nicmodel.Congestion, int, error) { return carried, 0, nil }
	frames := nicmodel.NewFrames(net)
	for i := range r.cfg.Processes {
		nic, err := nicmodel.New(r.engine, net, frames, i, rate, preset)
		if err != nil {
			return err
		}
		nic.Impair(r)
		d := w.AddDevice(fmt.Sprintf("sim:storm/%d", i), nic, congestion)
		if r.stamps {
			d.StampSends()
		}
		r.devices = append(r.devices, d)
	}
	return nil
}
