package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sluice-rdma/sluice/internal/rxeguest"
)

// Exit statuses besides the command's.
const (
	exitTimeout     = 124
	exitFailed      = 125
	exitUnavailable = 126
)

// settings are the command line.
type settings struct {
	server, host, ready string
	dir, root, capture  string
	mtu, memory, cpus   int
	loss                float64
	timeout             time.Duration
	prepare             bool
	command             []string
}

func main() {
	var s settings
	flag.StringVar(&s.server, "server", "", "shell `command` that a second guest runs meanwhile")
	flag.StringVar(&s.host, "host", "", "shell `command` that this machine runs meanwhile, on the guest's network")
	flag.StringVar(&s.ready, "ready", "", "shell `command`, run until it succeeds where the other end runs, before the guest's command starts")
	flag.StringVar(&s.dir, "dir", ".", "`folder` that the guests have at /job, read and write")
	flag.StringVar(&s.root, "root", "", "`folder` that the commands in guests have as their root, read only; / for this machine's")
	flag.StringVar(&s.capture, "capture", "", "write the frames that the guest sends and receives to a pcap `file`")
	flag.IntVar(&s.mtu, "mtu", 4200, "MTU of the Ethernet in `bytes`; rxe0's is the largest of 256 to 4096 that fits less 80")
	flag.IntVar(&s.memory, "memory", 512, "`MiB` of memory of a guest")
	flag.IntVar(&s.cpus, "cpus", 1, "processors of a guest")
	flag.Float64Var(&s.loss, "loss", 0, "`percent` of frames that are lost, each way")
	flag.DurationVar(&s.timeout, "timeout", 10*time.Minute, "the longest that the command may take")
	flag.BoolVar(&s.prepare, "prepare", false, "only fill the cache; prints its folder")
	flag.Usage = func() {
		fmt.Fprintf(flag.CommandLine.Output(), "usage: rxe [flags] command [argument...]\n\nFlags:\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	s.command = flag.Args()
	if err := s.absolute(); err != nil {
		fmt.Fprintf(os.Stderr, "rxe: %v\n", err)
		os.Exit(exitFailed)
	}
	if problem := s.problem(); problem != "" {
		fmt.Fprintf(os.Stderr, "rxe: %s\n", problem)
		flag.Usage()
		os.Exit(exitFailed)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status, err := s.run(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "rxe: %v\n", err)
	}
	os.Exit(status)
}

// absolute makes the folders' names absolute.
func (s *settings) absolute() (err error) {
	if s.dir, err = filepath.Abs(s.dir); err != nil {
		return err
	}
	if s.root != "" {
		s.root, err = filepath.Abs(s.root)
	}
	return err
}

// problem returns the error of the settings, or nothing.
func (s *settings) problem() string {
	switch {
	case len(s.command) == 0 && !s.prepare:
		return "no command to run in the guest"
	case s.server != "" && s.host != "":
		return "the other end is a guest (-server) or this machine (-host), not both"
	case s.ready != "" && s.server == "" && s.host == "":
		return "-ready waits for the other end: name one with -server or -host"
	case s.mtu < 1280 || s.mtu > 9216:
		return fmt.Sprintf("-mtu %d: must be 1280 (what IPv6 needs) to 9216", s.mtu)
	case s.loss < 0 || s.loss > 100:
		return fmt.Sprintf("-loss %g: must be 0 to 100 percent", s.loss)
	case s.memory < 256:
		return fmt.Sprintf("-memory %d: a guest needs 256 MiB", s.memory)
	case s.cpus < 1:
		return fmt.Sprintf("-cpus %d: a guest needs one", s.cpus)
	}
	return ""
}

// run does what the settings say and returns the exit status.
func (s *settings) run(ctx context.Context, stdout io.Writer) (status int, err error) {
	defer func() {
		var unavailable *rxeguest.UnavailableError
		if errors.As(err, &unavailable) {
			status = exitUnavailable
		}
	}()
	image, err := rxeguest.Prepare(ctx, "", func(format string, args ...any) {
		fmt.Fprintf(os.Stderr, "rxe: "+format+"\n", args...)
	})
	if err != nil {
		return exitFailed, err
	}
	if s.prepare {
		fmt.Fprintln(stdout, filepath.Dir(image.Dir()))
		return 0, nil
	}
	h, err := image.NewHost(ctx)
	if err != nil {
		return exitFailed, err
	}
	defer func() { _ = h.Close() }()
	near, far, err := s.boot(ctx, image, h)
	if err != nil {
		return exitFailed, err
	}
	defer func() { _ = near.Close() }()
	if far != nil {
		defer func() { _ = far.Close() }()
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.timeout, fmt.Errorf("not done in %s (-timeout)", s.timeout))
	defer cancel()
	stop, err := s.startOtherEnd(ctx, h, far)
	if err != nil {
		return exitFailed, err
	}
	defer stop()
	p, err := near.Start(s.inGuest(s.command)...)
	if err != nil {
		return exitFailed, err
	}
	follow(ctx, p, stdout)
	result, err := p.Wait(ctx)
	var exit *rxeguest.ExitError
	switch {
	case errors.As(err, &exit), err == nil:
		return result.Status, nil // its output has been shown
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return exitTimeout, context.Cause(ctx)
	}
	return exitFailed, err
}

// boot boots the guest, and a second one for -server.
func (s *settings) boot(ctx context.Context, image *rxeguest.Image, h *rxeguest.Host) (near, far *rxeguest.Guest, err error) {
	addrs := func(n string) []netip.Prefix {
		return []netip.Prefix{netip.MustParsePrefix("192.0.2." + n + "/24"), netip.MustParsePrefix("2001:db8::" + n + "/64")}
	}
	options := func(name string, link rxeguest.Link, addrs []netip.Prefix) rxeguest.Options {
		return rxeguest.Options{
			Name: name, Link: link, Addrs: addrs, Dir: s.dir, Root: s.root, Memory: s.memory, CPUs: s.cpus,
		}
	}
	var a, b rxeguest.Link
	if s.host != "" {
		if a, err = h.NewTap(ctx, "rxe-tap", s.mtu, addrs("1")...); err != nil {
			return nil, nil, err
		}
	} else {
		a, b = h.NewWire(s.mtu)
	}
	var wait sync.WaitGroup
	var nearErr, farErr error
	wait.Go(func() {
		o := options("client", a, addrs("2"))
		o.Loss, o.Capture = s.loss, s.capture
		near, nearErr = image.Boot(ctx, h, o)
	})
	if s.server != "" {
		wait.Go(func() { far, farErr = image.Boot(ctx, h, options("server", b, addrs("1"))) })
	}
	wait.Wait()
	// What booted goes with h.
	if err := errors.Join(nearErr, farErr); err != nil {
		return nil, nil, err
	}
	for _, g := range []*rxeguest.Guest{near, far} {
		if g != nil {
			if err := s.share(ctx, g); err != nil {
				return nil, nil, err
			}
		}
	}
	return near, far, nil
}

// share makes the folder of -dir, which the guest has at /job, appear in the root of
// -root as well, at the place where it is on this machine.
func (s *settings) share(ctx context.Context, g *rxeguest.Guest) error {
	if s.root == "" {
		return nil
	}
	_, err := g.Run(ctx, "sh", "-c", `mkdir -p "$1" && mount -o bind /job "$1"`, "sh", "/host"+s.inRoot())
	return err
}

// inRoot is the path of -dir as seen in -root. A folder outside of it is at /job.
func (s *settings) inRoot() string {
	rel, err := filepath.Rel(s.root, s.dir)
	if err != nil || !filepath.IsLocal(rel) {
		return "/job"
	}
	return filepath.Join("/", rel)
}

// inGuest is the command line that runs a command in the guest's root and folder.
func (s *settings) inGuest(command []string) []string {
	if s.root == "" {
		return append([]string{"sh", "-c", `cd /job && exec "$@"`, "sh"}, command...)
	}
	return append([]string{"chroot", "/host", "/bin/sh", "-c", `cd "$0" && exec "$@"`, s.inRoot()}, command...)
}

// startOtherEnd starts the command of -server or -host and waits for -ready. What
// it wrote is shown, on standard error, by stop.
func (s *settings) startOtherEnd(ctx context.Context, h *rxeguest.Host, far *rxeguest.Guest) (stop func(), err error) {
	switch {
	case far != nil:
		p, err := far.Start(s.inGuest([]string{"sh", "-c", s.server})...)
		if err != nil {
			return nil, err
		}
		stop = func() {
			linger(p.Done())
			_ = p.Signal("KILL") // it may be gone
			showOtherEnd("server", p.Output())
		}
	case s.host != "":
		var output bytes.Buffer
		cmd := h.Command(ctx, "sh", "-c", s.host)
		cmd.Stdout, cmd.Stderr = &output, &output
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		done := make(chan struct{})
		go func() {
			_ = cmd.Wait() // its end and its output are all that matters
			close(done)
		}()
		stop = func() {
			linger(done)
			_ = cmd.Cancel() // it may be gone
			<-done
			showOtherEnd("host", output.String())
		}
	default:
		return func() {}, nil
	}
	if s.ready == "" {
		return stop, nil
	}
	wait := []string{"sh", "-c", "until " + s.ready + "; do sleep 0.1; done >/dev/null 2>&1"}
	if far != nil {
		_, err = far.Run(ctx, s.inGuest(wait)...)
	} else {
		err = h.Command(ctx, wait[0], wait[1:]...).Run()
	}
	if err != nil {
		stop()
		return nil, fmt.Errorf("the other end was not ready: %w", errors.Join(err, context.Cause(ctx)))
	}
	return stop, nil
}

// linger gives the other end, whose client has ended, a moment to end by itself.
func linger(done <-chan struct{}) {
	select {
	case <-done:
	case <-time.After(3 * time.Second):
	}
}

func showOtherEnd(name, output string) {
	for line := range strings.Lines(output) {
		fmt.Fprintf(os.Stderr, "%s: %s\n", name, strings.TrimRight(line, "\n"))
	}
}

// follow copies what a process writes until it ends.
func follow(ctx context.Context, p *rxeguest.Process, w io.Writer) {
	var shown int
	for more := true; more; {
		select {
		case <-p.Done():
			more = false
		case <-ctx.Done():
			more = false
		case <-time.After(100 * time.Millisecond):
		}
		output := p.Output()
		fmt.Fprint(w, output[shown:])
		shown = len(output)
	}
}
