package telemetry

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluice-rdma/sluice/units"
)

// Form is a way in which a signal of switches is written into packets, by the name
// that options and scenarios give it.
type Form struct {
	Name string
	// Kind is the telemetry that the form carries: MaxDelay, PerHop, or None for the
	// explicit incast notification, which packets can have beside either.
	Kind Kind
	// Delay is the form of a MaxDelay tag, INT that of PerHop records.
	Delay DelayForm
	INT   INTForm
	// Bytes is what the form adds to a packet, HopBytes what each hop adds to it.
	Bytes, HopBytes int
}

// Forms returns all forms.
func Forms() []Form {
	var all []Form
	for i := range delayLayouts {
		l := &delayLayouts[i]
		all = append(all, Form{Name: l.name, Kind: MaxDelay, Delay: DelayForm(i), Bytes: l.bytes})
	}
	for i := range intLayouts {
		l := &intLayouts[i]
		all = append(all, Form{Name: l.name, Kind: PerHop, INT: INTForm(i), Bytes: l.shim, HopBytes: l.record})
	}
	return append(all, Form{Name: "ein", Kind: None})
}

// FormNamed returns the form of a name, or an error that lists the names.
func FormNamed(name string) (Form, error) {
	for _, f := range Forms() {
		if f.Name == name {
			return f, nil
		}
	}
	return Form{}, fmt.Errorf("unknown form of telemetry %q, expected %s", name, FormNames(func(Form) bool { return true }))
}

// FormNames lists the names of the forms that match, for people: "a, b or c".
func FormNames(match func(Form) bool) string {
	var names []string
	for _, f := range Forms() {
		if match(f) {
			names = append(names, f.Name)
		}
	}
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " or " + names[n-1]
	}
	return strings.Join(names, "")
}

// IsDelay reports whether f is a tag of the largest delay.
func (f Form) IsDelay() bool { return f.Kind == MaxDelay }

// IsScaled reports whether f is a tag to which DelayFormat's Base and Step apply.
func (f Form) IsScaled() bool { return f.IsDelay() && f.Delay.Scaled() }

// IsPerHop reports whether f is records, one a hop.
func (f Form) IsPerHop() bool { return f.Kind == PerHop }

// The forms of the largest delay. Wide and Compact are the tags of congestion
// signaling, CSIG (Ultra Ethernet specification 1.1; proposal for SAI 1.18), Value is
// Poseidon's two bytes (section 4, listing 1) behind an EtherType of their own.
const (
	Wide    DelayForm = iota // 8 bytes, 20 bits of value
	Compact                  // 4 bytes, 5 bits of value
	Value                    // 4 bytes, 15 bits of value
)

// delayLayouts has a layout for each DelayForm.
var delayLayouts = [...]delayLayout{
	Wide: {
		name: "csig-wide", bytes: WideBytes, etherType: EtherTypeWide,
		locator: field(33, 15), frozen: field(32, 1), signal: field(28, 4), value: field(8, 20),
		forward: SignalDelay, reflected: SignalReflected, scale: linear,
	},
	Compact: {
		name: "csig-compact", bytes: compactBytes, etherType: EtherTypeCompact,
		signal: field(13, 3), value: field(7, 5), locator: field(1, 6), frozen: field(0, 1),
		forward: SignalDelay, reflected: SignalReflected, scale: buckets,
	},
	Value: {
		name: "poseidon", bytes: valueBytes, etherType: EtherTypeValue,
		signal: field(15, 1), value: field(0, 15),
		forward: 0, reflected: 1, scale: fixed, unit: ValueUnit,
	},
}

// delayLayout is how one form of tags stands in a frame. Fields are in the tag's body,
// which is what follows the EtherType as an integer in network order.
type delayLayout struct {
	name      string
	bytes     int // with the EtherType: 4 or 8
	etherType uint16

	value, signal, locator, frozen bitField
	// forward and reflected are what signal is in the tags of a delay.
	forward, reflected uint64

	scale scale
	unit  units.Time // of a fixed scale
}

// The forms of per-hop INT.
const (
	// INT64 has P4-INT's shim of four bytes (P4-INT 2.1, section 5.6.2) and 64 bits a hop,
	// HPCC's (figure 4) and PowerTCP's (section 3.6).
	INT64 INTForm = iota
)

// intLayouts has a layout for each INTForm.
var intLayouts = [...]intLayout{
	INT64: {
		name: "int", shim: 4, record: 8, most: MaxHops, latestFirst: true,
		// P4-INT's type: 1 is INT-MD, 2 a destination's INT, 3 INT-MX; 4 is unassigned, and says
		// that no header of INT-MD follows but the records at once. Its NPT of 1 says that the
		// shim holds a port. Overflow and reflected are its reserved bits.
		kind: field(26, 6), is: 4<<2 | 1, overflow: field(25, 1), reflected: field(24, 1),
		count: field(16, 8), counts: 4, port: field(0, 16),
		rate: field(60, 4), time: field(36, 24), tx: field(16, 20), queue: field(0, 16),
		timeUnit: units.Nanosecond, txUnit: 128, queueUnit: CellBytes,
	},
}

// intLayout is how one form of per-hop INT stands behind UDP: a shim and records, each an
// integer in network order, of which fields are bits.
type intLayout struct {
	name         string
	shim, record int   // bytes: 4 or 8, 8 or 16
	most         uint8 // hops, up to MaxHops
	latestFirst  bool  // a switch puts its record before the others, else behind them

	// In the shim: kind, which is what is says; overflow, if the form has that, where hops are
	// missing; reflected, on the way back to the sender; count, of what has counts bytes, a
	// power of two; and the UDP destination port that the packet had.
	kind, overflow, reflected, count, port bitField
	is                                     uint64
	counts                                 uint8

	// In a record, each below or above bit 64. A rate is a code, of which the last is none;
	// time and tx wrap, queue saturates.
	rate, time, tx, queue bitField
	timeUnit              units.Time
	txUnit, queueUnit     units.Bytes
}

// timeWrap is the time after which a record's repeats, txWrap the bytes.
func (l *intLayout) timeWrap() units.Time { return l.timeUnit * units.Time(l.time.most+1) }
func (l *intLayout) txWrap() units.Bytes  { return l.txUnit * units.Bytes(l.tx.most+1) }

// scale says which delays codes stand for.
type scale uint8

const (
	linear  scale = iota // DelayFormat's Base and Step
	buckets              // DelayFormat's Buckets
	fixed                // multiples of the layout's unit
)

// bitField is a field of a tag's body, of a shim or of a record by its lowest bit and its largest value, which is
// 0 for a field that the form does not have.
type bitField struct {
	shift uint8
	most  uint64
}

func field(shift, n uint8) bitField { return bitField{shift, 1<<n - 1} }

func (f *bitField) put(v uint64) uint64   { return v & f.most << (f.shift & 63) }
func (f *bitField) of(body uint64) uint64 { return body >> (f.shift & 63) & f.most }

// DelayForm is how the largest queueing delay of any one hop is written into a
// frame: as a tag between the MAC addresses, or a VLAN tag behind them, and the
// EtherType. The ICRC covers none of it and no length changes.
type DelayForm uint8

func (f DelayForm) valid() bool { return int(f) < len(delayLayouts) }

func (f DelayForm) String() string {
	if !f.valid() {
		return fmt.Sprintf("form %d", uint8(f))
	}
	return delayLayouts[f].name
}

// MarshalText writes the form's name.
func (f DelayForm) MarshalText() ([]byte, error) {
	if !f.valid() {
		return nil, errForm
	}
	return []byte(f.String()), nil
}

// UnmarshalText reads a form's name. The error of another name lists the forms.
func (f *DelayForm) UnmarshalText(b []byte) error {
	i := slices.IndexFunc(delayLayouts[:], func(l delayLayout) bool { return l.name == string(b) })
	if i < 0 {
		return fmt.Errorf("unknown form of a delay tag %q, expected %s", b, FormNames(Form.IsDelay))
	}
	*f = DelayForm(i)
	return nil
}

// Bytes returns the tag's length with its EtherType.
func (f DelayForm) Bytes() int { return delayLayouts[f].bytes }

// Scaled reports whether DelayFormat's Base and Step apply to the form.
func (f DelayForm) Scaled() bool { return delayLayouts[f].scale == linear }

// MaxCode returns the largest value that the form can carry.
func (f DelayForm) MaxCode() uint32 { return uint32(delayLayouts[f].value.most) }

// SignalBits returns the bits of a tag's body, which is what follows the EtherType as an
// integer in network order, that say of what the value is.
func (f DelayForm) SignalBits() uint64 {
	s := delayLayouts[f].signal
	return s.most << s.shift
}

// INTForm is how a record for each hop is written into a packet: behind UDP, as a shim and
// the records.
type INTForm uint8

func (f INTForm) valid() bool { return int(f) < len(intLayouts) }

func (f INTForm) String() string {
	if !f.valid() {
		return fmt.Sprintf("form %d", uint8(f))
	}
	return intLayouts[f].name
}

// Bytes returns the length of a shim with the records of that number of hops.
func (f INTForm) Bytes(hops int) int { return intLayouts[f].shim + intLayouts[f].record*hops }

// MaxHops returns how many hops a packet has records of at most.
func (f INTForm) MaxHops() int { return int(intLayouts[f].most) }
