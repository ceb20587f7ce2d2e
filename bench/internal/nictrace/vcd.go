package nictrace

import (
	"bufio"
	"container/heap"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-rdma/sluice/nicmodel"
	"github.com/sluice-rdma/sluice/units"
)

// VCD writes what the stages of NICs do as a value change dump (IEEE 1364-2005, clause
// 18), which waveform viewers read. Each system is a scope, and each NIC a scope in
// it. The NIC's scope has one for each stage, kind of processing units and direction
// of PCIe:
//
//   - busy: whether it is at work, or how many of the units are;
//   - stall: what it waits for, by the number that a comment in the file gives, 0 for
//     nothing; only of stages that have waited.
//
// Scope queues has the length of each of the NIC's queues. Each queue pair that the
// filter names has a scope with the number of its requests and packets in each place of
// nicmodel.Place, at its own NIC.
//
// The window bounds the dump, and the filter says whose NICs are shown. A stall is known
// when it is over, and work ahead of time, so changes are sorted at the end. Changes
// that do not fit in memory wait in a temporary file. NICVCD is for one goroutine.
type VCD struct {
	filter  Filter
	w       *bufio.Writer
	signals []vcdSignal
	initial []int64 // of each signal, at the beginning of the window
	scopes  map[string]bool
	sorted  changeSort
	last    units.Time // end of the simulation, or of the window
	changes int
	err     error
}

// vcdSignal is a variable of the dump.
type vcdSignal struct {
	scope []string
	name  string
	kind  string // wire, reg or integer
	width int
	rare  bool // shown only if it has changed
	moved bool
}

// change is by how much a signal changes.
type change struct {
	at     units.Time
	signal uint32
	by     int32
}

// NewVCD begins a dump. Close writes and ends it.
func NewVCD(w io.Writer, f Filter) *VCD {
	return &VCD{filter: f, w: bufio.NewWriterSize(w, 1<<16), scopes: map[string]bool{}}
}

// Watch dumps the NICs of a network that is about to run, in a scope of its own. A nil
// dump watches nothing.
func (v *VCD) Watch(n *Network) error {
	if v == nil {
		return nil
	}
	of, err := n.queuePairs(&v.filter)
	if err != nil {
		return err
	}
	n.watched()
	system := v.scope(nil, n.System)
	for h := range n.NICs {
		if pairs, ok := of[h]; ok || len(v.filter.Of) == 0 {
			v.nic(n, v.scope(system, n.Topology.HostName(h)), h, pairs)
		}
	}
	return nil
}

// scope is a scope of that name inside another, which no other has.
func (v *VCD) scope(in []string, name string) []string {
	base := vcdName(name)
	for i := 1; ; i++ {
		name = base
		if i > 1 {
			name += "_" + strconv.Itoa(i)
		}
		if all := append(slices.Clone(in), name); !v.scopes[strings.Join(all, " ")] {
			v.scopes[strings.Join(all, " ")] = true
			return all
		}
	}
}

// vcdName is a name as Verilog's identifiers are.
func vcdName(name string) string {
	out := []byte(name)
	for i, c := range out {
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_') {
			out[i] = '_'
		}
	}
	if len(out) == 0 || out[0] >= '0' && out[0] <= '9' {
		return "_" + string(out)
	}
	return string(out)
}

func (v *VCD) signal(scope []string, name, kind string, width int) uint32 {
	v.signals = append(v.signals, vcdSignal{scope: scope, name: vcdName(name), kind: kind, width: width})
	v.initial = append(v.initial, 0)
	return uint32(len(v.signals) - 1)
}

const vcdInteger = 32

// nic watches one NIC.
func (v *VCD) nic(n *Network, scope []string, host int, pairs []uint32) {
	nic := n.NICs[host]
	type stage struct{ busy, stall uint32 }
	var stages []stage
	for _, a := range nic.Accounts(0) {
		in := append(slices.Clone(scope), vcdName(a.Stage))
		kind, width := "wire", 1
		if a.Parallel > 1 {
			kind, width = "integer", vcdInteger
		}
		one := stage{v.signal(in, "busy", kind, width), v.signal(in, "stall", "reg", bits.Len(uint(len(nicmodel.Stalls())-1)))}
		v.signals[one.stall].rare = true
		stages = append(stages, one)
	}
	add := func(i int, begin, end units.Time, why nicmodel.Stall) {
		if why == nicmodel.StallNone {
			v.span(stages[i].busy, begin, end, 1)
			return
		}
		v.span(stages[i].stall, begin, end, int32(why))
	}
	take := func(w *work) { add(w.part, w.begin, w.end, w.why) }
	nic.OnWork(func(i int, begin, end units.Time, why nicmodel.Stall) {
		n.work(host, work{take: take, part: i, begin: begin, end: end, why: why})
	})
	n.ends = append(n.ends, func(now units.Time) {
		nic.OpenStalls(now, add)
		v.last = max(v.last, min(now, v.filter.To))
	})

	var levels []int
	first := uint32(len(v.signals))
	for _, q := range nic.Queues(0) {
		v.signal(append(slices.Clone(scope), "queues"), q.Queue, "integer", vcdInteger)
		levels = append(levels, 0)
	}
	takeLevel := func(w *work) {
		v.add(first+uint32(w.part), w.begin, int32(w.level-levels[w.part]))
		levels[w.part] = w.level
	}
	nic.OnLevel(func(i int, now units.Time, level int) {
		n.work(host, work{take: takeLevel, part: i, begin: now, level: level})
	})

	places := map[uint32]uint32{} // by queue pair, the signal of the first place
	for _, qpn := range pairs {
		if _, ok := places[qpn]; ok || qpn == 0 {
			continue
		}
		places[qpn] = uint32(len(v.signals))
		for _, p := range nicmodel.Places() {
			v.signal(append(slices.Clone(scope), fmt.Sprintf("qp_%#x", qpn)), p.String(), "integer", vcdInteger)
		}
	}
	if len(places) > 0 {
		n.onSpan(func(of int) bool { return of == host }, func(at int, span *nicmodel.Span) {
			if first, ok := places[span.QPN]; ok && at == host {
				v.span(first+uint32(span.Place), span.Begin, span.End, int32(max(span.Count, 1)))
			}
		})
	}
}

// span raises a signal for a time.
func (v *VCD) span(signal uint32, begin, end units.Time, by int32) {
	if begin < end && begin < v.filter.To && end > v.filter.From {
		v.add(signal, begin, by)
		v.add(signal, end, -by)
	}
}

// add notes a change of a signal.
func (v *VCD) add(signal uint32, at units.Time, by int32) {
	switch {
	case by == 0 || at > v.filter.To:
	case at <= v.filter.From:
		v.initial[signal] += int64(by)
		v.signals[signal].moved = true
	default:
		v.signals[signal].moved = true
		v.sorted.add(change{at, signal, by})
	}
}

// Changes is how many values the dump has after the initial ones, once it is
// closed.
func (v *VCD) Changes() int { return v.changes }

// Close writes the dump.
func (v *VCD) Close() error {
	v.header()
	at := v.filter.From
	var moved []uint32
	value := slices.Clone(v.initial)
	old := slices.Clone(v.initial)
	flush := func() {
		slices.Sort(moved)
		stamped := false
		for _, s := range slices.Compact(moved) {
			if value[s] == old[s] {
				continue
			}
			if !stamped {
				v.text("#" + strconv.FormatInt(int64(at), 10) + "\n")
				stamped = true
			}
			old[s] = value[s]
			v.value(s, value[s])
			v.changes++
		}
		moved = moved[:0]
	}
	err := v.sorted.each(func(c change) {
		if c.at != at {
			flush()
			at = c.at
		}
		value[c.signal] += int64(c.by)
		moved = append(moved, c.signal)
	})
	flush()
	if v.last > at {
		v.text("#" + strconv.FormatInt(int64(v.last), 10) + "\n")
	}
	if v.err == nil {
		v.err = v.w.Flush()
	}
	return errors.Join(err, v.err)
}

func (v *VCD) header() {
	v.text("$version Sluice NIC model $end\n$timescale 1 ps $end\n$comment stall:")
	for i, why := range nicmodel.Stalls() {
		if i > 0 {
			v.text(",")
		}
		v.text(" " + strconv.Itoa(i) + " " + why.String())
	}
	v.text(" $end\n")
	var open []string
	for i := range v.signals {
		s := &v.signals[i]
		if s.rare && !s.moved {
			continue
		}
		same := 0
		for same < len(open) && same < len(s.scope) && open[same] == s.scope[same] {
			same++
		}
		for range open[same:] {
			v.text("$upscope $end\n")
		}
		for _, name := range s.scope[same:] {
			v.text("$scope module " + name + " $end\n")
		}
		open = s.scope
		v.text("$var " + s.kind + " " + strconv.Itoa(s.width) + " " + vcdCode(uint32(i)) + " " + s.name + " $end\n")
	}
	for range open {
		v.text("$upscope $end\n")
	}
	v.text("$enddefinitions $end\n#" + strconv.FormatInt(int64(v.filter.From), 10) + "\n$dumpvars\n")
	for i := range v.signals {
		if s := &v.signals[i]; !s.rare || s.moved {
			v.value(uint32(i), v.initial[i])
		}
	}
	v.text("$end\n")
}

// vcdCode is the short name of a signal: printable characters.
func vcdCode(i uint32) string {
	var code []byte
	for {
		code = append(code, byte('!'+i%94))
		if i /= 94; i == 0 {
			return string(code)
		}
		i--
	}
}

func (v *VCD) value(signal uint32, x int64) {
	if v.signals[signal].width == 1 {
		v.text(strconv.FormatInt(x, 2) + vcdCode(signal) + "\n")
		return
	}
	v.text("b" + strconv.FormatInt(x, 2) + " " + vcdCode(signal) + "\n")
}

func (v *VCD) text(s string) {
	if v.err == nil {
		_, v.err = v.w.WriteString(s)
	}
}

// changeSort puts changes in order. It holds a bounded number in memory; sorted runs of
// more are in a temporary file until the end.
type changeSort struct {
	held []change
	file *os.File
	runs int
	err  error
}

const (
	heldChanges = 1 << 18
	changeBytes = 16
)

func compareChanges(a, b change) int {
	switch {
	case a.at != b.at:
		if a.at < b.at {
			return -1
		}
		return 1
	case a.signal != b.signal:
		return int(int64(a.signal) - int64(b.signal))
	}
	return 0
}

func (s *changeSort) add(c change) {
	if len(s.held) == heldChanges {
		s.spill()
	}
	s.held = append(s.held, c)
}

// spill writes what is held as a run of its own.
func (s *changeSort) spill() {
	slices.SortFunc(s.held, compareChanges)
	if s.err == nil && s.file == nil {
		s.file, s.err = os.CreateTemp("", "sluice-vcd-*")
	}
	if s.err == nil {
		w := bufio.NewWriterSize(s.file, 1<<16)
		var b [changeBytes]byte
		for _, c := range s.held {
			binary.LittleEndian.PutUint64(b[:], uint64(c.at))
			binary.LittleEndian.PutUint32(b[8:], c.signal)
			binary.LittleEndian.PutUint32(b[12:], uint32(c.by))
			_, s.err = w.Write(b[:])
		}
		s.err = errors.Join(s.err, w.Flush())
		s.runs++
	}
	s.held = s.held[:0]
}

// each calls do with all changes in the order of time, and drops them.
func (s *changeSort) each(do func(change)) error {
	defer func() {
		if s.file != nil {
			s.err = errors.Join(s.err, s.file.Close(), os.Remove(s.file.Name()))
		}
	}()
	slices.SortFunc(s.held, compareChanges)
	var m changeMerge
	for i := range s.runs {
		const size = heldChanges * changeBytes
		m = append(m, &changeRun{r: bufio.NewReaderSize(io.NewSectionReader(s.file, int64(i)*size, size), 1<<16)})
	}
	m = append(m, &changeRun{held: s.held})
	m = slices.DeleteFunc(m, func(r *changeRun) bool { return !r.next(&s.err) })
	heap.Init(&m)
	for len(m) > 0 && s.err == nil {
		do(m[0].head)
		if m[0].next(&s.err) {
			heap.Fix(&m, 0)
		} else {
			heap.Pop(&m)
		}
	}
	return s.err
}

// changeRun is changes in order, in memory or in a file.
type changeRun struct {
	head change
	held []change
	r    *bufio.Reader
}

func (r *changeRun) next(err *error) bool {
	if r.r == nil {
		if len(r.held) == 0 {
			return false
		}
		r.head, r.held = r.held[0], r.held[1:]
		return true
	}
	var b [changeBytes]byte
	if _, e := io.ReadFull(r.r, b[:]); e != nil {
		if !errors.Is(e, io.EOF) {
			*err = errors.Join(*err, e)
		}
		return false
	}
	r.head = change{units.Time(binary.LittleEndian.Uint64(b[:])), binary.LittleEndian.Uint32(b[8:]), int32(binary.LittleEndian.Uint32(b[12:]))}
	return true
}

// changeMerge is a heap of runs by what they have next.
type changeMerge []*changeRun

func (m changeMerge) Len() int           { return len(m) }
func (m changeMerge) Less(i, j int) bool { return compareChanges(m[i].head, m[j].head) < 0 }
func (m changeMerge) Swap(i, j int)      { m[i], m[j] = m[j], m[i] }
func (m *changeMerge) Push(x any)        { *m = append(*m, x.(*changeRun)) }
func (m *changeMerge) Pop() any {
	last := (*m)[len(*m)-1]
	*m = (*m)[:len(*m)-1]
	return last
}
