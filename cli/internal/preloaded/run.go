//go:build linux

package preloaded

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// forwarded are the signals that go on to the program: others use them to tell it
// something. The terminal and the kernel send their own to each process itself.
var forwarded = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM, syscall.SIGCONT,
}

// fromTerminal are the signals that a terminal sends to all processes in its foreground.
var fromTerminal = []os.Signal{syscall.SIGINT, syscall.SIGQUIT}

// Run runs a program to its end and forwards signals to it meanwhile, SIGTERM when ctx
// ends. Those that were ignored when this process began are the program's to ignore (nohup). If
// this process is killed, so is the program. It returns the exit status as shells have it: 128 and the signal's number if a
// signal ended the program.
func Run(ctx context.Context, cmd *exec.Cmd) (status int, err error) {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, slices.DeleteFunc(slices.Clone(forwarded), signal.Ignored)...)
	defer signal.Stop(signals)
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	runtime.LockOSThread() // the kernel means this thread by the parent that dies
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-signals:
				if !slices.Contains(fromTerminal, s) || !inForeground() {
					_ = cmd.Process.Signal(s) // it may have ended
				}
			case <-ctx.Done():
				_ = cmd.Process.Signal(syscall.SIGTERM)
				ctx = context.Background()
			case <-ended:
				return
			}
		}
	}()
	err = cmd.Wait()
	close(ended)
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return 0, err
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return exit.ExitCode(), nil
}

// inForeground reports whether this process is in the foreground of its terminal, whose
// signals the program then has had, too.
func inForeground() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close() //nolint:errcheck // it was only asked
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
