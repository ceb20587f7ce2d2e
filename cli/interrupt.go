package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

// interruption is a signal that broke a command off.
type interruption struct{ signal os.Signal }

func (i interruption) Error() string { return "interrupted" }

// status is the exit status that shells give to what a signal ended: 130 for SIGINT.
func (i interruption) status() int {
	if n, ok := i.signal.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return exitFailed
}

// noteAfter is the time that an interrupted command may take to end before it says so.
const noteAfter = 2 * time.Second

// endings returns the signals that ask the program to end. SIGHUP is none where it was
// ignored at the start: nohup's programs outlive their terminal.
func endings() []os.Signal {
	all := []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}
	return slices.DeleteFunc(all, func(s os.Signal) bool { return s == syscall.SIGHUP && signal.Ignored(s) })
}

// interruptible returns a context that the first of these signals ends, with an
// interruption as its cause. The second one ends the program at once.
func interruptible(parent context.Context) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, endings()...)
	stopped := make(chan struct{})
	go func() {
		defer signal.Stop(signals)
		select {
		case s := <-signals:
			signal.Stop(signals)
			cancel(interruption{s})
			slow := time.NewTimer(noteAfter)
			defer slow.Stop()
			select {
			case <-slow.C:
				fmt.Fprintln(os.Stderr, "sluice: interrupted: what is under way is ended first; a second interrupt ends the program at once")
			case <-stopped:
			}
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel(nil)
		close(stopped)
	}
}

// interrupted returns the interruption that ended ctx, nil if none has.
func interrupted(ctx context.Context) error {
	if i := (interruption{}); errors.As(context.Cause(ctx), &i) {
		return i
	}
	return nil
}

// interruptibleReader ends at an interruption, with that as its error.
type interruptibleReader struct {
	ctx context.Context
	in  io.Reader
}

func (r interruptibleReader) Read(b []byte) (int, error) {
	if err := interrupted(r.ctx); err != nil {
		return 0, err
	}
	return r.in.Read(b)
}
