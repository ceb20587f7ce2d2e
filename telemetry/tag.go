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
	// addresses and up to two VLAN tags. Bytes is the length of those that are there.
	Offset, Bytes int
}

// Find reads the tags of an Ethernet frame: a forward one, a reflected one, or both
// in this order. It reports false for a frame that has none, that is cut short
// within them, or that has more than one of either. Tags of other signals count as none.
func (f *DelayFormat) Find(frame []byte) (t FrameTags, ok bool) {
	t.Offset = macBytes
	for n := 0; ; n++ {
		if len(frame) < t.Offset+2 {
			return FrameTags{}, false
		}
		if n == maxVLANs || !isTagged(binary.BigEndian.Uint16(frame[t.Offset:])) {
			break
		}
		t.Offset += vlanBytes
	}
	for {
		tag, is := f.Parse(frame[t.Offset+t.Bytes:])
		switch {
		case !is || !tag.IsDelay():
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
	t, _ := f.Find(frame)
	if t.Offset == 0 {
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
	dst = append(dst, frame[:t.Offset]...)
	dst = append(dst, b[:n]...)
	return append(dst, frame[t.Offset:]...)
}

// Raise is what a switch does: if frame has a forward tag that is not frozen and
// says less than code, it says code from now on. It reports whether there is a
// forward tag of the delay.
func (f *DelayFormat) Raise(frame []byte, code uint32) bool {
	t, ok := f.Find(frame)
	if !ok || !t.HasForward {
		return false
	}
	if !t.Forward.Frozen && code > t.Forward.Code {
		t.Forward.Code = code
		f.Put(frame[t.Offset:], t.Forward)
	}
	return true
}
