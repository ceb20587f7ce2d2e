package perf

import (
	"fmt"
	"strings"

	"github.com/sluice-rdma/sluice/ib"
)

// Verb is the operation that a test measures.
type Verb uint8

// Operations.
const (
	Send Verb = iota
	Write
	Read
	Atomic
)

var verbNames = [...]string{"send", "write", "read", "atomic"}

func (v Verb) String() string { return verbNames[v] }

// Test is what is measured: the name of one of perftest's programs without its
// "ib_".
type Test struct {
	Verb    Verb
	Latency bool
}

// Tests returns all tests.
func Tests() []Test {
	return []Test{
		{Write, false}, {Read, false}, {Send, false}, {Atomic, false},
		{Write, true}, {Read, true}, {Send, true}, {Atomic, true},
	}
}

func (t Test) String() string {
	if t.Latency {
		return t.Verb.String() + "_lat"
	}
	return t.Verb.String() + "_bw"
}

// ParseTest reads the name of a test: write_bw, write-bw or ib_write_bw.
func ParseTest(name string) (Test, error) {
	plain := strings.TrimPrefix(strings.ReplaceAll(name, "-", "_"), "ib_")
	var names []string
	for _, t := range Tests() {
		if t.String() == plain {
			return t, nil
		}
		names = append(names, t.String())
	}
	return Test{}, fmt.Errorf("there is no test %q: take one of %s", name, strings.Join(names, ", "))
}

// title is the heading of its report.
func (t Test) title() string {
	name := [...]string{"Send", "RDMA_Write", "RDMA_Read", "Atomic"}[t.Verb]
	if t.Latency {
		return name + " Latency Test"
	}
	return name + " BW Test"
}

// oneSided reports whether the server has no part in it but its memory.
func (t Test) oneSided() bool {
	return t.Verb == Read || t.Verb == Atomic || t.Verb == Write && !t.Latency
}

// access is what a peer must be allowed to do with this end's memory, and
// through its queue pairs.
func (t Test) access() ib.AccessFlags {
	switch t.Verb {
	case Write:
		return ib.AccessLocalWrite | ib.AccessRemoteWrite
	case Read:
		return ib.AccessLocalWrite | ib.AccessRemoteRead
	case Atomic:
		return ib.AccessLocalWrite | ib.AccessRemoteAtomic
	}
	return ib.AccessLocalWrite
}
