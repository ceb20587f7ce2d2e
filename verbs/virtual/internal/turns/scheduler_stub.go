package turns

import (
	"context"
	"errors"
)

type scheduler struct{}

// WatchedQueue is a completion queue that WatchQueue watches.
type WatchedQueue struct{}

// Produce says how many entries the device has written since the queue was made. It is
// called after each write of entries.
func (q *WatchedQueue) Produce(n uint32) {}

// Remove ends the watch: before the call that destroys the queue returns.
func (q *WatchedQueue) Remove() {}

func newScheduler(Config) (*scheduler, error)              { return nil, errors.ErrUnsupported }
func (s *scheduler) run(context.Context, []*Program) error { return errors.ErrUnsupported }
func (s *scheduler) do(f func())                           { f() }
func (s *scheduler) watchQueue(int, Queue) (*WatchedQueue, error) {
	return nil, errors.ErrUnsupported
}
func (s *scheduler) close() error { return nil }
