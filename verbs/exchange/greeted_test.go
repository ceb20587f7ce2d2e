package exchange

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"
)

// A server gets its client, whoever else knocks at its port.
func TestAcceptGreeted(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	l, err := Listen(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := make(chan error, 1)
	type accepted struct {
		c   *Conn
		err error
	}
	got := make(chan accepted, 1)
	go func() {
		c, err := l.AcceptGreeted(ctx, func(err error) { refused <- err })
		got <- accepted{c, err}
	}()
	knock := func(text string) net.Conn {
		t.Helper()
		var d net.Dialer
		c, err := d.DialContext(ctx, "tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		return c
	}
	silent := knock("")
	defer silent.Close()
	defer knock("GET / HTTP/1.1\r\n\r\n").Close()
	if err := <-refused; !errors.Is(err, ErrProtocol) {
		t.Errorf("a web client: %v", err)
	}
	client, err := Dial(ctx, l.Addr().String(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	greeted := make(chan error, 1)
	go func() {
		_, err := client.Greet(DefaultGreeting(1024))
		greeted <- err
	}()
	a := <-got
	if a.err != nil {
		t.Fatal(a.err)
	}
	defer a.c.Close()
	if g, err := a.c.Greet(DefaultGreeting(2048)); err != nil || g.MTU != 1024 {
		t.Errorf("%+v, %v", g, err)
	}
	if err := <-greeted; err != nil {
		t.Error(err)
	}
	if _, err := silent.Read(make([]byte, 1)); err == nil {
		t.Error("who said nothing got an answer")
	}
}

func TestAcceptGreetedEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l, err := Listen(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := l.AcceptGreeted(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
