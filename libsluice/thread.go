//go:build ibverbs

package main

import (
	"log/slog"

	"github.com/sluice-rdma/sluice/verbs/progress"
)

// needThread starts the shim's progress thread, if it has none: for a program
// that asks for it, and for one that may sleep on the descriptor of a channel,
// where nobody calls the shim when a segment is due.
func (s *shim) needThread() {
	if s.stop != nil {
		return
	}
	stop, err := progress.Start(s.s)
	if err != nil {
		slog.Error("no progress thread: segments go on only while the program polls or waits", "device", s.dev.ibv.Name(), "error", err)
		return
	}
	s.stop = stop
}

// endThread ends it, before the shim is closed.
func (s *shim) endThread() error {
	if s.stop == nil {
		return nil
	}
	stop := s.stop
	s.stop = nil
	return stop()
}
