package nicmodel

import (
	"testing"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/nicmodel/internal/config"
	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// counting counts what an engine is given.
type counting struct {
	pacer
	acks, cnps int
	bytes      units.Bytes
	last       units.Time
}

func (c *counting) OnAck(a *cc.Ack) cc.Control {
	c.acks++
	c.bytes += a.Bytes
	c.last = a.Now
	return c.control
}

func (c *counting) OnCNP(units.Time) cc.Control { c.cnps++; return c.control }

// processed runs four connections at the line rate for a millisecond, and returns their
// engines. With marks two of them are another host's, so that the switch has a queue.
func processed(t *testing.T, o config.Offload, marks bool) ([4]*counting, *bed) {
	cfg := preset(t, "cx6dx")
	cfg.Offload = o
	b := newBed(t, 3, 100*units.Gbps, cfg, func(c *fabric.Config) {
		for i := range c.Switch.Classes {
			c.Switch.Classes[i].PFC.Lossless = true
			if marks {
				c.Switch.Classes[i].ECN = fabric.ECN{Kmin: 1, Kmax: 1, Pmax: 1}
			}
		}
	})
	var engines [4]*counting
	for i := range engines {
		engines[i] = &counting{pacer: pacer{control: cc.Control{Rate: 100 * units.Gbps, Window: 64 * units.KiB}}}
		send := plainSend
		send.AckReqEvery = 1
		from := 0
		if marks && i >= 2 {
			from = 2
		}
		x, y := b.connect(from, 1, [2]Congestion{{Engine: engines[i], ECT: true, BaseRTT: 5 * units.Microsecond}, {CNPInterval: units.Microsecond}}, send, 1024)
		b.stream(x, y, 1<<16, 8)
	}
	b.e.RunUntil(units.Millisecond)
	return engines, b
}

// TestProcessors: engines are given no more events than the processors have time for, and
// every byte that was acknowledged, but those of acknowledgements that wait to be merged.
func TestProcessors(t *testing.T) {
	const span = units.Millisecond
	free, b := processed(t, config.Offload{}, false)
	if got := b.nics[0].EngineEvents(); got != (EngineEvents{}) {
		t.Errorf("without processors: %+v", got)
	}
	for _, c := range []struct {
		cfg config.Offload
		all bool // each acknowledgement is an event
	}{
		{config.Offload{Processors: 1, Cost: units.Microsecond, Queue: 8}, false},
		{config.Offload{Processors: 4, Cost: units.Microsecond, Queue: 0}, false},
		{config.Offload{Processors: 16, Cost: units.Microsecond, Queue: 64}, true},
	} {
		engines, b := processed(t, c.cfg, false)
		n := b.nics[0]
		got := n.EngineEvents()
		acks, bytes := 0, units.Bytes(0)
		for _, e := range engines {
			acks, bytes = acks+e.acks, bytes+e.bytes
		}
		most := c.cfg.Processors * int(span/c.cfg.Cost)
		if acks > most || !c.all && acks < most*9/10 {
			t.Errorf("%+v: %d events, and there is time for %d", c.cfg, acks, most)
		}
		if c.all != (got.Merged == 0) || got.Dropped != 0 || got.Handled < uint64(acks) || got.Handled > uint64(acks+c.cfg.Processors+c.cfg.Queue) {
			t.Errorf("%+v: %d events reached engines; %+v", c.cfg, acks, got)
		}
		// What is missing waits in the queue, or for the queue pairs' next acknowledgement.
		acked := units.Bytes(0)
		for _, q := range n.pairs.all {
			acked += q.acked
			bytes += q.merged.bytes
		}
		for i := range n.offload.processors.pending {
			waits := true
			for _, k := range n.offload.processors.idle {
				waits = waits && int(k) != i
			}
			if waits {
				bytes += n.offload.processors.pending[i].ack.Bytes
			}
		}
		if bytes != acked || acked == 0 {
			t.Errorf("%+v: acknowledgements of %d bytes, expected %d", c.cfg, bytes, acked)
		}
		for _, a := range n.Accounts(span) {
			if share := float64(a.Busy) / float64(a.Elapsed); a.Stage == "processors" && !c.all && share < 0.9 {
				t.Errorf("%+v: busy for %.2f of the time", c.cfg, share)
			}
		}
		if most := n.offload.processors.queued.Use("", 0).Most; most > c.cfg.Processors+c.cfg.Queue {
			t.Errorf("%+v: %d events at a time", c.cfg, most)
		}
	}
	acks := 0
	for _, e := range free {
		acks += e.acks
	}
	if acks < 10_000 { // else the cases above do not overload anything
		t.Errorf("only %d acknowledgements", acks)
	}
}

// TestProcessorsDropNotifications: a CNP that finds the queue full is dropped and counted.
func TestProcessorsDropNotifications(t *testing.T) {
	engines, b := processed(t, config.Offload{Processors: 1, Cost: 1930 * units.Nanosecond, Queue: 4}, true)
	cnps, handled := 0, uint64(0)
	for _, e := range engines[:2] {
		cnps += e.cnps
	}
	for _, q := range b.nics[0].pairs.all {
		handled += q.cnpsHandled
	}
	if got := b.nics[0].EngineEvents(); cnps == 0 || got.Dropped == 0 || handled < uint64(cnps)+got.Dropped || handled > uint64(cnps)+got.Dropped+5 {
		t.Errorf("%d CNPs arrived, engines were given %d; %+v", handled, cnps, got)
	}
}

func TestProcessorsDoNotAllocate(t *testing.T) {
	_, b := processed(t, config.Offload{Processors: 2, Cost: units.Microsecond, Queue: 4}, false)
	b.e.RunUntil(20 * units.Millisecond)
	b.allocatesNothing()
}

func TestOffloadIsChecked(t *testing.T) {
	for _, c := range []config.Offload{{Processors: -1}, {Processors: 1}, {Cost: units.Microsecond}, {Queue: 1}, {Processors: 1, Cost: units.Second}} {
		cfg := preset(t, "cx6dx")
		cfg.Offload = c
		if cfg.Validate() == nil {
			t.Errorf("%+v: expected an error", c)
		}
	}
}
