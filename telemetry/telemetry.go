package telemetry

import "github.com/sluice-rdma/sluice/units"

// MaxHops bounds the hops that a packet's record holds. A three-tier fat tree
// has five switches between two hosts.
const MaxHops = 8

// TofinoHops is how many of them the program in p4/ writes on Tofino 1, whose egress
// parser reads 160 bytes of a packet. It leaves packets with more alone.
const TofinoHops = 6

// Hop is what one egress port reports as it takes a packet off its queue
// (PowerTCP section 3.3: "all values correspond to the time when the packet is
// scheduled for transmission").
type Hop struct {
	TxBytes units.Bytes // sent by the port so far, this packet not counted
	QLen    units.Bytes // left in the port's queue
	Time    units.Time  // on the switch's own clock; only differences mean anything
	Rate    units.Rate  // of the port
}

// Stack is the records of a packet's hops in path order. The zero value is an
// empty stack.
type Stack struct {
	Hops [MaxHops]Hop
	N    uint8
	// Overflow says that hops beyond MaxHops were not recorded.
	Overflow bool
}

// Push appends a hop, or marks the overflow.
func (s *Stack) Push(h Hop) {
	if int(s.N) == MaxHops {
		s.Overflow = true
		return
	}
	s.Hops[s.N] = h
	s.N++
}

// Path returns the recorded hops. The slice shares the stack's memory.
func (s *Stack) Path() []Hop { return s.Hops[:s.N] }

// Kind is which telemetry a packet collects on its way.
type Kind uint8

// Kinds. ECN marks are independent of them.
const (
	None     Kind = iota
	MaxDelay      // the largest queueing delay of any hop
	PerHop        // a Hop for each switch
)

var kindNames = [...]string{"none", "max-delay", "per-hop"}

func (k Kind) String() string { return kindNames[k] }

// MaxDelayBytes is what MaxDelay adds to a packet of the models: CSIG's wide tag between
// the MAC addresses and the EtherType, of one size however many hops there are.
const MaxDelayBytes = 8

// WireBytes returns what k adds to a packet of the models that passed n switches, with
// records of that form.
func (k Kind) WireBytes(form INTForm, n int) units.Bytes {
	switch k {
	case MaxDelay:
		return MaxDelayBytes
	case PerHop:
		return units.Bytes(form.Bytes(min(n, form.MaxHops())))
	}
	return 0
}

// CellBytes is the unit in which switches count their queues: Tofino's cell.
const CellBytes = 80
