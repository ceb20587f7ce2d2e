package exchange

import (
	"context"
	"net"
	"sync"
	"time"
)

// greetingTime is the time that a client has for the first bytes of its greeting.
const greetingTime = 10 * time.Second

// AcceptGreeted waits for a client that sends perftest's greeting, until ctx is done,
// and then closes the listener. A client that sends something else, or nothing for 10
// s, does not delay others. AcceptGreeted calls refused for it, from one goroutine at a
// time, unless refused is nil.
func (l *Listener) AcceptGreeted(ctx context.Context, refused func(error)) (*Conn, error) {
	// The first that greets is taken; the others are closed with the context.
	ctx, done := context.WithCancel(ctx)
	var clients sync.WaitGroup
	var mu sync.Mutex // guards taken, and calls of refused
	var taken *Conn
	defer clients.Wait()
	defer done()
	stop := context.AfterFunc(ctx, func() { _ = l.l.Close() })
	defer stop()
	for {
		c, err := l.Accept(context.Background(), 0)
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case taken != nil:
				return taken, nil
			case context.Cause(ctx) != nil:
				err = context.Cause(ctx)
			}
			return nil, err
		}
		clients.Go(func() {
			stop := context.AfterFunc(ctx, func() { _ = c.Close() })
			err := c.peekVersion()
			stop()
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil && taken == nil && ctx.Err() == nil:
				taken = c
				done()
				return
			case err != nil && ctx.Err() == nil && refused != nil:
				refused(err)
			}
			_ = c.Close()
		})
	}
}

// peekVersion looks at the first message, which Greet reads again.
func (c *Conn) peekVersion() error {
	var b [16]byte
	all := c.timeout
	c.timeout = min(all, greetingTime)
	err := c.read("version", b[:])
	if err == nil {
		_, err = c.parseVersion(b[:])
	}
	c.timeout = all
	if tcp, ok := c.c.(*net.TCPConn); ok {
		c.c = &unread{tcp, b[:]}
	}
	return err
}

// unread is a connection whose first bytes will be read again.
type unread struct {
	*net.TCPConn
	first []byte
}

func (u *unread) Read(b []byte) (int, error) {
	if len(u.first) > 0 {
		n := copy(b, u.first)
		u.first = u.first[n:]
		return n, nil
	}
	return u.TCPConn.Read(b)
}
