package wiretag

import (
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/internal/watcher"
)

// Responder answers the probes that arrive at a network interface, for programs
// without telemetry: with a NIC that does RoCE in hardware, the receiving host needs
// to run nothing else. The kernel answers; the Responder holds the program there until
// it is closed.
type Responder struct{ t *tagger }

// NewResponder attaches a program to a network interface; of cfg the Format counts.
func NewResponder(netdev string, cfg Config) (*Responder, error) {
	if err := cfg.Validate(); err != nil {
		return nil, verbs.Errorf("wiretag", netdev, verbs.ErrInvalid, "%v", err)
	}
	set := defaults
	set.ring, set.flows = 1<<12, 1
	t, err := newTagger(netdev, &cfg, set)
	if err != nil {
		return nil, verbs.Errorf("wiretag", netdev, watcher.Explain(netdev, err), "")
	}
	return &Responder{t}, nil
}

// Attached says where the program is attached: "tcx" or "clsact".
func (r *Responder) Attached() string { return r.t.At.How }

// Stats returns the counters so far; only those of the program are used.
func (r *Responder) Stats() Stats { return programStats(r.t.counts()) }

// Close takes the program off the interface.
func (r *Responder) Close() error { return r.t.Close() }
