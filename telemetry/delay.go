package telemetry

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"github.com/sluice-rdma/sluice/units"
)

// EtherTypes that the tags have unless the network says otherwise. None is assigned
// to CSIG or to Poseidon; these two are IEEE 802's for local experiments. Each
// stands for one length, so that a reader that knows neither form can skip the tag.
const (
	EtherTypeWide    = 0x88b5
	EtherTypeCompact = 0x88b6
	EtherTypeValue   = 0x88b6
)

// Sizes of the tags in bytes.
const (
	WideBytes    = 8
	compactBytes = 4
	valueBytes   = 4
)

// Signal types of CSIG; its 0 and 1 are of available bandwidth. SignalReflected is not CSIG's, which returns signals in a
// transport header of Ultra Ethernet: it is a type that CSIG leaves unassigned, so
// that switches that know only CSIG's leave the tag as it is.
const (
	SignalDelay      = 2 // maximum delay of a hop
	SignalQueueDepth = 3 // maximum queue depth over the port's rate
	SignalReflected  = 6 // SignalDelay, on its way back to the sender
)

// compactBuckets is the number of values of a compact tag.
const compactBuckets = 32

// ValueUnit is the unit of Poseidon's form: Tofino's deq_timedelta is in
// nanoseconds, and the program of the paper drops its lowest eight bits.
const ValueUnit = 256 * units.Nanosecond

// DelayFormat is a form with all that senders, switches and receivers of a network
// have to agree on. DefaultDelayFormat has it filled in. It is not changed once in
// use and may then be shared.
type DelayFormat struct {
	Form      DelayForm
	EtherType uint16

	// Base and Step are the wide tag's: code c stands for [Base + c Step, Base +
	// (c+1) Step), smaller delays are 0. Both are whole nanoseconds and powers of two
	// of them, as CSIG asks, and Base may be 0 too.
	Base, Step units.Time

	// Buckets are the compact tag's: code c stands for [Buckets[c], Buckets[c+1]), the
	// last one for all that is longer. The first is 0, and they grow.
	Buckets [compactBuckets]units.Time
}

// DefaultDelayFormat returns the format that a network has if it says nothing: wide
// codes count nanoseconds from 0 (to 1.05 ms), compact buckets are 512 ns wide to
// 8.192 us and grow by a quarter from there to 262.144 us, which is when Tofino's
// clock wraps.
func DefaultDelayFormat(form DelayForm) DelayFormat {
	f := DelayFormat{Form: form, Step: units.Nanosecond, Buckets: defaultBuckets}
	if form.valid() {
		f.EtherType = delayLayouts[form].etherType
	}
	return f
}

// defaultBuckets are multiples of 512 ns.
var defaultBuckets = func() (b [compactBuckets]units.Time) {
	for c, n := range [compactBuckets]units.Time{
		0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16,
		20, 25, 31, 39, 49, 61, 76, 95, 119, 149, 186, 233, 291, 364, 455, 512,
	} {
		b[c] = n * 512 * units.Nanosecond
	}
	return b
}()

var errForm = errors.New("telemetry: unknown form of a delay tag")

// Validate says what is wrong with f.
func (f *DelayFormat) Validate() error {
	switch {
	case !f.Form.valid():
		return errForm
	case f.EtherType < 0x0600:
		return fmt.Errorf("telemetry: EtherType %#04x of a delay tag, expected 0x0600 or more: it would be a length", f.EtherType)
	case isTagged(f.EtherType) || f.EtherType == etherTypeIPv4 || f.EtherType == etherTypeIPv6:
		return fmt.Errorf("telemetry: EtherType %#04x of a delay tag is that of VLAN tags, IPv4 or IPv6", f.EtherType)
	}
	switch delayLayouts[f.Form].scale {
	case linear:
		if !powerOfTwo(f.Step) {
			return fmt.Errorf("telemetry: the wide tag's step is %v, expected a power of two of nanoseconds", f.Step)
		}
		if f.Base != 0 && !powerOfTwo(f.Base) {
			return fmt.Errorf("telemetry: the wide tag's base is %v, expected 0 or a power of two of nanoseconds", f.Base)
		}
	case buckets:
		if f.Buckets[0] != 0 {
			return fmt.Errorf("telemetry: the compact tag's first bucket begins at %v, expected 0", f.Buckets[0])
		}
		for c := 1; c < compactBuckets; c++ {
			if f.Buckets[c] <= f.Buckets[c-1] {
				return fmt.Errorf("telemetry: the compact tag's bucket %d begins at %v, not after the one before it, %v", c, f.Buckets[c], f.Buckets[c-1])
			}
		}
	}
	return nil
}

// maxWide bounds base and step, so that no code's delay overflows: 2^32 ns.
const maxWide = units.Nanosecond << 32

// powerOfTwo reports whether t is 2^k ns, k from 0 to 32.
func powerOfTwo(t units.Time) bool {
	n := uint64(t / units.Nanosecond)
	return t > 0 && t <= maxWide && t%units.Nanosecond == 0 && n&(n-1) == 0
}

// Quantise returns what a switch writes for a delay: rounded down, a delay that is
// too long as the largest code, a negative one as 0. It never falls as the delay
// grows, so the largest code of a path is that of the largest delay.
func (f *DelayFormat) Quantise(delay units.Time) uint32 {
	l := &delayLayouts[f.Form]
	switch l.scale {
	case linear:
		if delay < f.Base {
			return 0
		}
		shift := bits.TrailingZeros64(uint64(f.Step / units.Nanosecond))
		return clamp(int64((delay-f.Base)/units.Nanosecond)>>shift, l.value.most)
	case buckets:
		lo, hi := 0, compactBuckets // the code is in [lo, hi)
		for hi-lo > 1 {
			if mid := (lo + hi) / 2; f.Buckets[mid] <= delay {
				lo = mid
			} else {
				hi = mid
			}
		}
		return uint32(lo)
	default:
		return clamp(int64(delay/l.unit), l.value.most)
	}
}

func clamp(v int64, most uint64) uint32 { return uint32(min(max(v, 0), int64(most))) }

// Delay returns what a sender takes a code for: the shortest delay that it stands
// for, so that code 0 is no delay, except that a code 0 with a Base is also all that
// is shorter than Base and is taken for no delay too. Codes beyond MaxCode count as MaxCode.
func (f *DelayFormat) Delay(code uint32) units.Time {
	l := &delayLayouts[f.Form]
	code = min(code, uint32(l.value.most))
	switch l.scale {
	case linear:
		if code == 0 {
			return 0
		}
		return f.Base + units.Time(code)*f.Step
	case buckets:
		return f.Buckets[code]
	default:
		return units.Time(code) * l.unit
	}
}

// Quantised returns the delay that a sender reads for one that a switch measured. To
// quantise as a switch with a coarse clock does, give it the delay that
// SwitchClock.InQueue has.
func (f *DelayFormat) Quantised(delay units.Time) units.Time { return f.Delay(f.Quantise(delay)) }

// DelayTag is what one tag says.
type DelayTag struct {
	Code      uint32
	Reflected bool // on its way back to the sender: no switch touches it
	// Signal is CSIG's signal type, which Put takes from Reflected; a tag of another
	// signal than SignalDelay and SignalReflected says nothing about delay.
	Signal uint8
	// Frozen is CSIG's d bit: the packet was trimmed, no switch raises the value further.
	Frozen bool
	// Locator is CSIG's hint at the hop that wrote the value: 15 bits in a wide tag, 6 in a compact one.
	Locator uint16
}

// isDelay reports whether the tag is about the delay of a hop, forward or reflected.
func (t *DelayTag) isDelay() bool { return t.Signal == SignalDelay || t.Signal == SignalReflected }

// Put writes a tag, which begins with its EtherType, and returns its length. b must
// have room for it. What the form has no bits for is dropped, a Code is limited to MaxCode.
func (f *DelayFormat) Put(b []byte, t DelayTag) int {
	l := &delayLayouts[f.Form]
	signal := l.forward
	if t.Reflected {
		signal = l.reflected
	}
	body := l.signal.put(signal) | min(uint64(t.Code), l.value.most)<<(l.value.shift&63) | l.locator.put(uint64(t.Locator))
	if t.Frozen {
		body |= l.frozen.put(1)
	}
	if l.bytes == 4 {
		binary.BigEndian.PutUint32(b, uint32(f.EtherType)<<16|uint32(body))
	} else {
		binary.BigEndian.PutUint64(b, uint64(f.EtherType)<<48|body)
	}
	return l.bytes
}

// Parse reads the tag that b begins with, and reports whether there is one. Fields that
// the form does not have are zero, Signal aside.
func (f *DelayFormat) Parse(b []byte) (t DelayTag, ok bool) {
	l := &delayLayouts[f.Form]
	if len(b) < l.bytes || binary.BigEndian.Uint16(b) != f.EtherType {
		return DelayTag{}, false
	}
	var body uint64
	if l.bytes == 4 {
		body = uint64(binary.BigEndian.Uint16(b[2:]))
	} else {
		body = binary.BigEndian.Uint64(b) & (1<<48 - 1)
	}
	t = DelayTag{Code: uint32(l.value.of(body)), Frozen: l.frozen.of(body) != 0, Locator: uint16(l.locator.of(body))}
	switch signal := l.signal.of(body); signal {
	case l.forward:
		t.Signal = SignalDelay
	case l.reflected:
		t.Signal, t.Reflected = SignalReflected, true
	default:
		t.Signal = uint8(signal)
	}
	return t, true
}
