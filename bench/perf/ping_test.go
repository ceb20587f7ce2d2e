package perf

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

func TestPing(t *testing.T) {
	play := func(size int) (string, string) {
		a, b := model(t, "")
		c := DefaultPingConfig()
		var data strings.Builder
		c.Size, c.Count, c.Validate, c.Data = size, 100, true, &data
		r, err := PingPair(a, b, c)
		if err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if r.Pings != 100 || r.Bytes != size || !(r.MinUs > 0 && r.MinUs <= r.AvgUs && r.AvgUs <= r.MaxUs) {
			t.Errorf("%d bytes: %+v", size, r)
		}
		if err := errors.Join(a.Close(), b.Close()); err != nil {
			t.Error(err)
		}
		j, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return data.String(), string(j)
	}
	for _, size := range []int{26, 64, 4096, maxPingSize} {
		text, result := play(size)
		if again, result2 := play(size); again != text || result2 != result {
			t.Errorf("%d bytes: two games differ:\n%s\n%s", size, result, result2)
		}
		if size == 64 {
			// As rping -v prints it.
			want := "ping data: rdma-ping-0: ABCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqr\n" +
				"ping data: rdma-ping-1: BCDEFGHIJKLMNOPQRSTUVWXYZ[\\]^_`abcdefghijklmnopqrs\n"
			if !strings.HasPrefix(text, want) {
				t.Errorf("%q", text[:200])
			}
		}
	}
}

func TestPingTextGoesRound(t *testing.T) {
	b := make([]byte, 200)
	letter := byte('A')
	for ping := range 58 {
		letter = pingText(b, ping, letter)
		for _, c := range b[len("rdma-ping-99: ") : len(b)-1] {
			if c < 'A' || c > 'z' {
				t.Fatalf("ping %d holds %q", ping, b)
			}
		}
		if b[len(b)-1] != 0 {
			t.Fatalf("ping %d has no NUL at its end", ping)
		}
	}
	if letter != 'A' {
		t.Errorf("after all letters comes %c", letter)
	}
}

// pingers connects two ends without an exchange.
func pingers(t *testing.T, c PingConfig) (client, server *pinger) {
	t.Helper()
	a, b := model(t, "")
	var err error
	if client, err = newPinger(a, c); err != nil {
		t.Fatal(err)
	}
	if server, err = newPinger(b, c); err != nil {
		t.Fatal(err)
	}
	ends := make([]verbs.Endpoint, 2)
	for i, p := range []*pinger{client, server} {
		gid, err := p.dev.GID(1, 0)
		if err != nil {
			t.Fatal(err)
		}
		ends[i] = verbs.Endpoint{GID: gid, QPN: p.QP().Num()}
	}
	for i, p := range []*pinger{client, server} {
		if err := errors.Join(verbs.ConnectRC(p.QP(), ends[i], ends[1-i], verbs.DefaultRC()), p.Ready()); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if err := errors.Join(client.Close(), server.Close()); err != nil {
			t.Error(err)
		}
	})
	return client, server
}

// A client that does not play by the rules ends the game, and nothing else.
func TestServerOfABadClient(t *testing.T) {
	for name, x := range map[string]struct {
		do   func(*pinger) error
		want string
	}{
		"too much":  {func(p *pinger) error { p.cfg.Size = 1 << 20; return p.advertise(pingSource) }, "offers 1048576 bytes"},
		"nothing":   {func(p *pinger) error { p.cfg.Size = 0; return p.advertise(pingSource) }, "offers 0 bytes"},
		"wrong key": {func(p *pinger) error { return p.advertise(pingBuf) }, "remote access error"},
		"short": {func(p *pinger) error {
			_, err := p.qp.PostSend([]verbs.SendWR{{Opcode: ib.WRSend, SGL: []verbs.SGE{verbs.SGEOf(p.mr, 0, 7)}}})
			return err
		}, "in a message of 7"},
		"long": {func(p *pinger) error {
			_, err := p.qp.PostSend([]verbs.SendWR{{Opcode: ib.WRSend, SGL: []verbs.SGE{verbs.SGEOf(p.mr, 0, 100)}}})
			return err
		}, "local length error"},
		"silence": {func(*pinger) error { return nil }, "nothing has happened for 200ms"},
	} {
		t.Run(name, func(t *testing.T) {
			c := DefaultPingConfig()
			c.Stall = 200 * time.Millisecond
			client, server := pingers(t, c)
			var served error
			if err := verbs.Run(client.dev,
				func() error { return x.do(client) },
				func() error { served = server.Serve(); return nil }); err != nil {
				t.Fatal(err)
			}
			if served == nil || !strings.Contains(served.Error(), x.want) {
				t.Errorf("error %v, want %q", served, x.want)
			}
		})
	}
}

// A server that goes away fails its client; one that is told to stop does not
// fail.
func TestPingStops(t *testing.T) {
	gone := false
	c := DefaultPingConfig()
	c.Stop = func() bool { return gone }
	client, server := pingers(t, c)
	pings := 0
	var lost, served error
	err := verbs.Run(client.dev,
		func() error {
			lost = client.score.ended(client.Client())
			pings = client.score.ping
			return nil
		},
		func() error { served = server.Serve(); return nil },
		func() error { verbs.Sleep(client.dev, time.Millisecond); gone = true; return nil },
	)
	if err != nil {
		t.Fatal(err)
	}
	if served != nil {
		t.Errorf("the server says %v", served)
	}
	if pings == 0 || lost == nil || !strings.Contains(lost.Error(), "the server ended the connection after") {
		t.Errorf("after %d pings the client says %v", pings, lost)
	}
}

func TestPingConfig(t *testing.T) {
	a, _ := model(t, "")
	for want, change := range map[string]func(*PingConfig){
		"size is 25: choose 26 to 65535":    func(c *PingConfig) { c.Size = 25 },
		"size is 65536: choose 26 to 65535": func(c *PingConfig) { c.Size = 65536 },
		"mtu is 1500: choose 256":           func(c *PingConfig) { c.MTU = 1500 },
		"count is -1: choose 0 or more":     func(c *PingConfig) { c.Count = -1 },
	} {
		c := DefaultPingConfig()
		change(&c)
		if _, err := newPinger(a, c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if err := a.Close(); err != nil {
		t.Errorf("something was left: %v", err)
	}
}
