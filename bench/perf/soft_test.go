package perf

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/exchange"
	"github.com/sluice-rdma/sluice/verbs/rdmacm"
	_ "github.com/sluice-rdma/sluice/verbs/softroce"
)

// soft opens two devices of the user-space provider on this machine's loopback, with options.
func soft(t *testing.T, options string) (a, b verbs.Device) {
	t.Helper()
	for i, d := range []*verbs.Device{&a, &b} {
		var err error
		if *d, err = verbs.Open(fmt.Sprintf("soft:127.0.0.%d%s", i+2, options)); err != nil {
			t.Skipf("no RoCEv2 over this machine's loopback: %v", err)
		}
		t.Cleanup(func() {
			if err := (*d).Close(); err != nil && !errors.Is(err, verbs.ErrClosed) {
				t.Error(err)
			}
		})
	}
	return a, b
}

// Every test runs over UDP sockets and a TCP exchange, in real time: what is
// checked is that all messages come, not how fast.
func TestSoft(t *testing.T) {
	for _, service := range []ib.QPType{ib.RC, ib.UC, ib.UD} {
		for _, test := range Tests() {
			for name, change := range map[string]func(*Config){
				"plain":         func(*Config) {},
				"bidirectional": func(c *Config) { c.Bidirectional = !test.Latency },
				"events":        func(c *Config) { c.Events = test != Test{Write, true} },
				"queue pairs":   func(c *Config) { c.QPs = 3 },
				"duration":      func(c *Config) { c.Duration, c.Iterations = 40*time.Millisecond, 0 },
			} {
				c := DefaultConfig(test)
				c.Iterations, c.Service, c.Stall = 100, service, 20*time.Second
				if service == ib.UD {
					c.Size = min(c.Size, 1024)
				}
				if change(&c); c.Validate() != nil {
					continue // the service does not have the operation
				}
				t.Run(fmt.Sprintf("%v/%v/%s", service, test, name), func(t *testing.T) {
					a, b := soft(t, "")
					r, err := Pair(a, b, c)
					if err != nil {
						t.Fatal(err)
					}
					row := r.Rows[0]
					if c.Duration > 0 {
						return // on a machine busy elsewhere none may fall into the window
					}
					want := uint64(c.Iterations)
					if !test.Latency {
						want *= uint64(c.QPs)
					}
					if row.Iterations+row.Lost != want {
						t.Errorf("%d messages and %d lost, want %d", row.Iterations, row.Lost, want)
					}
					if service == ib.RC && row.Lost > 0 {
						t.Errorf("%d messages of RC are lost", row.Lost)
					}
					if l := row.Latency; l != nil && !(l.MinUs > 0 && l.MinUs <= l.TypicalUs && l.TypicalUs <= l.MaxUs) {
						t.Errorf("%+v", l)
					}
					if b := row.Bandwidth; b != nil && !(b.ThroughputGbps > 0) {
						t.Errorf("%+v", b)
					}
				})
			}
		}
	}
}

func TestSoftAllSizes(t *testing.T) {
	for _, test := range []Test{{Write, false}, {Send, false}, {Write, true}, {Send, true}} {
		a, b := soft(t, "")
		c := DefaultConfig(test)
		c.All, c.Iterations = true, 5
		r, err := Pair(a, b, c)
		if err != nil {
			t.Fatalf("%v: %v", test, err)
		}
		if len(r.Rows) != 23 {
			t.Errorf("%v: %d rows", test, len(r.Rows))
		}
		if err := errors.Join(a.Close(), b.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// A device can be both ends.
func TestSoftItself(t *testing.T) {
	dev, err := verbs.Open("soft:127.0.0.4")
	if err != nil {
		t.Skipf("no RoCEv2 over this machine's loopback: %v", err)
	}
	c := DefaultConfig(Test{Verb: Write})
	c.Iterations = 100
	if _, err := Pair(dev, dev, c); err != nil {
		t.Error(err)
	}
	if err := dev.Close(); err != nil {
		t.Error(err)
	}
}

func TestSoftPaced(t *testing.T) {
	a, b := soft(t, "")
	p := Pacing{Engine: "timely", Settings: []string{"t_high=50ms"}, BaseRTT: 200_000_000}
	pa, err := p.Wrap(a)
	if err != nil {
		t.Fatal(err)
	}
	c := DefaultConfig(Test{Verb: Write})
	c.Iterations, c.Bidirectional = 200, false
	r, err := Pair(pa, b, c)
	if err != nil {
		t.Fatal(err)
	}
	if err := pa.Close(); err != nil {
		t.Error(err)
	}
	if row := r.Rows[0]; row.Iterations != 200 || !(row.ThroughputGbps > 0) {
		t.Errorf("%+v", row)
	}
}

func TestSoftPing(t *testing.T) {
	a, b := soft(t, "")
	c := DefaultPingConfig()
	c.Count, c.Validate = 50, true
	r, err := PingPair(a, b, c)
	if err != nil || r.Pings != 50 {
		t.Errorf("%+v, %v", r, err)
	}
}

// Over rdma_cm both the queue pairs and the exchange are RDMA's.
func TestSoftCM(t *testing.T) {
	for _, test := range Tests() {
		t.Run(test.String(), func(t *testing.T) {
			a, b := soft(t, "")
			l, err := rdmacm.Listen(b, netip.MustParseAddrPort("0.0.0.0:18515"))
			if err != nil {
				t.Fatal(err)
			}
			c := DefaultConfig(test)
			c.Iterations, c.QPs, c.Stall = 50, 2, 20*time.Second
			var client, server *Result
			err = bothEnds(a,
				func() (err error) {
					client, err = DialCM(t.Context(), a, netip.MustParseAddrPort("127.0.0.3:18515"), c)
					return err
				},
				func() (err error) {
					server, err = AcceptCM(t.Context(), l, b, c)
					return err
				})
			if err := errors.Join(err, l.Close()); err != nil {
				t.Fatal(err)
			}
			if len(client.Rows) != 1 || client.Peer != "127.0.0.3" || server.Peer != "127.0.0.2" {
				t.Errorf("client %+v, server %+v", client, server)
			}
		})
	}
	a, _ := soft(t, "")
	c := DefaultConfig(Test{Verb: Send})
	c.Service = ib.UD
	c.Size = 64
	if _, err := DialCM(t.Context(), a, netip.MustParseAddrPort("127.0.0.3:18515"), c); err == nil {
		t.Error("rdma_cm connects UD")
	}
}

// A client that is killed in the midst of a test leaves no server waiting, whichever the
// test: the server says that the client is gone, and does not wait until it has stalled.
func TestClientGone(t *testing.T) {
	for _, test := range Tests() {
		for _, events := range []bool{false, true} {
			c := DefaultConfig(test)
			c.Events, c.Stall = events, 20*time.Second
			if c.Validate() != nil {
				continue
			}
			t.Run(fmt.Sprintf("%v/events=%v", test, events), func(t *testing.T) {
				a, b := soft(t, "")
				near, far, err := loopback()
				if err != nil {
					t.Fatal(err)
				}
				killed, ended := c, make(chan struct{})
				killed.QPTimeout = 8
				killed.Progress = func(float64, string) { // with few of its messages posted, or none
					_ = near.Close()
					<-ended
				}
				var client sync.WaitGroup
				client.Go(func() { _, _ = Run(a, exchange.New(near, true, 0), killed) })
				_, err = Run(b, exchange.New(far, false, 0), c)
				close(ended)
				client.Wait()
				if !closed(err) || errors.Is(err, verbs.ErrTimeout) {
					t.Errorf("error %v", err)
				}
			})
		}
	}
}

// A message that waits for a retransmission timer shows as the longest time without a
// completion, and beside it what was sent again.
func TestOutageOfLoss(t *testing.T) {
	c := DefaultConfig(Test{Verb: Write})
	c.Iterations, c.Size, c.CQMod, c.TxDepth, c.Outage, c.QPTimeout = 40, 1000, 1, 1, true, 16
	a, b := soft(t, "?loss=5%&seed=1")
	r, err := Pair(a, b, c)
	if err != nil {
		t.Fatal(err)
	}
	row := r.Rows[0]
	const timer = 4.096 * (1 << 16) // us
	if row.Outage == nil || row.Repairs.Timeouts == 0 || row.Outage.LongestUs < timer {
		t.Fatalf("%+v, %+v", row.Outage, row.Repairs)
	}
	var said strings.Builder
	if err := Summary(&said, r); err != nil || !strings.Contains(said.String(), "longest time without a completion: ") || !strings.Contains(said.String(), "timeouts: ") {
		t.Errorf("%v: %s", err, said.String())
	}
}
