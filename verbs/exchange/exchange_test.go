package exchange

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

func TestGreetSettles(t *testing.T) {
	a, b := net.Pipe()
	type answer struct {
		g   Greeting
		err error
	}
	answers := make(chan answer)
	go func() {
		g, err := New(a, true, time.Second).Greet(Greeting{"6.10", 65536, 64, 4096})
		answers <- answer{g, err}
	}()
	got, err := New(b, false, time.Second).Greet(Greeting{"6.06", 4096, 128, 512})
	other := <-answers
	if err != nil || other.err != nil {
		t.Fatal(err, other.err)
	}
	if want := (Greeting{"6.10", 65536, 128, 512}); got != want {
		t.Errorf("the server settles on %+v, want %+v", got, want)
	}
	if want := (Greeting{"6.06", 65536, 128, 512}); other.g != want {
		t.Errorf("the client settles on %+v, want %+v", other.g, want)
	}
}

// A server that gets these bytes says what is wrong with them.
func TestMalformed(t *testing.T) {
	version := "6.06" + strings.Repeat("\x00", 12)
	good := version + "\x00\x00\x10\x00" + "\x00\x00\x00\x40" + "3\x00"
	address := "0000:0001:000011:4b6c9e:00000237:000055d8eb4cb000:00:00:00:00:00:00:00:00:00:00:ff:ff:0a:4d:00:03:00000000:\x00"
	for name, c := range map[string]struct {
		bytes string
		cause error
		want  string
	}{
		"http":             {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", ErrProtocol, `"GET / HTTP/1.1\r\n" is no version`},
		"tls":              {"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03abcde", ErrProtocol, "is no version"},
		"old":              {"5.60" + strings.Repeat("\x00", 12), ErrProtocol, "has version 5.60"},
		"no terminator":    {"6.0600000000000000", ErrProtocol, "is no version"},
		"bytes after it":   {"6.06\x00x" + strings.Repeat("\x00", 10), ErrProtocol, "is no version"},
		"control":          {"6.06\x1b[2J" + strings.Repeat("\x00", 8), ErrProtocol, "is no version"},
		"infinite":         {"inf" + strings.Repeat("\x00", 13), ErrProtocol, "is no version"},
		"empty":            {strings.Repeat("\x00", 16), ErrProtocol, "is no version"},
		"huge buffer":      {version + "\x7f\xff\xff\xff", ErrProtocol, "cycle buffer"},
		"negative buffer":  {version + "\xff\xff\xff\xff", ErrProtocol, "-1 bytes are not between 1 and 16777216"},
		"no line":          {version + "\x00\x00\x10\x00\x00\x00\x00\x00", ErrProtocol, "cache line"},
		"MTU code":         {good[:24] + "9\x00", ErrProtocol, "expected a digit from 1 to 5"},
		"MTU text":         {good[:24] + "10", ErrProtocol, "expected a digit from 1 to 5"},
		"closed":           {"6.0", io.ErrUnexpectedEOF, "after 3 of 16 bytes"},
		"nothing":          {"", io.EOF, "after 0 of 16 bytes"},
		"no GID":           {good + "0000:0001:000011:4b6c9e:00000237:000055d8eb4cb000:00000000\x00", ErrProtocol, "gives no GID"},
		"letters":          {good + strings.Replace(address, "4b6c9e", "4b6cxe", 1), ErrProtocol, "expected an address"},
		"a sign":           {good + strings.Replace(address, "4b6c9e", "+b6c9e", 1), ErrProtocol, "expected an address"},
		"no colon":         {good + strings.Replace(address, "0001:", "00010", 1), ErrProtocol, "expected an address"},
		"no NUL":           {good + address[:107] + "x", ErrProtocol, "expected an address"},
		"half an address":  {good + address[:80], io.ErrUnexpectedEOF, "after 21 of 49 bytes"},
		"another protocol": {good + strings.Repeat("A", 108), ErrProtocol, `"AAAA`},
	} {
		t.Run(name, func(t *testing.T) {
			mine, theirs := net.Pipe()
			go func() {
				go io.Copy(io.Discard, theirs)
				io.WriteString(theirs, c.bytes)
				theirs.Close()
			}()
			e := New(mine, false, 5*time.Second)
			defer e.Close()
			_, err := e.Greet(DefaultGreeting(1024))
			if err == nil {
				_, err = e.Swap(Dest{GID: netip.MustParseAddr("10.0.0.1")})
			}
			if err == nil || !errors.Is(err, c.cause) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %v with %q in it", err, c.cause, c.want)
			}
			var op *verbs.OpError
			if !errors.As(err, &op) || op.Op != "exchange" {
				t.Errorf("%T is no verbs.OpError of the exchange", err)
			}
		})
	}
}

// A peer that says nothing, or drips, holds nobody longer than the timeout.
func TestSilence(t *testing.T) {
	for name, peer := range map[string]func(net.Conn){
		"silent": func(net.Conn) {},
		"deaf":   func(c net.Conn) {},
		"drips": func(c net.Conn) {
			for {
				if _, err := c.Write([]byte("6")); err != nil {
					return
				}
				time.Sleep(10 * time.Millisecond) //nolint:forbidigo // in synctest
			}
		},
	} {
		for _, client := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				mine, theirs := net.Pipe()
				var done sync.WaitGroup
				done.Go(func() { peer(theirs) })
				if name != "deaf" {
					go io.Copy(io.Discard, theirs)
				}
				start := time.Now()
				_, err := New(mine, client, 50*time.Millisecond).Greet(DefaultGreeting(1024))
				if !errors.Is(err, verbs.ErrTimeout) || !strings.Contains(err.Error(), "same flags") {
					t.Errorf("%s: error %v, want a timeout that says what to look at", name, err)
				}
				if took := time.Since(start); took != 50*time.Millisecond {
					t.Errorf("%s: it took %v", name, took)
				}
				theirs.Close()
				mine.Close()
				done.Wait()
			})
		}
	}
}

func TestWhatCannotBeTold(t *testing.T) {
	mine, _ := net.Pipe()
	e := New(mine, true, time.Millisecond)
	for name, err := range map[string]error{
		"MTU":     second(e.Greet(Greeting{Version: "6.06", CycleBuffer: 1, CacheLine: 1, MTU: 1000})),
		"version": second(e.Greet(Greeting{Version: "a version of 16 characters", CycleBuffer: 1, CacheLine: 1, MTU: 1024})),
		"QPN":     second(e.Swap(Dest{QPN: 1 << 24, GID: netip.MustParseAddr("::1")})),
		"GID":     second(e.Swap(Dest{})),
	} {
		if !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestListenAndDial(t *testing.T) {
	ctx := context.Background()
	l, err := Listen(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	served := make(chan error, 1)
	go func() {
		c, err := l.Accept(t.Context(), 5*time.Second)
		if err != nil {
			served <- err
			return
		}
		_, err = c.Swap(Dest{QPN: 2, GID: netip.MustParseAddr("fe80::1")})
		served <- errors.Join(err, c.Finish(Dest{GID: netip.MustParseAddr("fe80::1")}))
	}()
	c, err := Dial(ctx, l.Addr().String(), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	d, err := c.Swap(Dest{GID: netip.MustParseAddr("fe80::2")})
	if err != nil || d.QPN != 2 || d.GID != netip.MustParseAddr("fe80::1") {
		t.Errorf("%+v, %v", d, err)
	}
	if err := errors.Join(c.Finish(Dest{GID: netip.MustParseAddr("fe80::2")}), <-served); err != nil {
		t.Error(err)
	}
	if _, err := Dial(ctx, "127.0.0.1:1", time.Second); err == nil {
		t.Error("a port that nobody listens on can be dialled")
	}
}

func TestFamilies(t *testing.T) {
	v4, v6 := Dest{GID: netip.MustParseAddr("10.0.0.1")}, Dest{GID: netip.MustParseAddr("fe80::1")}
	for _, c := range []struct {
		a, b Dest
		ok   bool
	}{{v4, v4, true}, {v6, v6, true}, {v4, v6, false}, {v6, v4, false}, {v6, Dest{GID: netip.IPv6Unspecified()}, false}} {
		if err := CheckFamilies(c.a, c.b); (err == nil) != c.ok {
			t.Errorf("%v with %v: %v", c.a.GID, c.b.GID, err)
		}
	}
}

func genDest(t *rapid.T) Dest {
	var gid [16]byte
	copy(gid[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "gid"))
	return Dest{
		LID: rapid.Uint16().Draw(t, "lid"), OutReads: rapid.Uint16().Draw(t, "reads"),
		QPN: rapid.Uint32Max(0xffffff).Draw(t, "qpn"), PSN: rapid.Uint32Max(0xffffff).Draw(t, "psn"),
		RKey: rapid.Uint32().Draw(t, "rkey"), VAddr: rapid.Uint64().Draw(t, "vaddr"),
		GID: netip.AddrFrom16(gid).Unmap(), SRQN: rapid.Uint32().Draw(t, "srqn"),
	}
}

func TestDestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := genDest(t)
		b, err := d.AppendText(nil)
		if err != nil || len(b) != destSize {
			t.Fatalf("%d bytes, %v", len(b), err)
		}
		got, err := parseDest(b)
		if err != nil || got != d {
			t.Fatalf("%+v became %+v, %v", d, got, err)
		}
	})
}

func TestBinaryDestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := genDest(t)
		b, err := d.AppendBinary(nil)
		if err != nil || len(b) != binaryDestSize {
			t.Fatalf("%d bytes, %v", len(b), err)
		}
		got, err := parseBinaryDest(b)
		if err != nil || got != d {
			t.Fatalf("%+v became %+v, %v", d, got, err)
		}
	})
	for _, b := range [][]byte{nil, make([]byte, 55), make([]byte, 57), bytes.Repeat([]byte{0xff}, 56)} {
		if _, err := parseBinaryDest(b); !errors.Is(err, ErrProtocol) {
			t.Errorf("%x: error %v", b, err)
		}
	}
}

// Over rdma_cm an address is binary, and the end is silent.
func TestMessages(t *testing.T) {
	a, b := net.Pipe()
	d := Dest{OutReads: 1, QPN: 0x11, PSN: 0x4b6c9e, RKey: 0x237, VAddr: 0x55d8eb4cb000, GID: netip.MustParseAddr("10.77.0.3"), SRQN: 7}
	done := make(chan error, 1)
	go func() {
		c := NewMessages(a, true, time.Second)
		_, err := c.Swap(d)
		done <- errors.Join(err, c.Finish(d))
	}()
	// Words of 32 bits, a gap before the 64-bit address, the GID, two words.
	want := "00000000" + "00000001" + "00000011" + "004b6c9e" + "00000237" + "00000000" + "000055d8eb4cb000" +
		"00000000000000000000ffff0a4d0003" + "00000007" + "00000000"
	for range 2 {
		got := make([]byte, 100)
		n, err := b.Read(got)
		if fmt.Sprintf("%x", got[:n]) != want || err != nil {
			t.Fatalf("%x, %v, want %s", got[:n], err, want)
		}
		b.Write(got[:n])
	}
	if n, err := b.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("at the end %d bytes, %v", n, err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestRandomPSN(t *testing.T) {
	seen := map[uint32]bool{}
	for range 100 {
		p := RandomPSN()
		if p > 0xffffff {
			t.Fatalf("%#x has more than 24 bits", p)
		}
		seen[p] = true
	}
	if len(seen) < 90 {
		t.Errorf("100 draws gave %d numbers", len(seen))
	}
}

// Whatever an address message holds, it parses to what it would be written as,
// or not at all.
func FuzzParseDest(f *testing.F) {
	f.Add(make([]byte, binaryDestSize))
	f.Add([]byte("0000:0080:000012:7d18d2:00000309:000055ca96591000:00:00:00:00:00:00:00:00:00:00:ff:ff:0a:4d:00:03:00000000:\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if d, err := parseBinaryDest(b); err == nil {
			if out, err := d.AppendBinary(nil); err != nil || len(out) != len(b) {
				t.Errorf("%x became %x, %v", b, out, err)
			}
		}
		d, err := parseDest(b)
		if err != nil {
			return
		}
		out, err := d.AppendText(nil)
		if err != nil || !strings.EqualFold(string(out), string(b)) {
			t.Errorf("%q became %q, %v", b, out, err)
		}
	})
}

// Whatever a client says, a server comes to an end, with an error or with values
// in their ranges.
func FuzzServer(f *testing.F) {
	for _, all := range recorded(f) {
		var said []byte
		for _, m := range of(all, true) {
			said = append(said, m...)
		}
		f.Add(said)
	}
	f.Add([]byte("6.06"))
	f.Fuzz(func(t *testing.T, said []byte) {
		e := New(&script{said: said}, false, time.Hour)
		g, err := e.Greet(DefaultGreeting(1024))
		if err != nil {
			return
		}
		if !g.MTU.Valid() || g.MTU > 1024 || g.CycleBuffer < 4096 || g.CycleBuffer > maxCycleBuffer || g.CacheLine < 64 || g.CacheLine > maxCacheLine || !printable(g.Version) {
			t.Errorf("settled on %+v", g)
		}
		d, err := e.Swap(Dest{GID: netip.MustParseAddr("10.0.0.1")})
		if err != nil {
			return
		}
		if d.QPN > 0xffffff || d.PSN > 0xffffff || !d.GID.IsValid() {
			t.Errorf("an address of %+v", d)
		}
		if _, err := e.SwapReports(Report{}); err == nil {
			_ = e.Finish(d)
		}
	})
}

// script is a connection to a peer that says a fixed text.
type script struct {
	net.Conn
	said []byte
}

func (s *script) Read(b []byte) (int, error) {
	if len(s.said) == 0 {
		return 0, io.EOF
	}
	n := copy(b, s.said)
	s.said = s.said[n:]
	return n, nil
}
func (s *script) Write(b []byte) (int, error)      { return len(b), nil }
func (s *script) SetReadDeadline(time.Time) error  { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }
func (s *script) RemoteAddr() net.Addr             { return nil }
func (s *script) Close() error                     { return nil }

func ExampleConn_Greet() {
	client, server := net.Pipe()
	go New(client, true, 0).Greet(DefaultGreeting(4096))
	agreed, err := New(server, false, 0).Greet(DefaultGreeting(ib.MTU(1024)))
	fmt.Println(agreed.Version, agreed.MTU, err)
	// Output: 6.06 1024 <nil>
}

// Who leaves first waits for the other, and neither for long.
func TestLeave(t *testing.T) {
	ctx := context.Background()
	l, err := Listen(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	early, err := Dial(ctx, l.Addr().String(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	late, err := l.Accept(t.Context(), time.Second)
	if err != nil {
		t.Fatal(err)
	}
	var lateLeaves, ended time.Time
	done := make(chan error)
	go func() {
		err := early.Leave()
		ended = time.Now()
		done <- err
	}()
	if _, err := late.c.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the end that leaves first: got error %v, want %v", err, io.EOF)
	}
	lateLeaves = time.Now()
	if err := errors.Join(late.Leave(), <-done); err != nil {
		t.Error(err)
	}
	if ended.Before(lateLeaves) {
		t.Error("one end left before the other was done")
	}

	synctest.Test(t, func(t *testing.T) {
		alone, silent := net.Pipe()
		defer silent.Close()
		start := time.Now()
		if err := New(alone, true, 20*time.Millisecond).Leave(); err != nil || time.Since(start) != 20*time.Millisecond {
			t.Errorf("beside a silent end it took %v, %v", time.Since(start), err)
		}
	})
}
