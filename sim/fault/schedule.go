package fault

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/sluice-rdma/sluice/units"
)

// Kind is a kind of fault.
type Kind uint8

// Kinds of faults. The first six befall one packet of a link.
const (
	Drop      Kind = iota
	Duplicate      // after For
	Delay          // by For
	Corrupt        // bit Bit
	Mark           // congestion
	Forge          // beside it, or in its place, comes another, in the sender's name: As says what
	Partition      // between two hosts, both ways, for For
	Crash          // of a process, which begins anew after For
	Stall          // of a process, which does nothing for For
	Step           // of a NIC's clock, by By
	Drift          // of a NIC's clock against its host's, by PPM, from the start
	kinds
)

var kindNames = [kinds]string{"drop", "duplicate", "delay", "corrupt", "mark", "forge", "partition", "crash", "stall", "step", "drift"}

func (k Kind) String() string { return kindNames[k] }

// ofPacket reports whether a fault of the kind befalls one packet.
func (k Kind) ofPacket() bool { return k <= Forge }

// timed reports whether a fault of the kind has an instant.
func (k Kind) timed() bool { return k >= Partition && k <= Step }

// spans reports whether a fault of the kind has a duration.
func (k Kind) spans() bool {
	return k == Duplicate || k == Delay || k == Partition || k == Crash || k == Stall
}

// Fault is one thing that goes wrong.
type Fault struct {
	Kind   Kind
	A, B   int        // packets: from host A to host B; a partition: between them; else process A
	Packet uint64     // which packet of the link, from 0 on
	At     units.Time // when, for a fault that is not about a packet
	For    units.Time
	Bit    uint32
	As     uint32     // a number that the wire's owner draws the forgery by
	By     units.Time // may be negative
	PPM    float64    // -500 to 500
}

// String is the fault as ParseSchedule reads it.
func (f Fault) String() string {
	b := []byte(f.Kind.String())
	switch {
	case f.Kind.ofPacket():
		b = fmt.Appendf(b, " %d>%d #%d", f.A, f.B, f.Packet)
	case f.Kind == Partition:
		b = fmt.Appendf(b, " %d|%d", f.A, f.B)
	default:
		b = fmt.Appendf(b, " %d", f.A)
	}
	if f.Kind.timed() {
		b = fmt.Appendf(b, " at %v", f.At)
	}
	switch {
	case f.Kind.spans():
		b = fmt.Appendf(b, " for %v", f.For)
	case f.Kind == Corrupt:
		b = fmt.Appendf(b, " bit %d", f.Bit)
	case f.Kind == Forge:
		b = fmt.Appendf(b, " as %d", f.As)
	case f.Kind == Step:
		b = fmt.Appendf(b, " by %v", f.By)
	case f.Kind == Drift:
		b = fmt.Appendf(b, " ppm %s", strconv.FormatFloat(f.PPM, 'g', -1, 64))
	}
	return string(b)
}

// Schedule is all that goes wrong in a run.
type Schedule []Fault

// String has a fault a line.
func (s Schedule) String() string {
	var b strings.Builder
	for _, f := range s {
		b.WriteString(f.String())
		b.WriteByte('\n')
	}
	return b.String()
}

// Check says which fault names a host or process that is not among the first n.
func (s Schedule) Check(n int) error {
	for _, f := range s {
		if f.A < 0 || f.A >= n || f.B < 0 || f.B >= n || (f.Kind.ofPacket() || f.Kind == Partition) && f.A == f.B {
			return fmt.Errorf("fault %q: there are processes 0 to %d, and a link is between two of them", f, n-1)
		}
	}
	return nil
}

// maxScheduleLine bounds a line of a schedule, in bytes.
const maxScheduleLine = 4096

// ParseSchedule reads a fault a line, as Fault.String writes it. Empty lines and what
// follows a # that begins a line are left out. Errors name the line.
func ParseSchedule(r io.Reader) (Schedule, error) {
	var s Schedule
	in := bufio.NewScanner(r)
	in.Buffer(make([]byte, maxScheduleLine), maxScheduleLine)
	for line := 1; in.Scan(); line++ {
		text := strings.TrimSpace(in.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		f, err := parseFault(text)
		if err != nil {
			return nil, fmt.Errorf("line %d: %q: %w", line, text, err)
		}
		s = append(s, f)
	}
	return s, in.Err()
}

func parseFault(text string) (f Fault, err error) {
	words := strings.Fields(text)
	kind := slices.Index(kindNames[:], words[0])
	if kind < 0 {
		return f, fmt.Errorf("unknown kind, expected one of %s", strings.Join(kindNames[:], ", "))
	}
	f.Kind = Kind(kind)
	words = words[1:]
	next := func() string {
		if len(words) == 0 {
			return ""
		}
		w := words[0]
		words = words[1:]
		return w
	}
	number := func(w, what string) int {
		n, bad := strconv.Atoi(w)
		if (bad != nil || n < 0) && err == nil {
			err = fmt.Errorf("%s is %q, expected a number from 0 on", what, w)
		}
		return n
	}
	span := func(w string) (t units.Time) {
		if bad := t.UnmarshalText([]byte(w)); bad != nil && err == nil {
			err = bad
		}
		return t
	}
	keyword := func(w string) {
		if got := next(); got != w && err == nil {
			err = fmt.Errorf("expected %q, got %q", w, got)
		}
	}
	switch {
	case f.Kind.ofPacket():
		a, b, _ := strings.Cut(next(), ">")
		f.A, f.B = number(a, "the sender"), number(b, "the receiver")
		packet, ok := strings.CutPrefix(next(), "#")
		if !ok && err == nil {
			err = fmt.Errorf("expected the packet's number, such as #17")
		}
		f.Packet = uint64(number(packet, "the packet"))
	case f.Kind == Partition:
		a, b, _ := strings.Cut(next(), "|")
		f.A, f.B = number(a, "the one host"), number(b, "the other host")
	default:
		f.A = number(next(), "the process")
	}
	if f.Kind.timed() {
		keyword("at")
		f.At = span(next())
	}
	switch {
	case f.Kind.spans():
		keyword("for")
		f.For = span(next())
	case f.Kind == Corrupt:
		keyword("bit")
		n, bad := strconv.ParseUint(next(), 10, 32)
		if bad != nil && err == nil {
			err = fmt.Errorf("the bit: expected a number of 32 bits")
		}
		f.Bit = uint32(n)
	case f.Kind == Forge:
		keyword("as")
		n, bad := strconv.ParseUint(next(), 10, 32)
		if bad != nil && err == nil {
			err = fmt.Errorf("the forgery: expected a number of 32 bits")
		}
		f.As = uint32(n)
	case f.Kind == Step:
		keyword("by")
		f.By = span(next())
	case f.Kind == Drift:
		keyword("ppm")
		var bad error
		if f.PPM, bad = strconv.ParseFloat(next(), 64); (bad != nil || !(f.PPM >= -500 && f.PPM <= 500)) && err == nil {
			err = fmt.Errorf("ppm: expected -500 to 500")
		}
	}
	switch {
	case err != nil:
	case f.At < 0 || f.For < 0:
		err = fmt.Errorf("a negative time")
	case len(words) > 0:
		err = fmt.Errorf("%q is too much", words[0])
	}
	return f, err
}

// wire carries packets by a schedule.
type wire struct {
	hosts int
	sent  []uint64  // by link
	ahead [][]Fault // by link: the packets' faults, the next one first
	parts []Fault
}

// Wire returns the schedule's wire between hosts. The wire counts the packets
// of each link, so each run needs its own.
func (s Schedule) Wire(hosts int) Wire {
	w := &wire{hosts: hosts, sent: make([]uint64, hosts*hosts), ahead: make([][]Fault, hosts*hosts)}
	for _, f := range s {
		switch {
		case f.Kind.ofPacket():
			at := f.A*hosts + f.B
			w.ahead[at] = append(w.ahead[at], f)
		case f.Kind == Partition:
			w.parts = append(w.parts, f)
		}
	}
	for _, a := range w.ahead {
		slices.SortStableFunc(a, func(x, y Fault) int { return cmp.Compare(x.Packet, y.Packet) })
	}
	return w
}

// Carry implements Wire.
func (w *wire) Carry(now units.Time, from, to int) (fate Fate) {
	at := from*w.hosts + to
	n := w.sent[at]
	w.sent[at]++
	for _, p := range w.parts {
		if (p.A == from && p.B == to || p.A == to && p.B == from) && now >= p.At && now-p.At < p.For {
			fate.Drop = true
		}
	}
	for ahead := w.ahead[at]; len(ahead) > 0 && ahead[0].Packet <= n; ahead = w.ahead[at] {
		f := &ahead[0]
		w.ahead[at] = ahead[1:]
		switch f.Kind {
		case Drop:
			fate.Drop = true
		case Duplicate:
			fate.Duplicate, fate.Delay = true, f.For
		case Delay:
			fate.Delay = f.For
		case Corrupt:
			fate.Corrupt, fate.Bit = true, f.Bit
		case Mark:
			fate.Mark = true
		case Forge:
			fate.Forge, fate.As = true, f.As
		}
	}
	return fate
}

// Shrink returns a part of the schedule that still fails, from which no fault can be left
// out, as far as the tries show (delta debugging: Zeller and Hildebrandt, Simplifying and
// Isolating Failure-Inducing Input, 2002). fails runs with a schedule.
func (s Schedule) Shrink(tries int, fails func(Schedule) bool) Schedule {
	s = slices.Clone(s)
	for parts := 2; len(s) > 0 && tries > 0; {
		size := (len(s) + parts - 1) / parts
		shorter := false
		for at := 0; at < len(s) && tries > 0; at += size {
			without := slices.Concat(s[:at], s[min(at+size, len(s)):])
			tries--
			if fails(without) {
				s, shorter = without, true
				break
			}
		}
		switch {
		case shorter:
			parts = max(parts-1, 2)
		case size == 1:
			return s
		default:
			parts = min(2*parts, len(s))
		}
	}
	return s
}
