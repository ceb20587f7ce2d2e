package actors_test

import (
	"context"
	"errors"
	"testing"

	"github.com/sluice-rdma/sluice/sim/des"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs/internal/actors"
)

func never() bool { return false }

// An actor that cancels a context ends the wait of another at that instant.
func TestAnActorEndsAnothersWait(t *testing.T) {
	e := des.New()
	a := actors.New(e)
	ctx, cancel := context.WithCancel(t.Context())
	const at = 7 * units.Microsecond
	err := a.Run(
		func() error {
			err := a.WaitContext(ctx, units.Never, never)
			if e.Now() != at {
				t.Errorf("the wait ended at %v, want %v", e.Now(), at)
			}
			if !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
			return nil
		},
		func() error {
			err := a.Wait(at, nil)
			cancel()
			return errors.Join(err, a.Wait(2*at, nil))
		})
	if err != nil || e.Now() != 2*at {
		t.Errorf("%v, at %v", err, e.Now())
	}
}

// A context ends a wait while the other actors wait outside the simulation, too.
func TestAContextEndsAWaitWhileOthersAreOutside(t *testing.T) {
	e := des.New()
	a := actors.New(e)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	err := a.Run(
		func() error {
			defer close(over)
			go cancel()
			return a.WaitContext(ctx, units.Never, never)
		},
		func() error {
			a.Blocking(func() { <-over })
			return nil
		})
	if !errors.Is(err, context.Canceled) || e.Now() != 0 {
		t.Errorf("%v, at %v", err, e.Now())
	}
}

func TestAWaitThatIsOverBeforeItsContext(t *testing.T) {
	e := des.New()
	a := actors.New(e)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := a.Run(func() error { return a.WaitContext(ctx, units.Microsecond, never) }); err != nil || e.Now() != units.Microsecond {
		t.Errorf("%v, at %v", err, e.Now())
	}
	cancel()
	if err := a.WaitContext(ctx, units.Second, never); !errors.Is(err, context.Canceled) || e.Now() != units.Microsecond {
		t.Errorf("outside Run: %v, at %v", err, e.Now())
	}
}
