package ccore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"unsafe"

	"github.com/sluice-rdma/sluice/bench/replay"
	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/cc/enginetest"
	"github.com/sluice-rdma/sluice/internal/ctest"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

const (
	flows     = 4
	blockSize = 4096
)

// acknowledgements is how many each engine gets, without -short.
var acknowledgements = flag.Int("acks", 2_000_000, "acknowledgements of each engine")

// events of testdata/replay.c.
const (
	eventAck = iota
	eventLoss
	eventTimeout
	eventCNP
	eventStart
)

// raw is the memory of a value, which C lays out alike.
func raw(p unsafe.Pointer, size uintptr) []byte { return unsafe.Slice((*byte)(p), size) }

func rawOf[T any](p *T) []byte { return raw(unsafe.Pointer(p), unsafe.Sizeof(*p)) }

// peer is the C program that does what Go does.
type peer struct {
	*ctest.Program
	union int // bytes of one engine in C
	state int // where the state is in it

	block  []byte
	events int
	want   []cc.Control
	kinds  []string // of events, for messages
	reply  []byte
	total  int
}

func startPeer(t testing.TB, program string) *peer {
	t.Helper()
	p := &peer{Program: ctest.Start(t, program)}
	var sizes [6]uint64
	if err := binary.Read(p.Out, binary.LittleEndian, &sizes); err != nil {
		t.Fatal(err)
	}
	want := [4]uint64{uint64(unsafe.Sizeof(cc.Ack{})), uint64(unsafe.Sizeof(telemetry.Stack{})), uint64(unsafe.Sizeof(cc.Control{})), uint64(unsafe.Sizeof(cc.Env{}))}
	if [4]uint64(sizes[:4]) != want {
		t.Fatalf("C's types have %v bytes, Go's %v", sizes[:4], want)
	}
	p.union, p.state = int(sizes[4]), int(sizes[5])
	return p
}

func (p *peer) event(kind, flow, path, engine, config int, what string, answer cc.Control, parts ...[]byte) {
	p.block = append(p.block, byte(kind), byte(flow), byte(path), byte(engine))
	p.block = binary.LittleEndian.AppendUint32(p.block, uint32(config))
	for _, part := range parts {
		p.block = append(p.block, part...)
	}
	p.events++
	p.want, p.kinds = append(p.want, answer), append(p.kinds, what)
}

// flush sends a block and compares what comes back, and the memory of the engines.
func (p *peer) flush(t testing.TB, of [flows]*flow) {
	t.Helper()
	if p.events == 0 {
		return
	}
	head := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, uint32(p.events)), uint32(len(p.block)))
	const size = int(unsafe.Sizeof(cc.Control{}))
	need := p.events*size + flows*p.union
	if cap(p.reply) < need {
		p.reply = make([]byte, need)
	}
	p.Exchange(t, append(head, p.block...), p.reply[:need])
	for i, want := range p.want {
		got := *(*cc.Control)(unsafe.Pointer(&p.reply[i*size]))
		if got.Rate != want.Rate || got.Window != want.Window || got.Class != want.Class {
			t.Fatalf("event %d, %s: C says %+v, Go %+v", p.total+i, p.kinds[i], got, want)
		}
	}
	for i, f := range of {
		if f == nil {
			continue
		}
		memory := p.reply[p.events*size+i*p.union+p.state:][:p.union-p.state]
		if diff := f.differs(memory); diff != "" {
			t.Fatalf("after event %d, flow %d: %s", p.total+p.events, i, diff)
		}
	}
	p.total += p.events
	p.block, p.want, p.kinds, p.events = p.block[:0], p.want[:0], p.kinds[:0], 0
}

// flow is an engine in Go.
type flow struct {
	engine cc.Engine
	memory unsafe.Pointer
	leaves []leaf
	bad    bool // it got what no path gives
}

// leaf is a number in an engine's memory.
type leaf struct {
	name   string
	offset uintptr
	size   uintptr
	float  bool
}

func newFlow(t testing.TB, e cc.Engine) *flow {
	f := &flow{engine: e}
	v := reflect.ValueOf(e)
	if v.Kind() == reflect.Pointer {
		f.memory = v.UnsafePointer()
		f.leaves = leaves(t, v.Type().Elem(), "", 0, nil)
		return f
	}
	c := reflect.New(v.Type()) // of a value: it does not change
	c.Elem().Set(v)
	f.memory = c.UnsafePointer()
	f.leaves = leaves(t, v.Type(), "", 0, nil)
	return f
}

func leaves(t testing.TB, typ reflect.Type, name string, at uintptr, all []leaf) []leaf {
	switch typ.Kind() {
	case reflect.Struct:
		for i := range typ.NumField() {
			f := typ.Field(i)
			all = leaves(t, f.Type, name+"."+f.Name, at+f.Offset, all)
		}
	case reflect.Array:
		for i := range typ.Len() {
			all = leaves(t, typ.Elem(), fmt.Sprintf("%s[%d]", name, i), at+uintptr(i)*typ.Elem().Size(), all)
		}
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		all = append(all, leaf{name, at, typ.Size(), false})
	case reflect.Float64:
		all = append(all, leaf{name, at, 8, true})
	default:
		t.Fatalf("the state has %s of type %v", name, typ)
	}
	return all
}

// differs names the first number that is another one in C. NaN is NaN: which of them
// an operation gives is left to the machine in both languages.
func (f *flow) differs(memory []byte) string {
	for _, l := range f.leaves {
		want, got := raw(unsafe.Add(f.memory, l.offset), l.size), memory[l.offset:][:l.size]
		if bytes.Equal(want, got) {
			continue
		}
		if l.float {
			w, g := math.Float64frombits(binary.LittleEndian.Uint64(want)), math.Float64frombits(binary.LittleEndian.Uint64(got))
			if w != w && g != g {
				continue
			}
			return fmt.Sprintf("%s is %v (%x) in C, %v (%x) in Go", l.name, g, got, w, want)
		}
		return fmt.Sprintf("%s is %x in C, %x in Go", l.name, got, want)
	}
	return ""
}

// recorder is an engine that records what another one gets, and adds what a Link does
// not have: marks, notices, more hops.
type recorder struct {
	cc.Engine
	source *replay.Source
	qpn    uint32
	env    cc.Env
	rng    *rand.Rand
	path   telemetry.Stack
	other  telemetry.Hop
	count  int
	cnp    units.Time
}

func (r *recorder) OnAck(a *cc.Ack) cc.Control {
	r.count++
	a.ECN = a.MaxHopDelay > r.env.BaseRTT/4
	a.EIN = a.MaxHopDelay > 2*r.env.BaseRTT
	a.Circuit = r.count/1000%3 == 1
	if r.count/700%2 == 1 {
		a.Hops, a.Held = uint8(r.count/100%7), units.Time(r.rng.Int64N(int64(a.RTT)))
	}
	a.AppLimited = r.count/500%11 == 5
	a.ReverseMaxHopDelay = units.Time(r.rng.Int64N(int64(r.env.BaseRTT)))
	if a.Path != nil {
		hop := a.Path.Hops[0]
		r.other.Time, r.other.Rate = hop.Time+units.Time(r.rng.Int64N(1000)), 2*hop.Rate
		r.other.TxBytes += r.env.MTU
		r.other.QLen = units.Bytes(r.rng.Int64N(int64(4 * r.env.MTU)))
		r.path = telemetry.Stack{}
		r.path.Push(r.other)
		r.path.Push(hop)
		if r.count/2000%2 == 1 {
			r.path.Push(r.other)
		}
		a.Path = &r.path
	}
	c := r.Engine.OnAck(a)
	r.source.Record(r.qpn, a, c)
	if a.ECN && a.Now-r.cnp > 50*units.Microsecond {
		r.cnp = a.Now
		return r.OnCNP(a.Now)
	}
	return c
}

// record runs flows over a bottleneck until about n of their acknowledgements are
// recorded, and returns the recording.
func record(t testing.TB, e *engine, n, round int, rng *rand.Rand) []byte {
	t.Helper()
	env := cc.Env{
		LineRate: []units.Rate{10, 25, 100, 400}[round%4] * units.Gbps,
		BaseRTT:  []units.Time{8, 20, 35, 60, 200}[round%5] * units.Microsecond,
		MTU:      []units.Bytes{4096, 1024, 4096}[round%3],
	}
	var file bytes.Buffer
	file.Grow(40 * n)
	rec := replay.NewRecorder(&file)
	source, err := rec.Source(replay.Stream{Device: "link", Engine: e.name, Line: int64(env.LineRate), Base: env.BaseRTT.Microseconds(), MTU: int64(env.MTU)})
	if err != nil {
		t.Fatal(err)
	}
	link := enginetest.Link{Rate: env.LineRate / units.Rate(1+round%2), Env: env}
	var all []*recorder
	for i := range flows {
		inner, err := e.make(e.configs[(round+i)%len(e.configs)], env)
		if err != nil {
			t.Fatal(err)
		}
		r := &recorder{Engine: inner, source: source, qpn: uint32(i), env: env, rng: rng}
		all = append(all, r)
		link.Add(r, units.Time(i)*100*units.Microsecond)
	}
	for sum := 0; sum < n; {
		link.Run(link.Now() + 200*units.Microsecond)
		if round%4 == 3 {
			link.Extra = units.Time(rng.Int64N(int64(env.BaseRTT)))
		}
		sum = 0
		for _, r := range all {
			sum += r.count
		}
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

var extremeTimes = []int64{math.MaxInt64, math.MinInt64, math.MaxInt64 - 1, math.MinInt64 + 1, 0, 1, -1, 1 << 62, -1 << 62, 1 << 53, 1<<53 + 1}

var extremeScales = []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 0, 1e308, 5e-324, -1}

// garble makes an acknowledgement one that no path gives.
func garble(a *cc.Ack, path *telemetry.Stack, rng *rand.Rand) {
	one := func() int64 {
		if rng.IntN(4) == 0 {
			return int64(rng.Uint64())
		}
		return extremeTimes[rng.IntN(len(extremeTimes))]
	}
	for range 1 + rng.IntN(3) {
		switch rng.IntN(14) {
		case 0:
			a.Scale = extremeScales[rng.IntN(len(extremeScales))]
		case 1:
			a.RTT = units.Time(one())
		case 2:
			a.NetRTT = units.Time(one())
		case 3:
			a.Now = units.Time(one())
		case 4:
			a.Acked = units.Bytes(one())
		case 5:
			a.Sent = units.Bytes(one())
		case 6:
			a.Bytes = units.Bytes(one())
		case 7:
			a.Packets = int32(one())
		case 8:
			a.MaxHopDelay, a.HasMaxDelay = units.Time(one()), true
		case 9:
			a.ReverseMaxHopDelay, a.HasMaxDelay = units.Time(one()), true
		case 10:
			a.HasMaxDelay, a.Path = false, nil
		default:
			path.N = uint8(rng.IntN(telemetry.MaxHops + 1))
			for i := range path.N {
				h := &path.Hops[i]
				switch rng.IntN(4) {
				case 0:
					h.TxBytes = units.Bytes(one())
				case 1:
					h.QLen = units.Bytes(one())
				case 2:
					h.Time = units.Time(one())
				case 3:
					h.Rate = units.Rate(one())
				}
			}
			a.Path = path
		}
	}
}

// replay feeds a recording to an engine in both languages, with what no path gives
// between, and losses, timeouts, and notifications.
func (p *peer) replay(t testing.TB, e *engine, kind int, recording []byte, rng *rand.Rand) (acks int) {
	t.Helper()
	r, err := replay.NewReader(bytes.NewReader(recording))
	if err != nil {
		t.Fatal(err)
	}
	var all [flows]*flow
	start := func(i int, env cc.Env) {
		config := e.configs[rng.IntN(len(e.configs))]
		made, err := e.make(config, env)
		if err != nil {
			t.Fatal(err)
		}
		all[i] = newFlow(t, made)
		c := image(t, config)
		p.event(eventStart, i, 0, kind, len(c), "start", made.Control(), rawOf(&env), c)
	}
	var path telemetry.Stack
	for {
		var rec replay.Record
		err := r.Next(&rec)
		if errors.Is(err, io.EOF) {
			p.flush(t, all)
			return acks
		}
		if err != nil {
			t.Fatal(err)
		}
		i := int(rec.QPN)
		f := all[i]
		// Flow 0 keeps to the recording. NaN stays in an engine for ever: others
		// begin again.
		if f == nil || f.bad && rng.IntN(256) == 0 || i > 0 && rng.IntN(1<<14) == 0 {
			start(i, r.Streams()[rec.Stream].Env())
			f = all[i]
		}
		a := &rec.Ack
		if i > 0 && rng.IntN(512) == 0 {
			path = telemetry.Stack{}
			if a.Path != nil {
				path = *a.Path
			}
			garble(a, &path, rng)
			f.bad = true
		}
		answer := f.engine.OnAck(a)
		acks++
		if a.Path != nil {
			stack := *a.Path
			plain := *a
			plain.Path = nil
			p.event(eventAck, i, 1, 0, 0, "ack", answer, rawOf(&plain), rawOf(&stack))
		} else {
			p.event(eventAck, i, 0, 0, 0, "ack", answer, rawOf(a))
		}
		now := a.Now
		switch n := rng.IntN(2048); {
		case a.ECN && n < 64:
			p.event(eventCNP, i, 0, 0, 0, "cnp", f.engine.OnCNP(now), rawOf(&now))
		case n == 2046 && i > 0:
			p.event(eventLoss, i, 0, 0, 0, "loss", f.engine.OnLoss(now), rawOf(&now))
		case n == 2047 && i > 1:
			p.event(eventTimeout, i, 0, 0, 0, "timeout", f.engine.OnTimeout(now), rawOf(&now))
		}
		if p.events >= blockSize {
			p.flush(t, all)
		}
	}
}

// buildReplay compiles the C program.
func buildReplay(t testing.TB, options ...string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "engines.h"), []byte(list()), 0o644); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "replay")
	ctest.Compile(t, append(options, "-Isrc", "-I"+dir, "-o", program, "testdata/replay.c", core(t, options...))...)
	return program
}

// C gives the same rate, window and class as Go for each acknowledgement of
// each engine, recorded where flows of it share a bottleneck and among them NaN,
// infinities, saturation and wraps; and its memory holds the same.
func TestCIsGoBitForBit(t *testing.T) {
	n := *acknowledgements
	if testing.Short() {
		n = min(n, 100_000)
		t.Logf("%d acknowledgements of each engine, not %d: -short", n, *acknowledgements)
	}
	held(t, n, "-O2")
}

// And so it is with a compiler that may use all that the processor has, and without its
// division of 128 bits.
func TestCIsGoByOtherOptions(t *testing.T) {
	n := 500_000
	if testing.Short() {
		n = 50_000
	}
	t.Run("native", func(t *testing.T) { held(t, n, "-O3", "-march=native") })
	t.Run("portable", func(t *testing.T) { held(t, n, "-O1", "-DSLUICE_PORTABLE") })
}

func held(t *testing.T, n int, options ...string) {
	program := buildReplay(t, options...)
	for i := range engines {
		e := &engines[i]
		t.Run(e.name, func(t *testing.T) {
			p := startPeer(t, program)
			acks := 0
			for round := 0; acks < n; round++ {
				rng := rand.New(rand.NewPCG(uint64(i), uint64(round)))
				recording := record(t, e, min(n-acks, 250_000), round, rng)
				acks += p.replay(t, e, i, recording, rng)
			}
			t.Logf("%d acknowledgements", acks)
		})
	}
}
