package bench

import (
	"fmt"

	"github.com/sluice-rdma/sluice/sim/fabric"
	"github.com/sluice-rdma/sluice/units"
)

// Every run is audited at its end, whatever the scenario. A packet or byte that
// appears or disappears without cause is a fault of the model, and the run fails.

// audit checks that every packet that NICs sent was delivered, dropped, lost, or is
// inside the network, and that no more was received than was delivered.
func (s *simulation) audit() error {
	t := s.net.Totals()
	inside, _ := s.net.InFlight()
	if t.Sent != t.Delivered+t.Dropped+t.Lost+uint64(inside) {
		return fmt.Errorf("conservation: %d packets were sent, but %d delivered, %d dropped, %d lost and %d inside the network", t.Sent, t.Delivered, t.Dropped, t.Lost, inside)
	}
	if err := s.auditNICs(t); err != nil {
		return err
	}
	var dropped, lost uint64
	for i := range s.net.Topology().Links() {
		p := s.net.Port(fabric.LinkID(i)).Stats()
		dropped, lost = dropped+p.Drops, lost+p.Lost
	}
	if dropped != t.Dropped || lost != t.Lost {
		return fmt.Errorf("conservation: ports dropped %d packets and lost %d, the network %d and %d", dropped, lost, t.Dropped, t.Lost)
	}
	return nil
}

// auditNICs checks what NICs sent and received against what the network took and
// delivered. It also checks the bytes of payload: those of staged NICs against one
// another; those of reduced NICs, which count what they placed in memory, against
// what the flows got.
func (s *simulation) auditNICs(t fabric.Totals) error {
	packets := func(sent, received uint64) error {
		if sent != t.Sent || received > t.Delivered {
			return fmt.Errorf("conservation: NICs sent %d packets and received %d, the network took %d and delivered %d", sent, received, t.Sent, t.Delivered)
		}
		return nil
	}
	if s.fleet != nil {
		st := s.fleet.Stats()
		placed := s.fleet.placed
		for _, f := range s.active {
			placed += f.arrived().Payload
		}
		if placed != st.Payload {
			return fmt.Errorf("conservation: NICs placed %d bytes of payload in memory, and flows got %d", int64(st.Payload), int64(placed))
		}
		return packets(st.TxPackets, st.RxPackets)
	}
	var sent, received, stray uint64
	var sentPayload, receivedPayload units.Bytes
	for _, h := range s.hosts {
		st := h.nic.Stats()
		sent, received, stray = sent+st.TxPackets, received+st.RxPackets+st.BufferDrops, stray+st.NoQP+st.BufferDrops
		sentPayload, receivedPayload = sentPayload+st.TxPayload, receivedPayload+st.RxPayload
	}
	inside, _ := s.net.InFlight()
	nothingGone := t.Dropped+t.Lost+stray == 0 && inside == 0 && received == t.Delivered
	if receivedPayload > sentPayload || nothingGone && receivedPayload != sentPayload {
		return fmt.Errorf("conservation: NICs sent %d bytes of payload and received %d, with %d packets dropped, %d lost and %d inside the network", int64(sentPayload), int64(receivedPayload), t.Dropped, t.Lost, inside)
	}
	return packets(sent, received)
}

// audit checks that the bytes placed in memory for a flow are no less than those
// acknowledged to its sender, and no more than those posted. All three are the same
// at the flow's end.
func (f *flow) audit(ended bool) error {
	placed := f.delivered.Payload
	if placed < f.done || placed > f.posted || ended && f.Size > 0 && (placed != f.Size || f.done != f.Size) {
		return fmt.Errorf("conservation: flow %d of %d bytes: %d posted, %d placed in memory, %d acknowledged", f.ID, int64(f.Size), int64(f.posted), int64(placed), int64(f.done))
	}
	return nil
}
