package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/internal/sockpeer"
	"github.com/sluice-rdma/sluice/verbs"
)

// Server answers requests. All of its methods may be called at a time.
type Server struct {
	listener *net.UnixListener
	devices  map[string]verbs.Device
	tasks    sync.WaitGroup
	closed   chan struct{}

	mu    sync.Mutex
	ports map[string]*course
}

// course is a port's failure over time.
type course struct {
	stop  chan struct{} // closed by who takes its place
	ended chan struct{}
}

// most is how many connections are served at a time; others wait.
const most = 16

// longestPath is what struct sockaddr_un holds, less the zero at its end.
const longestPath = 107

// Listen makes a socket at path and serves requests of this process's user, and root's, for
// devices, by name, until Close, which removes it. What stands at path is an error, unless it is a socket
// at which nobody listens any more.
func Listen(path string, devices map[string]verbs.Device) (*Server, error) {
	if err := vacate(path); err != nil {
		return nil, err
	}
	if len(path) > longestPath {
		return nil, fmt.Errorf("%s has %d bytes, and a socket's path has no more than %d: choose a shorter one", path, len(path), longestPath)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	// To connect is to write. Between the two lines answer refuses others.
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	s := &Server{listener: l, devices: devices, closed: make(chan struct{}), ports: map[string]*course{}}
	s.tasks.Go(s.serve)
	return s, nil
}

// vacate removes what a process that was killed left at path.
func vacate(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&os.ModeSocket == 0 {
		return fmt.Errorf("%s is there, and is no socket: choose another path", path)
	}
	c, err := net.Dial("unix", path)
	if err == nil {
		return errors.Join(fmt.Errorf("another process listens at %s: choose another path", path), c.Close())
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}

// Close ends the server and the failures' courses: what fails then, fails on.
func (s *Server) Close() error {
	close(s.closed)
	err := s.listener.Close()
	s.tasks.Wait()
	return err
}

func (s *Server) serve() {
	places := make(chan struct{}, most)
	for {
		c, err := s.listener.AcceptUnix()
		if err != nil {
			return // it was closed
		}
		places <- struct{}{}
		s.tasks.Go(func() {
			defer func() { <-places }()
			defer func() { _ = c.Close() }() // all was written
			_ = c.SetDeadline(time.Now().Add(patience))
			var a answer
			if err := s.answer(c); err != nil {
				a.Error = err.Error()
			}
			_ = json.NewEncoder(c).Encode(a) // whoever has gone does not ask any more
		})
	}
}

// answer does what a connection's request asks for.
func (s *Server) answer(c *net.UnixConn) error {
	peer, err := sockpeer.Of(c)
	if err != nil {
		return err
	}
	if own := os.Geteuid(); peer.Uid != 0 && int(peer.Uid) != own {
		return fmt.Errorf("user %d may not have the devices of user %d fail", peer.Uid, own)
	}
	var r Request
	if err := read(c, &r); err != nil {
		return fmt.Errorf("the request: %w", err)
	}
	return s.do(&r)
}

// do has what a request asks for begin.
func (s *Server) do(r *Request) error {
	dev, ok := s.devices[r.Device]
	if !ok {
		return fmt.Errorf("no device %q: there is %s", r.Device, strings.Join(slices.Sorted(maps.Keys(s.devices)), ", "))
	}
	failer, ok := dev.(verbs.Failer)
	if !ok {
		return fmt.Errorf("%s, which is %s, can't be made to fail", r.Device, dev.Name())
	}
	switch {
	case r.Port != nil:
		if err := r.Port.Validate(); err != nil {
			return err
		}
		return s.begin(r.Device, dev, failer, *r.Port)
	case r.Dies:
		failer.Die()
	case r.Completion != nil:
		c, ok := dev.(verbs.CallFailer)
		if !ok {
			return fmt.Errorf("%s, which is %s, has no completions that can be made to fail", r.Device, dev.Name())
		}
		return c.FailCall(verbs.CallFailure{
			Call: verbs.FailCompletion, QP: r.QP, After: r.Completion.After, Status: ib.WCStatus(r.Completion.Status), VendorErr: uint32(r.Completion.VendorErr),
		})
	case !failer.FailQP(r.QP):
		return fmt.Errorf("%s has no queue pair %#x", r.Device, r.QP)
	}
	return nil
}

// begin has a port fail in place of how it did.
func (s *Server) begin(name string, dev verbs.Device, failer verbs.Failer, f Failure) error {
	set := func(f *Failure) error {
		if link, ok := dev.(verbs.LinkFailer); ok {
			if err := link.FailLink(f.link()); err != nil {
				return err
			}
		}
		failer.SetPort(!f.Down)
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if was := s.ports[name]; was != nil {
		close(was.stop)
		<-was.ended
		delete(s.ports, name)
	}
	if err := set(&f); err != nil || f.For == 0 {
		return err
	}
	c := &course{stop: make(chan struct{}), ended: make(chan struct{})}
	s.ports[name] = c
	s.tasks.Go(func() {
		defer close(c.ended)
		for n := 1; s.sleep(c, f.For.Duration()); n++ {
			if set(&Failure{}) != nil || f.Every == 0 || n == f.Times || !s.sleep(c, (f.Every-f.For).Duration()) || set(&f) != nil {
				return
			}
		}
	})
	return nil
}

// sleep reports whether the course goes on after that time.
func (s *Server) sleep(c *course, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-c.stop:
	case <-s.closed:
	}
	return false
}
