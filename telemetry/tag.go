package telemetry

import "encoding/binary"

// EtherTypes that are looked for.
const (
	etherTypeIPv4 = 0x0800
	etherTypeVLAN = 0x8100
	etherTypeIPv6 = 0x86dd
	etherTypeQinQ = 0x88a8
)

const (
	macBytes  = 12
	vlanBytes = 4
	maxVLANs  = 2
)

func isTagged(etherType uint16) bool {
	return etherType == etherTypeVLAN || etherType == etherTypeQinQ
}

// FrameTags is what the delay tags of a frame say and where they stand.
type FrameTags struct {
	Forward, Reflected       DelayTag
	HasForward, HasReflected bool
	// Offset is where the tags begin, or would: at the EtherType behind the MAC
	// addresses and up to two VLAN tags. Bytes is the length of the present ones.
	Offset, Bytes int
}

// Find reads the tags of an Ethernet frame: a forward one, a reflected one, or both
// in this order. It reports false for a frame that has none, that is cut short
// within them, or that has more than one of either. Tags of other signals count as none.
func (f *DelayFormat) Find(frame []byte) (t FrameTags, ok bool) {
	if t.Offset = tagOffset(frame); t.Offset == 0 {
		return t, false
	}
	for {
		tag, is := f.Parse(frame[t.Offset+t.Bytes:])
		switch {
		case !is || !tag.isDelay():
			return t, t.HasForward || t.HasReflected
		case tag.Reflected && !t.HasReflected:
			t.Reflected, t.HasReflected = tag, true
		case !tag.Reflected && !t.HasReflected && !t.HasForward:
			t.Forward, t.HasForward = tag, true
		default:
			return t, false
		}
		t.Bytes += f.Form.Bytes()
		if len(frame) < t.Offset+t.Bytes+2 {
			return FrameTags{}, false
		}
	}
}

// Remove takes the tags that Find found out of frame and returns what is left, which
// is the end of frame: the addresses before the tags move, the packet stays.
func (t *FrameTags) Remove(frame []byte) []byte {
	copy(frame[t.Bytes:], frame[:t.Offset])
	return frame[t.Bytes:]
}

// Append appends frame, which has no tags, to dst with a forward tag and, if
// reflect is not nil, a reflected one behind it. A host that reflects sends both:
// switches that know only CSIG look at the first tag alone. A frame too short for
// an EtherType is appended as it is.
func (f *DelayFormat) Append(dst, frame []byte, forward DelayTag, reflect *DelayTag) []byte {
	at := tagOffset(frame)
	if at == 0 {
		return append(dst, frame...)
	}
	var b [2 * WideBytes]byte
	forward.Reflected = false
	n := f.Put(b[:], forward)
	if reflect != nil {
		r := *reflect
		r.Reflected = true
		n += f.Put(b[n:], r)
	}
	dst = append(dst, frame[:at]...)
	dst = append(dst, b[:n]...)
	return append(dst, frame[at:]...)
}

// Raise is what a switch does: if the first tag of frame is a forward one that is
// not frozen and says less than code, it says code from now on, and has the switch's
// locator. It reports whether the first tag is a forward one of the delay.
func (f *DelayFormat) Raise(frame []byte, code uint32, locator uint16) bool {
	at := tagOffset(frame)
	if at == 0 || len(frame) < at+f.Form.Bytes()+2 {
		return false
	}
	t, ok := f.Parse(frame[at:])
	if !ok || t.Signal != SignalDelay {
		return false
	}
	if !t.Frozen && min(code, f.Form.MaxCode()) > t.Code {
		t.Code, t.Locator = code, locator
		f.Put(frame[at:], t)
	}
	return true
}

// tagOffset returns where tags begin, or would: behind the MAC addresses and up to
// two VLAN tags. It returns 0 if frame has no EtherType there.
func tagOffset(frame []byte) int {
	at := macBytes
	for n := 0; ; n++ {
		if len(frame) < at+2 {
			return 0
		}
		if n == maxVLANs || !isTagged(binary.BigEndian.Uint16(frame[at:])) {
			return at
		}
		at += vlanBytes
	}
}
