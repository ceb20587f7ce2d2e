package run

import "github.com/sluice-rdma/sluice/units"

// A machine is the memory of one pipeline and what the packet at hand needs. Every
// variable of the program has a fixed place in w, as P4 has no recursion: the
// headers and metadata that live from ingress to egress come first.
type machine struct {
	w      []uint64
	pkt    []byte // the packet that a parser reads
	pos    int    // bits of it that were consumed
	end    int    // bits of it
	out    []byte // what a deparser has emitted
	outPos int    // bits of it
	hbuf   []byte // input of hashes and checksums
	hpos   int    // bits of it

	// Of TNA: what a parser reads, intrinsic header and all; that header's fields; what
	// mirror.emit and resubmit.emit added; and a packet that is about to change places.
	in, mdata, rdata, hold []byte
	scratch                []uint64

	tables  []*tableState
	objects []object
	cur     *entry // whose action runs, for direct meters

	now    units.Time
	length int    // the packet's bytes on the wire, of which pkt may have the headers only
	err    uint64 // parser error
	codes  *errorCodes
	failed bool // a parser has to reject
	exit   bool // an exit statement ran within an expression
	budget int  // parser states and loop turns left for this packet
	rng    prng

	intent
	asserts int
	digests int
	log     func(string)
}

// errorCodes are the numbers of core.p4's errors in a program.
type errorCodes struct {
	tooShort, noMatch, stack, headerTooShort, timeout, argument uint64
	counter                                                     uint64 // of TNA: CounterRange
}

// An object is an extern object's state in one pipeline.
type object any

// An objectDef names an extern object and makes its state.
type objectDef struct {
	name string // of the control plane
	make func() object
}

// An intent is the program's requests to its architecture, by extern calls.
type intent struct {
	clones   []cloneIntent
	resubmit int // list index + 1, 0 none
	recirc   int
	truncate int // bytes, -1 none
}

type cloneIntent struct {
	egress  bool
	session uint16
	list    int // field list's index, -1 none
}

// ctl says how a statement ended.
type ctl uint8

const (
	goOn ctl = iota
	doReturn
	doExit
	doBreak
	doContinue
	doReject
)

type (
	num func(*machine) uint64 // a value of up to 64 bits
	act func(*machine)        // an evaluation for its effect on w
	op  func(*machine) ctl    // a statement
)

// turns bounds the parser states and loop iterations of a packet, so that every program ends.
const turns = 1 << 16

func seq(ops []op) op {
	switch len(ops) {
	case 0:
		return func(*machine) ctl { return goOn }
	case 1:
		return ops[0]
	case 2:
		a, b := ops[0], ops[1]
		return func(m *machine) ctl {
			if r := a(m); r != goOn {
				return r
			}
			return b(m)
		}
	}
	return func(m *machine) ctl {
		for _, o := range ops {
			if r := o(m); r != goOn {
				return r
			}
		}
		return goOn
	}
}

func acts(as []act) act {
	switch len(as) {
	case 0:
		return nil
	case 1:
		return as[0]
	}
	return func(m *machine) {
		for _, a := range as {
			a(m)
		}
	}
}

// fail rejects the packet within a parser; the first error stays.
func (m *machine) fail(e uint64) {
	if !m.failed {
		m.failed, m.err = true, e
	}
}
