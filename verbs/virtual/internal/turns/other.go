//go:build !linux || !amd64

package turns

import (
	"context"
	"errors"

	"github.com/sluice-rdma/sluice/internal/rundir"
)

var errMachine = errors.New("programs run in simulated time on Linux on x86-64 only")

type scheduler struct{ dir rundir.Dir }

// WatchedQueue is a completion queue that WatchQueue watches.
type WatchedQueue struct{}

// Produce says how many entries the device has written since the queue was made.
func (q *WatchedQueue) Produce(uint32) {}

// Remove ends the watch.
func (q *WatchedQueue) Remove() {}

func newScheduler(Config) (*scheduler, error)              { return nil, errMachine }
func (s *scheduler) run(context.Context, []*Program) error { return errMachine }
func (s *scheduler) do(f func())                           { f() }
func (s *scheduler) watchQueue(int, Queue) (*WatchedQueue, error) {
	return nil, errMachine
}
func (s *scheduler) close() error { return nil }
