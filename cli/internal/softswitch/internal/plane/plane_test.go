package plane

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/units"
)

const us = units.Microsecond

func newSwitch(t testing.TB, cfg Config) *Switch {
	t.Helper()
	for i := range cfg.Ports {
		p := &cfg.Ports[i]
		if p.Buffer == 0 {
			p.Buffer = DefaultBuffer
		}
		if p.Packets == 0 {
			p.Packets = DefaultPackets
		}
	}
	if cfg.Frame == 0 {
		cfg.Frame = 2000
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// frame is one of n bytes between two stations.
func frame(dst, src byte, n int) []byte {
	b := make([]byte, n)
	copy(b, []byte{2, 0, 0, 0, 0, dst, 2, 0, 0, 0, 0, src, 0x12, 0x34})
	return b
}

// take returns the frames that leave a port until a time.
func take(s *Switch, now units.Time, port int) (frames [][]byte) {
	s.Advance(now)
	for p := s.Next(now, port); p != nil; p = s.Next(now, port) {
		frames = append(frames, bytes.Clone(p.Bytes()))
		s.Free(p)
	}
	return frames
}

// Unknown and group addresses go everywhere but back, known ones to their port,
// until they are too old.
func TestBridge(t *testing.T) {
	s := newSwitch(t, Config{Ports: make([]PortConfig, 3)})
	out := func(now units.Time) (n [3]int) {
		for i := range n {
			n[i] = len(take(s, now, i))
		}
		return n
	}
	all := frame(2, 1, 60)
	for i := range 6 {
		all[i] = 0xff
	}
	pause := frame(0, 3, 60)
	copy(pause, []byte{1, 0x80, 0xc2, 0, 0, 1})
	for _, c := range []struct {
		name string
		at   units.Time
		from int
		b    []byte
		want [3]int
	}{
		{"unknown", 0, 0, frame(2, 1, 60), [3]int{0, 1, 1}},
		{"known", us, 2, frame(1, 2, 60), [3]int{1, 0, 0}},
		{"known now", 2 * us, 0, frame(2, 1, 60), [3]int{0, 0, 1}},
		{"behind its own port", 2 * us, 2, frame(2, 9, 60), [3]int{}},
		{"broadcast", 3 * us, 1, all, [3]int{1, 0, 1}},
		{"pause", 3 * us, 1, pause, [3]int{}},
		{"no addresses", 3 * us, 1, []byte{1, 2, 3}, [3]int{}},
		{"too long", 3 * us, 1, frame(2, 1, 2001), [3]int{}},
		{"moved", 4 * us, 1, frame(9, 2, 60), [3]int{0, 0, 1}},
		{"to where it moved", 5 * us, 0, frame(2, 1, 60), [3]int{0, 1, 0}},
		{"too old", 400 * units.Second, 0, frame(2, 1, 60), [3]int{0, 1, 1}},
	} {
		s.Receive(c.at, c.from, c.b)
		if got := out(c.at); got != c.want {
			t.Errorf("%s: %v frames at the ports, want %v", c.name, got, c.want)
		}
	}
	if s.Totals != (Totals{TooLong: 1, Discarded: 3, Flooded: 3}) {
		t.Errorf("totals %+v", s.Totals)
	}
}

// More stations than there are places: what was heard last stays known.
func TestTableIsBounded(t *testing.T) {
	var table macTable
	const many = 100_000
	for i := range many {
		table.learn(units.Time(i), mac(i)<<8, uint16(i))
	}
	known := 0
	for i := range many {
		if p, ok := table.find(many, mac(i)<<8); ok {
			known++
			if p != uint16(i) {
				t.Fatalf("station %d at port %d", i, p)
			}
		}
	}
	if known < 3000 || known > tableBuckets*bucketWays {
		t.Errorf("%d stations are known", known)
	}
	if p, ok := table.find(many, mac(many-1)<<8); !ok || p != uint16((many-1)&0xffff) {
		t.Error("the last station is not known")
	}
}

// A port sends each packet when it came or when the one before has left,
// whichever is later; it is out when its last bit is; what does not fit is
// dropped. All of that against the sums, however seldom the switch is called.
func TestShaper(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := units.Rate(rapid.Int64Range(1_000_000, 40_000_000_000).Draw(t, "rate"))
		c := PortConfig{
			Rate: rate, Buffer: units.Bytes(rapid.IntRange(1, 20_000).Draw(t, "buffer")), Packets: rapid.IntRange(1, 30).Draw(t, "packets"),
		}
		s, err := New(Config{Ports: []PortConfig{{Buffer: 1, Packets: 1}, c}, Frame: 2000})
		if err != nil {
			t.Fatal(err)
		}
		type sent struct {
			id         uint32
			n          int
			start, end units.Time
		}
		var all []sent
		var now, free units.Time
		drops, got, rem := uint64(0), 0, uint64(0)
		collect := func(at units.Time) {
			s.Advance(at)
			for p := s.Next(at, 1); p != nil; p = s.Next(at, 1) {
				w := all[got]
				if id := binary.BigEndian.Uint32(p.Bytes()[14:]); id != w.id || len(p.Bytes()) != w.n {
					t.Fatalf("packet %d of %d bytes, want %d of %d", id, len(p.Bytes()), w.id, w.n)
				}
				if p.meta.DequeueTime != w.start {
					t.Fatalf("packet %d left its queue at %v, want %v", w.id, p.meta.DequeueTime, w.start)
				}
				if w.end > at {
					t.Fatalf("at %v packet %d is out, of which the last bit leaves at %v", at, w.id, w.end)
				}
				got++
				s.Free(p)
			}
			if got < len(all) && all[got].end <= at {
				t.Fatalf("at %v packet %d is not out, of which the last bit left at %v", at, got, all[got].end)
			}
		}
		for id := range uint32(rapid.IntRange(1, 200).Draw(t, "count")) {
			now += units.Time(rapid.Int64Range(0, 2*int64(rate.Serialize(1500))).Draw(t, "gap"))
			n := rapid.IntRange(18, 1500).Draw(t, "size")
			b := frame(1, 2, n)
			binary.BigEndian.PutUint32(b[14:], id)
			packets, depth := 0, units.Bytes(0)
			for _, q := range all {
				if q.start > now {
					packets, depth = packets+1, depth+units.Bytes(q.n)
				}
			}
			s.Receive(now, 0, b)
			if packets >= c.Packets || packets > 0 && depth+units.Bytes(n) > c.Buffer {
				drops++
			} else {
				start := max(now, free)
				var last units.Time
				last, rem = rate.SerializeRem(units.Bytes(n), rem)
				free = start + last
				all = append(all, sent{id, n, start, free})
			}
			if d := s.Counters(1).Drops; d != drops {
				t.Fatalf("%d drops after packet %d, want %d", d, id, drops)
			}
			if rapid.Bool().Draw(t, "look") {
				collect(now)
			}
		}
		if d := s.Deadline(); got < len(all) && d > now+units.Second {
			t.Fatalf("the next deadline is %v", d)
		}
		collect(free)
		if got != len(all) || s.Deadline() != units.Never {
			t.Fatalf("%d of %d packets came out; then the deadline is %v", got, len(all), s.Deadline())
		}
		if k := s.Counters(1); k.TxPackets != uint64(got) || k.Depth != (Depth{}) {
			t.Fatalf("counters %+v after %d packets", k, got)
		}
	})
}

// Over a second there is no drift, though a packet lasts no whole number of picoseconds.
func TestRateIsExact(t *testing.T) {
	s := newSwitch(t, Config{Ports: []PortConfig{{}, {Rate: 3 * units.Gbps, Buffer: units.GiB, Packets: 1 << 20}}})
	const n = 300_000
	b := frame(1, 2, 1250) // 10000 bits, 3333333 1/3 ps
	for range n {
		s.Receive(0, 0, b)
	}
	got := len(take(s, units.Second-1, 1))
	last := len(take(s, units.Second, 1))
	if got != n-1 || last != 1 {
		t.Errorf("%d packets are out a picosecond before the end, then %d; want %d and 1", got, last, n-1)
	}
}

// Only ECN-capable packets are marked, beyond the threshold.
func TestECN(t *testing.T) {
	ip4 := func(tos byte) []byte {
		b := frame(1, 2, 100)
		copy(b[12:], []byte{8, 0, 0x45, tos, 0, 86, 0, 0, 0, 0, 64, 17})
		return b
	}
	ip6 := func(tc byte) []byte {
		b := frame(1, 2, 100)
		copy(b[12:], []byte{0x86, 0xdd, 0x60 | tc>>4, tc << 4})
		return b
	}
	tagged := append(append(ip4(2)[:12:12], 0x81, 0, 0, 5), ip4(2)[12:]...)
	for name, c := range map[string]struct {
		b    []byte
		at   int // offset of what has the bits
		mask byte
		want bool
	}{
		"IPv4, capable":     {ip4(2), 15, 3, true},
		"IPv4, the other":   {ip4(1), 15, 3, true},
		"IPv4, marked":      {ip4(3), 15, 3, false},
		"IPv4, not capable": {ip4(0), 15, 3, false},
		"IPv6, capable":     {ip6(2), 15, 0x30, true},
		"IPv6, not capable": {ip6(0xfc), 15, 0x30, false},
		"VLAN":              {tagged, 19, 3, true},
		"cut":               {ip4(2)[:20], 15, 3, false},
		"no IP":             {frame(1, 2, 100), 15, 3, false},
	} {
		for _, deep := range []bool{false, true} {
			s := newSwitch(t, Config{Ports: []PortConfig{{}, {Rate: units.Gbps, ECN: 150}}})
			if deep {
				s.Receive(0, 0, frame(1, 2, 100)) // is on the wire
				s.Receive(0, 0, frame(1, 2, 200)) // queues
			}
			s.Receive(0, 0, c.b)
			out := take(s, units.Second, 1)
			got := out[len(out)-1]
			want := c.want && deep
			if marked := s.Counters(1).Marked == 1; marked != want || marked && got[c.at]&c.mask != c.mask || !marked && !bytes.Equal(got, c.b) {
				t.Errorf("%s, deep %v: marked %v, %x", name, deep, marked, got)
			}
			if want && got[12] == 8 {
				if h := sum16(got[14:34]); h != 0xffff {
					t.Errorf("%s: the header checksum adds up to %x", name, h)
				}
			}
		}
	}
}

func sum16(b []byte) uint32 {
	s := uint32(0)
	for i := 0; i < len(b); i += 2 {
		s += uint32(b[i])<<8 | uint32(b[i+1])
	}
	for s>>16 != 0 {
		s = s>>16 + s&0xffff
	}
	return s
}

// stamper is a program that puts in front of a frame what it is told behind the
// queue, and sends frames to the port that their first byte names.
type stamper struct {
	t       testing.TB
	copies  []Copy
	metas   []Meta
	out     [256]byte
	states  map[*held]bool // not yet given back
	pass    int            // copies of a frame that Egress makes
	longer  bool
	dropped bool
}

type held struct{ b []byte }

func (p *stamper) Ingress(b []byte, _ *Meta) []Copy {
	p.copies = p.copies[:0]
	for _, port := range b[1 : 1+b[0]] {
		p.copies = append(p.copies, p.hold(b, port))
	}
	return p.copies
}

func (p *stamper) hold(b []byte, port byte) Copy {
	h := &held{bytes.Clone(b)}
	p.states[h] = true
	return Copy{Port: uint16(port), Len: units.Bytes(len(b)), State: h}
}

func (p *stamper) Egress(state any, m *Meta) ([]byte, []Copy) {
	h := state.(*held)
	p.Release(h)
	p.metas = append(p.metas, *m)
	p.copies = p.copies[:0]
	if p.pass > 0 {
		p.pass--
		p.copies = append(p.copies, p.hold(h.b, byte(m.EgressPort)))
	}
	if p.dropped {
		return nil, p.copies
	}
	n := copy(p.out[:], "tag")
	n += copy(p.out[n:], h.b)
	if p.longer {
		n = len(p.out)
	}
	return p.out[:n], p.copies
}

func (p *stamper) Release(state any) {
	h := state.(*held)
	if !p.states[h] {
		p.t.Error("given back twice")
	}
	delete(p.states, h)
}

// A program's halves see the right times and depths, and what they say is done.
func TestProgram(t *testing.T) {
	p := &stamper{t: t, states: map[*held]bool{}}
	// 8 bits last a microsecond: a byte is one.
	s := newSwitch(t, Config{Ports: []PortConfig{{}, {Rate: 8 * units.Mbps}, {Rate: 8 * units.Mbps, Packets: 1}}, Program: p, Frame: 100})
	s.Receive(10*us, 0, []byte{1, 1, 'a', 'b', 'c', 'd', 'e'}) // 7 bytes, 10 with the tag: on the wire from 10 to 20
	s.Receive(12*us, 0, []byte{1, 1, 'b', 'c', 'd', 'e'})      // from 20 to 29
	s.Receive(13*us, 0, []byte{2, 1, 2, 'x'})                  // port 1 from 29 to 36, port 2 from 13 to 20
	s.Receive(13*us, 0, []byte{1, 9})                          // nowhere
	s.Receive(14*us, 0, []byte{0})                             // dropped
	if got := take(s, 19*us, 1); got != nil {
		t.Errorf("%q is out before its last bit", got)
	}
	if got := take(s, 20*us, 1); len(got) != 1 || string(got[0]) != "tag\x01\x01abcde" {
		t.Errorf("at 20 us %q", got)
	}
	if got := take(s, 36*us, 1); len(got) != 2 || string(got[1]) != "tag\x02\x01\x02x" {
		t.Errorf("at 36 us %q", got)
	}
	if got := take(s, 36*us, 2); len(got) != 1 {
		t.Errorf("port 2: %q", got)
	}
	want := []Meta{
		{0, 1, 7, 10 * us, 10 * us, 10 * us, Depth{}, Depth{}},
		{0, 2, 4, 13 * us, 13 * us, 13 * us, Depth{}, Depth{}},
		{0, 1, 6, 12 * us, 12 * us, 20 * us, Depth{}, Depth{1, 4}},
		{0, 1, 4, 13 * us, 13 * us, 29 * us, Depth{1, 6}, Depth{}},
	}
	if len(p.metas) != len(want) {
		t.Fatalf("%d packets at egress: %+v", len(p.metas), p.metas)
	}
	for i := range want {
		if p.metas[i] != want[i] {
			t.Errorf("packet %d: %+v, want %+v", i, p.metas[i], want[i])
		}
	}
	if s.Totals != (Totals{Discarded: 1, NoPort: 1}) || len(p.states) != 0 {
		t.Errorf("totals %+v; %d packets were not given back", s.Totals, len(p.states))
	}

	p.pass = 3
	s.Receive(100*us, 0, []byte{1, 1, 'z'})
	if got := take(s, units.Second, 1); len(got) != 4 {
		t.Errorf("with three copies at egress %d frames come out", len(got))
	}
	for range 3 { // one on its way, one in the queue, one too many
		s.Receive(2*units.Second, 0, []byte{1, 2, 'z'})
	}
	if c := s.Counters(2); c.Drops != 1 || len(p.states) != 1 {
		t.Errorf("%d drops, %d packets with the program", c.Drops, len(p.states))
	}
	take(s, 2*units.Second+units.Millisecond, 2)
	p.longer = true
	s.Receive(3*units.Second, 0, []byte{1, 1, 'z'})
	s.Advance(4 * units.Second)
	p.longer, p.dropped = false, true
	s.Receive(5*units.Second, 0, []byte{1, 1, 'z'})
	s.Advance(6 * units.Second)
	if s.Totals != (Totals{TooLong: 1, Discarded: 2, NoPort: 1}) {
		t.Errorf("totals %+v", s.Totals)
	}
}

func TestConfigIsChecked(t *testing.T) {
	ok := PortConfig{Buffer: 1, Packets: 1}
	for want, c := range map[string]Config{
		"0 ports":        {Frame: 1500},
		"frames of up":   {Ports: []PortConfig{ok}, Frame: 10},
		"port 1: a rate": {Ports: []PortConfig{ok, {Rate: -1, Buffer: 1, Packets: 1}}, Frame: 1500},
		"buffer of 0B":   {Ports: []PortConfig{{Packets: 1}}, Frame: 1500},
		"0 packets":      {Ports: []PortConfig{{Buffer: 1}}, Frame: 1500},
		"ECN threshold":  {Ports: []PortConfig{{Buffer: 1, Packets: 1, ECN: -1}}, Frame: 1500},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// fixed sends all to port 1 and keeps one frame of each.
type fixed struct {
	out  []byte
	one  [1]Copy
	self *fixed
}

func (f *fixed) Ingress(b []byte, _ *Meta) []Copy {
	f.out = append(f.out[:0], b...)
	f.one[0] = Copy{Port: 1, Len: units.Bytes(len(b)), State: f.self}
	return f.one[:]
}
func (f *fixed) Egress(any, *Meta) ([]byte, []Copy) { return f.out, nil }
func (f *fixed) Release(any)                        {}

// step sends a packet through a switch whose queue has some in it.
func step(s *Switch, now *units.Time, b []byte) {
	*now += 12 * us
	s.Receive(*now, 0, b)
	for p := s.Next(*now, 1); p != nil; p = s.Next(*now, 1) {
		s.Free(p)
	}
}

func TestNoAllocations(t *testing.T) {
	f := &fixed{}
	f.self = f
	for name, p := range map[string]Program{"bridge": nil, "program": f} {
		s := newSwitch(t, Config{Ports: []PortConfig{{}, {Rate: units.Gbps, ECN: 3000}}, Program: p})
		b := frame(1, 2, 1500)
		now := units.Time(0)
		for range 10 {
			s.Receive(now, 0, b)
		}
		step(s, &now, b)
		if n := testing.AllocsPerRun(1000, func() { step(s, &now, b) }); n > 0 {
			t.Errorf("%s: %v allocations a packet", name, n)
		}
	}
}

func BenchmarkSwitch(b *testing.B) {
	f := &fixed{}
	f.self = f
	for name, p := range map[string]Program{"bridge": nil, "program": f} {
		b.Run(name, func(b *testing.B) {
			s := newSwitch(b, Config{Ports: []PortConfig{{}, {Rate: units.Gbps}}, Program: p})
			data := frame(1, 2, 1082)
			now := units.Time(0)
			for range 10 {
				s.Receive(now, 0, data)
			}
			b.ReportAllocs()
			for b.Loop() {
				step(s, &now, data)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "packets/s")
		})
	}
}

// Whatever comes, at whatever time, nothing panics and nothing is lost sight of.
func FuzzReceive(f *testing.F) {
	f.Add([]byte("\x01\x30" + strings.Repeat("\x08\x00\x45\x02", 12)))
	f.Fuzz(func(t *testing.T, in []byte) {
		s := newSwitch(t, Config{Ports: []PortConfig{{ECN: 1}, {Rate: units.Mbps, ECN: 1, Packets: 3}}, Frame: LeastFrame})
		now := units.Time(0)
		for len(in) > 2 {
			n := min(int(in[1]), len(in)-2)
			now += units.Time(in[0]) * us
			s.Receive(now, int(in[0]&1), in[2:2+n])
			in = in[2+n:]
		}
		var rx, tx uint64
		for i := range 2 {
			take(s, units.Never-1, i)
			c := s.Counters(i)
			rx, tx = rx+c.RxPackets, tx+c.TxPackets+c.Drops
		}
		if rx != tx+s.Totals.Discarded+s.Totals.TooLong {
			t.Fatalf("%d packets in, %d out or dropped, %+v", rx, tx, s.Totals)
		}
	})
}
