package peer_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/exchange"
	"github.com/sluice-rdma/sluice/verbs/peer"
	_ "github.com/sluice-rdma/sluice/verbs/simverbs"
	_ "github.com/sluice-rdma/sluice/verbs/softroce"
)

func open(t *testing.T, name string) verbs.Device {
	t.Helper()
	dev, err := verbs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	// It fails while something that a connection made is left.
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	return dev
}

func listen(t *testing.T) *peer.Listener {
	t.Helper()
	l, err := peer.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// pair connects two ends and runs a function on each; afterwards both are closed.
func pair(t *testing.T, a, b verbs.Device, bufA, bufB []byte, cfg peer.Config, doA, doB func(c *peer.Conn) error) {
	t.Helper()
	l := listen(t)
	run := func(do func(*peer.Conn) error, connect func() (*peer.Conn, error)) func() error {
		return func() error {
			c, err := connect()
			if err != nil {
				return errors.Join(err, l.Close())
			}
			return errors.Join(do(c), c.Close())
		}
	}
	if err := verbs.Run(a,
		run(doA, func() (*peer.Conn, error) { return peer.Dial(t.Context(), a, l.Addr().String(), bufA) }),
		run(doB, func() (*peer.Conn, error) { return cfg.Accept(t.Context(), l, b, bufB) })); err != nil {
		t.Error(err)
	}
}

func eachPair(t *testing.T, do func(t *testing.T, a, b verbs.Device)) {
	for _, names := range [][2]string{{"sim:peer/h0", "sim:peer/h1"}, {"soft:127.0.8.1", "soft:127.0.8.2"}} {
		t.Run(names[0][:4], func(t *testing.T) { do(t, open(t, names[0]), open(t, names[1])) })
	}
}

func TestWriteAndRead(t *testing.T) {
	eachPair(t, func(t *testing.T, a, b verbs.Device) {
		here, there := bytes.Repeat([]byte("here"), 5000), bytes.Repeat([]byte("there"), 5000)
		ctx := t.Context()
		pair(t, a, b, here, there, peer.DefaultConfig(), func(c *peer.Conn) error {
			if c.Remote.Length != 25_000 {
				t.Errorf("the other buffer has %d bytes", c.Remote.Length)
			}
			if err := errors.Join(c.Write(ctx, 4, 100, 4000), c.Read(ctx, 10_000, 100, 4000), c.Read(ctx, 0, 24_996, 4)); err != nil {
				return err
			}
			if !bytes.Equal(here[10_000:14_000], bytes.Repeat([]byte("here"), 1000)) || string(here[:8]) != "herehere" {
				t.Errorf("read back %q and %q", here[10_000:10_010], here[:8])
			}
			for _, r := range [][3]int{{-1, 0, 1}, {0, -1, 1}, {0, 0, -1}, {0, 0, 20_001}, {20_000, 0, 1}, {0, 24_999, 2}, {0, 1 << 62, 1}} {
				if err := c.Write(ctx, r[0], r[1], r[2]); !errors.Is(err, verbs.ErrInvalid) {
					t.Errorf("%v: %v", r, err)
				}
			}
			return nil
		}, func(c *peer.Conn) error {
			if c.Remote.Length != 20_000 {
				t.Errorf("the other buffer has %d bytes", c.Remote.Length)
			}
			if err := c.Wait(ctx); err != nil {
				return err
			}
			want := bytes.Repeat([]byte("there"), 5000)
			copy(want[100:4100], bytes.Repeat([]byte("here"), 1000))
			if !bytes.Equal(c.Buffer, want) {
				t.Error("the buffer is not as it was written")
			}
			return nil
		})
	})
}

// A message finds the receive that Ready posted, however early it comes.
func TestReady(t *testing.T) {
	eachPair(t, func(t *testing.T, a, b verbs.Device) {
		cfg := peer.DefaultConfig()
		cfg.RC.RNRRetry = 0
		cfg.Ready = func(c *peer.Conn) error {
			_, err := c.QP.PostRecv([]verbs.RecvWR{{WRID: 5, SGL: []verbs.SGE{verbs.SGEOf(c.MR, 0, 8)}}})
			return err
		}
		got := make([]byte, 8)
		pair(t, a, b, []byte("message!"), got, cfg, func(c *peer.Conn) error {
			return c.Do(t.Context(), verbs.SendWR{Opcode: ib.WRSend, SGL: []verbs.SGE{verbs.SGEOf(c.MR, 0, 8)}})
		}, func(c *peer.Conn) error {
			if err := c.Wait(t.Context()); err != nil {
				return err
			}
			var wc [1]verbs.WC
			n, err := c.RecvCQ.Poll(wc[:])
			if n != 1 || wc[0].WRID != 5 || wc[0].Status != ib.WCSuccess || string(got) != "message!" {
				t.Errorf("%d completions, %+v, %q", n, wc[0], got)
			}
			return err
		})
	})
}

// What the other end must not do is refused by it.
func TestAccessRefused(t *testing.T) {
	eachPair(t, func(t *testing.T, a, b verbs.Device) {
		cfg := peer.DefaultConfig()
		cfg.RC.Access = ib.AccessRemoteRead
		pair(t, a, b, make([]byte, 8), make([]byte, 8), cfg, func(c *peer.Conn) error {
			if err := c.Read(t.Context(), 0, 0, 8); err != nil {
				t.Error(err)
			}
			if err := c.Write(t.Context(), 0, 0, 8); !errors.Is(err, ib.WCRemAccessErr) && !errors.Is(err, ib.WCRemInvReqErr) {
				t.Errorf("a write of what can only be read: %v", err)
			}
			return nil
		}, func(c *peer.Conn) error { return c.Wait(t.Context()) })
	})
}

// A context ends whatever waits, and nothing is left of it.
func TestContext(t *testing.T) {
	a, b := open(t, "soft:127.0.8.3"), open(t, "soft:127.0.8.4")
	ended := func(what string, wait func(ctx context.Context) error) {
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			go cancel()
			if err := wait(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	l := listen(t)
	ended("accept", func(ctx context.Context) error {
		_, err := l.Accept(ctx, b, make([]byte, 8))
		return err
	})
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ended("dial to an end that says nothing", func(ctx context.Context) error {
		_, err := peer.Dial(ctx, a, silent.Addr().String(), make([]byte, 8))
		return err
	})
	// The listener is as good as before.
	over, waited := make(chan error), make(chan struct{})
	go func() {
		c, err := l.Accept(t.Context(), b, make([]byte, 8))
		if err == nil {
			ended("wait", c.Wait)
			close(waited)
			err = errors.Join(c.Wait(t.Context()), c.Close())
		}
		over <- err
	}()
	c, err := peer.Dial(t.Context(), a, l.Addr().String(), make([]byte, 8))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.Write(ctx, 0, 0, 8); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	// The completion of the request that was given up is not taken for the next one's.
	if err := c.Read(t.Context(), 0, 0, 8); err != nil {
		t.Error(err)
	}
	<-waited
	if err := errors.Join(c.Close(), <-over); err != nil {
		t.Error(err)
	}
}

func TestOtherEnds(t *testing.T) {
	dev := open(t, "soft:127.0.8.5")
	for name, c := range map[string]struct {
		says string
		want error
		text string
	}{
		"not perftest":                {"GET / HTTP/1.1\r\n\r\n", exchange.ErrProtocol, "version"},
		"gone after half of a number": {"6.0", nil, "closed the connection"},
	} {
		t.Run(name, func(t *testing.T) {
			l := listen(t)
			tcp, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tcp.Write([]byte(c.says)); err != nil {
				t.Fatal(err)
			}
			if err := tcp.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			defer tcp.Close()
			_, err = l.Accept(t.Context(), dev, make([]byte, 8))
			if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v", err)
			}
		})
	}
	if _, err := peer.Dial(t.Context(), dev, "127.0.0.1:1", make([]byte, 8)); err == nil {
		t.Error("a port that nobody listens on can be dialled")
	}
	l := listen(t)
	if _, err := peer.Dial(t.Context(), dev, l.Addr().String(), nil); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("an empty buffer: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := l.Accept(t.Context(), dev, make([]byte, 8)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a listener that is closed: %v", err)
	}
}
