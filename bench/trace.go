package bench

import (
	"io"

	"github.com/sluice-rdma/sluice/bench/internal/nictrace"
)

// NICTrace writes what happens to requests inside NICs, as trace events; its Close ends the file.
type NICTrace = nictrace.Trace

// NICVCD writes what the stages and queues of NICs do, as a value change dump; its Close ends the file.
type NICVCD = nictrace.VCD

// TraceFilter chooses the requests that a NICTrace or a NICVCD shows.
type TraceFilter = nictrace.Filter

// TracedQueuePair is a host whose requests are traced, and one of its queue pairs; 0 means all.
type TracedQueuePair = nictrace.QueuePair

// NewNICTrace begins a trace for Options.NICTrace.
func NewNICTrace(w io.Writer, f TraceFilter) *NICTrace { return nictrace.NewTrace(w, f) }

// NewNICVCD begins a value change dump for Options.NICVCD.
func NewNICVCD(w io.Writer, f TraceFilter) *NICVCD { return nictrace.NewVCD(w, f) }
