//go:build linux

package virtual

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"syscall"
	"time"

	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs/virtual/internal/ucma"
)

// simulateCM has the rdma_cm of a device be in simulated time: datagrams on the model's wire, its time, the addresses of
// its network, and numbers that each run draws alike.
func (s *Simulation) simulateCM(c *ucma.Config, d *Device) error {
	b := d.backend.(simulatedBackend)
	mads, err := b.GSI()
	if err != nil {
		return err
	}
	var seed [32]byte
	binary.BigEndian.PutUint64(seed[:], d.nodeGUID())
	c.Devices = []ucma.Device{{Verbs: d.backend, MADs: mads, NodeGUID: d.nodeGUID()}}
	c.NewTimer, c.Rand = s.alarms.timer, rand.NewChaCha8(seed)
	c.Source = func(netip.Addr) netip.Addr { return netip.Addr{} } // the one of the device's that reaches it
	c.Reach = func(_, remote netip.Addr) error {
		if b.PathTo(remote) != nil {
			return syscall.ENETUNREACH
		}
		return nil
	}
	c.Elsewhere = func(netip.Addr) bool { return false }
	return nil
}

// alarms are timers in simulated time.
type alarms struct {
	engine *des.Engine
	src    des.Source
	id     des.NodeID
	last   uint64
	// due has those with an event of the engine's that is to come, by their numbers.
	due map[uint64]*alarm
}

func newAlarms(e *des.Engine) *alarms {
	a := &alarms{engine: e, src: e.NewSource(), due: map[uint64]*alarm{}}
	a.id = e.AddHandler(a)
	return a
}

// alarm is a ucma.Timer. It has one event to come at most, at the time for which it was set or earlier.
type alarm struct {
	of     *alarms
	number uint64
	call   func()
	at     units.Time // units.Never: it is not set
	event  units.Time // units.Never: none is to come
}

func (a *alarms) timer(f func()) ucma.Timer {
	a.last++
	return &alarm{of: a, number: a.last, call: f, at: units.Never, event: units.Never}
}

// Stop implements ucma.Timer.
func (m *alarm) Stop() bool {
	was := m.at != units.Never
	m.at = units.Never
	return was
}

// Reset implements ucma.Timer.
func (m *alarm) Reset(d time.Duration) bool {
	was := m.Stop()
	m.at = m.of.engine.Now() + units.FromDuration(d)
	m.await()
	return was
}

// await has an event come in time.
func (m *alarm) await() {
	if m.at >= m.event {
		return
	}
	m.event = m.at
	m.of.due[m.number] = m
	m.of.engine.Schedule(m.at, &m.of.src, m.of.id, 0, m.number)
}

// Handle implements des.Handler.
func (a *alarms) Handle(ev des.Event) {
	m := a.due[ev.Arg]
	if m == nil || m.event != ev.At {
		return // an earlier one came instead
	}
	m.event = units.Never
	delete(a.due, m.number)
	if m.at <= ev.At {
		m.at = units.Never
		m.call()
		return
	}
	m.await()
}
