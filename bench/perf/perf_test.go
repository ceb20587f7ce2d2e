package perf

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
	"github.com/sluice-rdma/sluice/cc"
	_ "github.com/sluice-rdma/sluice/cc/all"
	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/internal/racedetector"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/exchange"
	"github.com/sluice-rdma/sluice/verbs/simverbs"
)

var networks atomic.Int64

// model opens two hosts of a network that nobody has used: what came before on
// one is part of a run.
func model(t testing.TB, options string) (a, b verbs.Device) {
	t.Helper()
	network := fmt.Sprintf("sim:perf%d", networks.Add(1))
	for i, d := range []*verbs.Device{&a, &b} {
		var err error
		if *d, err = verbs.Open(fmt.Sprintf("%s/h%d%s", network, i, options)); err != nil {
			t.Fatal(err)
		}
	}
	return a, b
}

// notUnderRace skips a test of many runs on the model, whose ends take turns: TestBandwidthOnTheModel,
// TestUnreliableOnTheModel and TestLatencyOnTheModel have them under the race detector.
func notUnderRace(t *testing.T) {
	t.Helper()
	if racedetector.On {
		t.Skip("long, and both ends take turns: nothing more for the race detector")
	}
}

// run runs both ends on the model, and checks that they leave nothing behind.
func run(t testing.TB, c Config, p Pacing) *Result {
	t.Helper()
	options := ""
	if scheme, err := cc.Lookup(p.Engine); err == nil {
		options = "?telemetry=" + scheme.Telemetry.String()
	}
	a, b := model(t, options)
	for _, d := range []*verbs.Device{&a, &b} {
		var err error
		if *d, err = p.Wrap(*d); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Pair(a, b, c)
	if err != nil {
		t.Fatalf("%v: %v", c.Test, err)
	}
	if err := errors.Join(a.Close(), b.Close()); err != nil {
		t.Errorf("%v: %v", c.Test, err)
	}
	return r
}

func between(t *testing.T, what string, f stats.Float, low, high float64) {
	t.Helper()
	if !(float64(f) >= low && float64(f) <= high) {
		t.Errorf("%s is %v, not between %v and %v", what, f, low, high)
	}
}

// On a link of 100 Gbit/s with 4096 bytes of payload a packet, payload can be
// 4096/4178 of the rate: 98.03 Gbit/s (headers 58, preamble and gap 20, FCS 4).
const most = 98.04

func TestBandwidthOnTheModel(t *testing.T) {
	for _, test := range Tests() {
		if test.Latency {
			continue
		}
		for _, bidirectional := range []bool{false, true} {
			c := DefaultConfig(test)
			c.Iterations, c.Bidirectional = 1000, bidirectional
			r := run(t, c, Pacing{})
			name := fmt.Sprintf("%v, bidirectional %v", test, bidirectional)
			if len(r.Rows) != 1 || r.Rows[0].Bytes != c.Size || r.Rows[0].Iterations != 1000 {
				t.Fatalf("%s: rows %+v", name, r.Rows)
			}
			ways, row := 1.0, r.Rows[0]
			if bidirectional {
				ways = 2
				if d := float64(row.ThroughputGbps - row.Local.ThroughputGbps - row.Remote.ThroughputGbps); math.Abs(d) > 1e-6 {
					t.Errorf("%s: local and remote do not add up: %v apart", name, d)
				}
			}
			if test.Verb == Atomic {
				between(t, name, row.MessageRateMpps, 3*ways, 20*ways)
			} else {
				between(t, name, row.ThroughputGbps, 97*ways, most*ways)
			}
			between(t, name+": peak less average", row.PeakGbps-row.ThroughputGbps, -1e-9, 2)
			if d := float64(row.ThroughputGbps) - float64(row.MessageRateMpps)*float64(c.Size)*8/1000; math.Abs(d) > 1e-9 {
				t.Errorf("%s: %v Gbit/s are not %v million messages", name, row.ThroughputGbps, row.MessageRateMpps)
			}
		}
	}
}

// Unreliable connections and datagrams over the model lose nothing on its lossless
// network, as long as receives are there.
func TestUnreliableOnTheModel(t *testing.T) {
	for _, service := range []ib.QPType{ib.UC, ib.UD} {
		for _, test := range Tests() {
			for name, change := range map[string]func(*Config){
				"plain":         func(*Config) {},
				"bidirectional": func(c *Config) { c.Bidirectional = !test.Latency },
				"queue pairs":   func(c *Config) { c.QPs = 3 },
				"events":        func(c *Config) { c.Events = test != Test{Write, true} },
			} {
				c := DefaultConfig(test)
				c.Iterations, c.Service = 400, service
				if service == ib.UD {
					c.Size = min(c.Size, 4096)
				}
				if change(&c); c.Validate() != nil {
					continue // the service does not have the operation
				}
				r := run(t, c, Pacing{})
				what := fmt.Sprintf("%v %v, %s", service, test, name)
				row := r.Rows[0]
				if row.Lost != 0 {
					t.Errorf("%s: %d messages are lost", what, row.Lost)
				}
				if test.Latency {
					between(t, what, row.TypicalUs, 1.6, 4)
				} else {
					ways := 1.0
					if c.Bidirectional {
						ways = 2
					}
					between(t, what, row.ThroughputGbps, 94*ways, most*ways)
				}
			}
		}
	}
}

// One way on the model of the network takes 2 x 500 ns of cable and 600 ns of
// switch, and some more in the NICs.
func TestLatencyOnTheModel(t *testing.T) {
	for _, test := range Tests() {
		if !test.Latency {
			continue
		}
		c := DefaultConfig(test)
		c.Iterations = 200
		row := run(t, c, Pacing{}).Rows[0]
		if row.Iterations != 200 || row.Bandwidth != nil {
			t.Errorf("%v: %+v", test, row)
		}
		low, high := 1.6, 4.0
		if test.oneSided() {
			low, high = 3.2, 8
		}
		l := row.Latency
		between(t, test.String(), l.TypicalUs, low, high)
		if !(l.MinUs <= l.TypicalUs && l.TypicalUs <= l.P99Us && l.P99Us <= l.P999Us && l.P999Us <= l.MaxUs && l.MinUs <= l.AvgUs && l.AvgUs <= l.MaxUs) {
			t.Errorf("%v is out of order: %+v", test, l)
		}
		if test.Verb == Atomic {
			continue
		}
		c.Size = 65536
		between(t, test.String()+" of 64 KiB", run(t, c, Pacing{}).Rows[0].TypicalUs-l.TypicalUs, 65536*8/100e3, 8)
	}
}

// The same call gives the same figures, to the last digit.
func TestRerunsAreAlike(t *testing.T) {
	notUnderRace(t)
	for _, test := range Tests() {
		for name, change := range map[string]func(*Config){
			"plain":         func(*Config) {},
			"queue pairs":   func(c *Config) { c.QPs = 3 },
			"bidirectional": func(c *Config) { c.Bidirectional = !test.Latency },
			"duration":      func(c *Config) { c.Duration = 300 * time.Microsecond },
			"events":        func(c *Config) { c.Events = test != Test{Write, true} },
		} {
			c := DefaultConfig(test)
			c.Iterations = 100
			change(&c)
			p := Pacing{Engine: "timely"}
			first, err := json.Marshal(run(t, c, p).Rows)
			if err != nil {
				t.Fatal(err)
			}
			second, err := json.Marshal(run(t, c, p).Rows)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(first), string(second)); diff != "" {
				t.Errorf("%v, %s: %s", test, name, diff)
			}
		}
	}
}

func TestAllSizes(t *testing.T) {
	notUnderRace(t)
	for _, test := range Tests() {
		c := DefaultConfig(test)
		c.All, c.Iterations, c.MTU = true, 5, 4096
		rows := 0
		c.Row = func(*Row) { rows++ }
		r := run(t, c, Pacing{})
		want := 23
		if test.Verb == Atomic {
			want = 1
		}
		if len(r.Rows) != want || rows != want {
			t.Errorf("%v: %d rows, %d shown, want %d", test, len(r.Rows), rows, want)
		}
		for i, row := range r.Rows {
			if test.Verb != Atomic && row.Bytes != 2<<i || row.Iterations != 5 {
				t.Errorf("%v: row %d is %+v", test, i, row)
			}
		}
	}
}

func TestWaysToPost(t *testing.T) {
	notUnderRace(t)
	for name, change := range map[string]func(*Config){
		"post list":              func(c *Config) { c.PostList = 10 },
		"post list, every fifth": func(c *Config) { c.PostList, c.CQMod = 10, 5 },
		"every hundredth":        func(c *Config) { c.CQMod = 100 },
		"more than the depth":    func(c *Config) { c.CQMod, c.TxDepth = 1000, 7 },
		"one at a time":          func(c *Config) { c.TxDepth = 1 },
		"64 queue pairs":         func(c *Config) { c.QPs = 64 },
		"few receives":           func(c *Config) { c.RxDepth = 3 },
		"inline":                 func(c *Config) { c.Size, c.Inline = 100, 100 },
		"small":                  func(c *Config) { c.Size = 1 },
		"odd":                    func(c *Config) { c.Size = 2049 },
		"MTU":                    func(c *Config) { c.MTU = 256 },
		"no peak":                func(c *Config) { c.NoPeak = true },
		"one read":               func(c *Config) { c.OutReads = 1 },
		"class":                  func(c *Config) { c.SL, c.TClass = 3, 96 },
	} {
		for _, verb := range []Verb{Write, Read, Send} {
			if verb == Read && name == "inline" {
				continue
			}
			c := DefaultConfig(Test{Verb: verb})
			c.Iterations = 200
			change(&c)
			r := run(t, c, Pacing{})
			row := r.Rows[0]
			if row.Iterations != 200*uint64(c.QPs) || !(row.ThroughputGbps > 0) {
				t.Errorf("%v, %s: %+v", c.Test, name, row)
			}
			if got := row.PeakGbps.Measured(); got == c.NoPeak {
				t.Errorf("%v, %s: peak %v", c.Test, name, row.PeakGbps)
			}
			if c.MTU > 0 && r.MTU != int(c.MTU) {
				t.Errorf("%v, %s: the MTU is %d", c.Test, name, r.MTU)
			}
		}
	}
}

func TestDuration(t *testing.T) {
	notUnderRace(t)
	for _, test := range Tests() {
		for _, bidirectional := range []bool{false, !test.Latency} {
			c := DefaultConfig(test)
			c.Duration, c.Margin, c.Bidirectional = 2*time.Millisecond, 200*time.Microsecond, bidirectional
			row := run(t, c, Pacing{}).Rows[0]
			switch {
			case test.Latency:
				// Samples of a ping-pong cover two ways each.
				ways := 2.0
				if test.oneSided() {
					ways = 1
				}
				between(t, test.String()+": time sampled", stats.Float(row.Iterations)*row.AvgUs*stats.Float(ways), 1500, 1600)
			case test.Verb != Atomic:
				between(t, test.String(), oneWay(row).ThroughputGbps, 97, most*1.01)
				between(t, test.String()+": messages", stats.Float(row.Iterations), 280, 310) // 1.6 ms at 98 Gbit/s are 299
			}
		}
	}
}

// oneWay is what this end sent.
func oneWay(r *Row) *Bandwidth {
	if r.Local != nil {
		return r.Local
	}
	return r.Bandwidth
}

// A fixed rate holds, whatever the size of a message.
func TestFixedRate(t *testing.T) {
	notUnderRace(t)
	for _, rate := range []units.Rate{100 * units.Mbps, units.Gbps, 40 * units.Gbps} {
		for _, size := range []int{4096, 65536} {
			c := DefaultConfig(Test{Verb: Write})
			// The last message ends no gap, so a thousand are a thousandth too fast.
			c.Size, c.Iterations, c.Events = size, 1000, true
			p := Pacing{Rate: rate}
			r := run(t, c, p)
			between(t, fmt.Sprintf("%d bytes at %v", size, rate), r.Rows[0].ThroughputGbps, 0.99*rate.Gbps(), 1.01*rate.Gbps())
		}
	}
}

func TestEngines(t *testing.T) {
	notUnderRace(t)
	for _, engine := range []string{"none", "timely", "powertcp", "theta-powertcp", "poseidon"} {
		c := DefaultConfig(Test{Verb: Write})
		c.Iterations, c.QPs = 300, 2
		row := run(t, c, Pacing{Engine: engine}).Rows[0]
		between(t, engine, row.ThroughputGbps, 50, most)
	}
	a, _ := model(t, "")
	for want, p := range map[string]Pacing{
		`no rate engine is called "warp"`:          {Engine: "warp"},
		`choose one`:                               {Engine: "timely", Rate: units.Gbps},
		`there is no such key. The keys are t_low`: {Engine: "timely", Settings: []string{"foo=1"}},
		`write it as KEY=VALUE`:                    {Engine: "timely", Settings: []string{"t_low"}},
		`time "10": unit missing`:                  {Engine: "timely", Settings: []string{"t_low=10"}},
		`is for no engine`:                         {Settings: []string{"t_low=10us"}},
		`it must be positive`:                      {Rate: -1},
		`paced: segment is 1B: choose 4KiB to 64`:  {Engine: "timely", Segment: 1},
	} {
		if _, err := p.Wrap(a); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want %q", p, err, want)
		}
	}
	if dev, err := (Pacing{}).Wrap(a); err != nil || dev != a {
		t.Errorf("nothing paces by %v, %v", dev, err)
	}
}

// logged notes what passes over a link: how many bytes in which direction.
type logged struct {
	*link
	client bool
	log    *[]string
}

func (l *logged) Write(b []byte) (int, error) {
	who := "server"
	if l.client {
		who = "client"
	}
	*l.log = append(*l.log, fmt.Sprintf("%s %d", who, len(b)))
	return l.link.Write(b)
}

// The two ends of each test say what perftest's say, in the same order: as many
// messages, of the same lengths.
func TestConversationIsPerftests(t *testing.T) {
	f, err := os.Open("../../verbs/exchange/testdata/perftest-4.5.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	recorded, program := map[string][]string{}, ""
	for lines := bufio.NewScanner(f); lines.Scan(); {
		who, text, ok := strings.Cut(lines.Text(), " ")
		switch s, err := strconv.Unquote(text); {
		case ok && err == nil:
			recorded[program] = append(recorded[program], fmt.Sprintf("%s %d", who, len(s)))
		case who != "" && who != "#":
			program = who
		}
	}
	for name, want := range recorded {
		test, err := ParseTest(strings.TrimSuffix(name, "_ud"))
		if err != nil {
			t.Fatal(err)
		}
		c := DefaultConfig(test)
		c.Iterations = 20
		a, b := model(t, "")
		var log []string
		x, y := newLink(a, b)
		err = bothEnds(a,
			func() error {
				_, err := Run(a, exchange.New(&logged{x.(*link), true, &log}, true, 0), c)
				return err
			},
			func() error {
				_, err := Run(b, exchange.New(&logged{y.(*link), false, &log}, false, 0), c)
				return err
			})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		// Which "done" comes first is up to the network.
		for _, l := range [][]string{log, want} {
			if n := len(l); n > 2 && strings.HasSuffix(l[n-1], " 5") {
				slices.Sort(l[n-2:])
			}
		}
		if diff := cmp.Diff(want, log); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// The server of a one-way test returns what the client told it.
func TestServerReturnsTheClientsReport(t *testing.T) {
	for _, mib := range []bool{false, true} {
		a, b := model(t, "")
		x, y := newLink(a, b)
		c := DefaultConfig(Test{Verb: Write})
		c.Iterations, c.MiBytes = 100, mib
		var client, server *Result
		err := bothEnds(a,
			func() (err error) { client, err = Run(a, exchange.New(x, true, 0), c); return err },
			func() (err error) { server, err = Run(b, exchange.New(y, false, 0), c); return err })
		if err != nil {
			t.Fatal(err)
		}
		if client.Role != "client" || server.Role != "server" || client.Peer != server.GID || server.Peer != client.GID {
			t.Errorf("client %+v, server %+v", client, server)
		}
		got, want := server.Rows[0], client.Rows[0]
		if got.Bytes != want.Bytes || got.Iterations != want.Iterations {
			t.Errorf("%+v, want %+v", got, want)
		}
		between(t, "average", got.ThroughputGbps/want.ThroughputGbps, 1-1e-9, 1+1e-9)
		between(t, "peak", got.PeakGbps/want.PeakGbps, 1-1e-9, 1+1e-9)
	}
}

// What perftest's servers have in their memory is no report.
func TestReportsOfServersAreNotTrusted(t *testing.T) {
	for _, r := range []exchange.Report{
		{},
		{Size: 0x7ffed5f030a4, Iterations: 0x7fcbf320311a, Average: math.Float64frombits(0x7ffed5f95300), MessageRate: math.Float64frombits(0x7ffed5f030a4)},
		{Size: 8, MessageRate: math.NaN(), Average: math.Inf(1)},
		{Size: 1 << 60, MessageRate: 1, Average: 1, Peak: 1},
		{Size: 8, MessageRate: 1e300},
	} {
		b := reported(r)
		if b.ThroughputGbps > 1e-9 || b.PeakGbps.Measured() {
			t.Errorf("%+v is taken for %+v", r, b)
		}
	}
}

// Ends that do not agree fail, with a hint, and both come to an end.
func TestEndsThatDisagree(t *testing.T) {
	for name, x := range map[string]struct {
		client, server Test
		change         func(*Config) // the client's
		want           string
	}{
		"sizes":       {Test{Write, false}, Test{Write, false}, func(c *Config) { c.Size = 1 << 20 }, "remote access error"},
		"receives":    {Test{Send, false}, Test{Send, false}, func(c *Config) { c.Size = 1 << 20 }, "do both ends run the same test"},
		"operations":  {Test{Write, false}, Test{Read, false}, func(*Config) {}, "remote invalid request error"},
		"iterations":  {Test{Send, true}, Test{Send, true}, func(c *Config) { c.Iterations = 5 }, ""},
		"queue pairs": {Test{Write, false}, Test{Write, false}, func(c *Config) { c.QPs = 2 }, ""},
		"kinds":       {Test{Write, true}, Test{Write, false}, func(*Config) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := model(t, "")
			l, r := newLink(a, b)
			cc, sc := DefaultConfig(x.client), DefaultConfig(x.server)
			cc.Iterations, sc.Iterations = 100, 100
			cc.Stall, sc.Stall = 5*time.Millisecond, 5*time.Millisecond
			cc.Patience, sc.Patience = time.Second, time.Second
			x.change(&cc)
			err := bothEnds(a,
				func() error {
					_, err := Run(a, exchange.New(l, true, time.Second), cc)
					return err
				},
				func() error {
					_, err := Run(b, exchange.New(r, false, time.Second), sc)
					return err
				})
			if err == nil || !strings.Contains(err.Error(), x.want) {
				t.Errorf("error %v, want %q", err, x.want)
			}
			if err := errors.Join(a.Close(), b.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestTheOtherEndGoesAway(t *testing.T) {
	a, b := model(t, "")
	x, y := newLink(a, b)
	err := verbs.Run(a,
		func() error {
			_, err := Run(a, exchange.New(x, true, 0), DefaultConfig(Test{Verb: Read}))
			if !closed(err) {
				return fmt.Errorf("the client says %w", err)
			}
			return nil
		},
		func() error { return y.Close() })
	if err != nil {
		t.Error(err)
	}
}

func TestValidate(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"a message of 0 bytes":                             func(c *Config) { c.Size = 0 },
		"size is 2147483648: choose 0 to 1073741824":       func(c *Config) { c.Size = 1 << 31 },
		"an atomic has 8 bytes":                            func(c *Config) { c.Test, c.Size = Test{Verb: Atomic}, 16 },
		"iters is 4: choose 5 to 100000000":                func(c *Config) { c.Iterations = 4 },
		"above twice the margin":                           func(c *Config) { c.Duration, c.Margin = 4, 2 },
		"a duration and all sizes":                         func(c *Config) { c.Duration, c.All = 1, true },
		"qp is 0: choose 1 to 16384":                       func(c *Config) { c.QPs = 0 },
		"choose RC, UC or UD":                              func(c *Config) { c.Service = 9 },
		"writes need RC or UC":                             func(c *Config) { c.Service = ib.UD },
		"a datagram of 65536 bytes":                        func(c *Config) { c.Test, c.Service = Test{Verb: Send}, ib.UD },
		"reads need RC":                                    func(c *Config) { c.Test, c.Service = Test{Verb: Read}, ib.UC },
		"mtu is 1500: choose 256, 512, 1024, 2048 or 4096": func(c *Config) { c.MTU = 1500 },
		"ib-port is 0: choose 1 to 255":                    func(c *Config) { c.Port = 0 },
		"gid-index is -2: choose 0 to 1023, or -1 for the address of the route": func(c *Config) { c.GID = -2 },
		"sl is 8: choose 0 to 7":                                        func(c *Config) { c.SL = 8 },
		"tx-depth is 0: choose 1 to 15000":                              func(c *Config) { c.TxDepth = 0 },
		"rx-depth is 0: choose 1 to 16384":                              func(c *Config) { c.RxDepth = 0 },
		"tx-depth is 128: choose at least post-list, 129":               func(c *Config) { c.PostList = 129 },
		"only bandwidth tests have it":                                  func(c *Config) { c.Test, c.PostList = Test{Write, true}, 2 },
		"give a multiple of it":                                         func(c *Config) { c.PostList = 3 },
		"a completion of every 3":                                       func(c *Config) { c.PostList, c.CQMod = 10, 3 },
		"cq-mod is 2000: choose 1 to 1024, or 0 for 100, above 8 KiB 1": func(c *Config) { c.CQMod = 2000 },
		"inline-size is -2: choose 0 to 4096, or -1 for perftest's":     func(c *Config) { c.Inline = -2 },
		"outs is 256: choose 1 to 255, or 0 for what the device can":    func(c *Config) { c.OutReads = 256 },
		"only bandwidth tests are":                                      func(c *Config) { c.Test, c.Bidirectional = Test{Read, true}, true },
		"the other end's writes give none":                              func(c *Config) { c.Test, c.Events = Test{Write, true}, true },
		"events with a duration":                                        func(c *Config) { c.Events, c.Duration = true, time.Second },
		"qp-timeout is 32: choose 0 to 31":                              func(c *Config) { c.QPTimeout = 32 },
		"Stall is -1ns: choose 0s or more":                              func(c *Config) { c.Stall = -1 },
		"timeout is -1s: choose 0s or more":                             func(c *Config) { c.Patience = -time.Second },
		"duration is -1ns: choose a positive span up to 1000000s":       func(c *Config) { c.Duration = -1 },
		"margin is -1ns: choose a positive span":                        func(c *Config) { c.Margin = -1 },
		"interval is 1ns: choose 1us to 1000000s":                       func(c *Config) { c.Interval = 1 },
		"post-list is 0: choose 1 to 15000":                             func(c *Config) { c.PostList = 0 },
		"need more than 16 GiB":                                         func(c *Config) { c.QPs, c.Size = 16384, 1<<20 },
		"cq-mod is -1":                                                  func(c *Config) { c.CQMod = -1 },
	} {
		c := DefaultConfig(Test{Verb: Write})
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// The defaults are those of perftest's programs, whose messages, iterations and send queues differ.
func TestDefaultConfig(t *testing.T) {
	for test, own := range map[Test]struct{ size, iterations, txDepth int }{
		{Write, false}: {65536, 5000, 128}, {Read, false}: {65536, 1000, 128}, {Send, false}: {65536, 1000, 128}, {Atomic, false}: {8, 1000, 128},
		{Write, true}: {2, 1000, 1}, {Read, true}: {2, 1000, 1}, {Send, true}: {2, 1000, 1}, {Atomic, true}: {8, 1000, 1},
	} {
		want := Config{
			Test: test, Path: Path{Port: 1, GID: -1}, Size: own.size, Iterations: own.iterations, QPs: 1, Service: ib.RC,
			TxDepth: own.txDepth, RxDepth: 512, PostList: 1, Inline: -1, QPTimeout: 14, Patience: time.Hour,
		}
		c := DefaultConfig(test)
		if !reflect.DeepEqual(c, want) {
			t.Errorf("%v: %+v, want %+v", test, c, want)
		}
		if err := c.Validate(); err != nil {
			t.Errorf("%v: the default is invalid: %v", test, err)
		}
	}
	if got, want := DefaultPingConfig(), (PingConfig{Path: Path{Port: 1, GID: -1}, Size: 64}); !reflect.DeepEqual(got, want) {
		t.Errorf("rping: %+v, want %+v", got, want)
	}
}

// short is a device whose port states a longest message. It is one of the model, so that both
// ends are run in its time.
type short struct {
	*simverbs.Device
	most uint32
}

func (d short) Port(num int) (verbs.PortAttr, error) {
	p, err := d.Device.Port(num)
	p.MaxMsgSize = d.most
	return p, err
}

// A message longer than the port's longest is an error before anything is sent.
func TestLongestMessage(t *testing.T) {
	for size, fits := range map[int]bool{8191: true, 8192: true, 8193: false} {
		a, b := model(t, "")
		c := DefaultConfig(Test{Verb: Write})
		c.Size, c.Iterations = size, 10
		_, err := Pair(short{a.(*simverbs.Device), 8192}, short{b.(*simverbs.Device), 8192}, c)
		if (err == nil) != fits || !fits && (!errors.Is(err, verbs.ErrInvalid) || !strings.Contains(err.Error(), fmt.Sprintf("a message of %d bytes is above the longest of port 1, 8192", size))) {
			t.Errorf("%d bytes, the longest is 8192: %v", size, err)
		}
		for _, d := range []verbs.Device{a, b} {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestParseTest(t *testing.T) {
	for _, test := range Tests() {
		for _, name := range []string{test.String(), "ib_" + test.String(), strings.ReplaceAll(test.String(), "_", "-")} {
			if got, err := ParseTest(name); err != nil || got != test {
				t.Errorf("%s is %v, %v", name, got, err)
			}
		}
	}
	if _, err := ParseTest("write"); err == nil || !strings.Contains(err.Error(), "take one of write_bw, ") {
		t.Errorf("error %v", err)
	}
}

// The peak is what looking at every stretch finds.
func TestPeak(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "messages")
		var posted []units.Time
		var completed []mark
		now := units.Time(rapid.Int64Range(0, 1e15).Draw(t, "start"))
		at := now
		for i := range n {
			now += units.Time(rapid.Int64Range(0, 1e6).Draw(t, "gap"))
			posted = append(posted, now)
			at = max(at, now) + units.Time(rapid.Int64Range(1, 2e6).Draw(t, "takes"))
			if i == n-1 || rapid.Bool().Draw(t, "signaled") {
				completed = append(completed, mark{at, uint64(i + 1)})
			}
		}
		want := 0.0
		for _, m := range completed {
			for i := range m.done {
				want = max(want, float64(m.done-i)/float64(m.at-posted[i]))
			}
		}
		if got := peak(posted, completed); math.Abs(got-want) > 1e-9*want {
			t.Fatalf("%v, want %v", got, want)
		}
	})
	if got := peak(nil, nil); got != 0 {
		t.Errorf("the peak of nothing is %v", got)
	}
}

func TestSamples(t *testing.T) {
	s := newSamples()
	if l := s.latency(); l.AvgUs.Measured() || l.MinUs.Measured() {
		t.Errorf("the latency of nothing is %+v", l)
	}
	for i := 1; i <= 1000; i++ {
		s.add(units.Time(i) * units.Microsecond)
	}
	l := s.latency()
	between(t, "min", l.MinUs, 1, 1)
	between(t, "max", l.MaxUs, 1000, 1000)
	between(t, "average", l.AvgUs, 500.5-1e-6, 500.5+1e-6)
	between(t, "deviation", l.StdevUs, 288.674, 288.676) // sqrt((1000^2-1)/12)
	between(t, "median", l.TypicalUs, 499.5, 501)
	between(t, "99 percent", l.P99Us, 989, 991)
	between(t, "99.9 percent", l.P999Us, 998, 1000)
}

func ExamplePair() {
	client, err := verbs.Open("sim:example/h0")
	if err != nil {
		panic(err)
	}
	server, err := verbs.Open("sim:example/h1")
	if err != nil {
		panic(err)
	}
	result, err := Pair(client, server, DefaultConfig(Test{Verb: Read, Latency: true}))
	if err != nil {
		panic(err)
	}
	row := result.Rows[0]
	fmt.Printf("%d reads of %d bytes, %.1f us each\n", row.Iterations, row.Bytes, float64(row.TypicalUs))
	// Output: 1000 reads of 2 bytes, 4.5 us each
}
