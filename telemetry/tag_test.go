package telemetry

import (
	"bytes"
	"testing"

	"github.com/sluice-rdma/sluice/units"
	"pgregory.net/rapid"
)

func plainFrame(vlans int) []byte {
	f := []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2}
	for range vlans {
		f = append(f, 0x81, 0, 0x60, 5)
	}
	return append(f, 0x08, 0x00, 0x45, 1, 2, 3)
}

func TestTagsInAFrame(t *testing.T) {
	for _, form := range forms {
		f := DefaultDelayFormat(form)
		for vlans := range 3 {
			plain := plainFrame(vlans)
			if got, ok := f.Find(plain); ok || got.Offset != 12+4*vlans || got.Bytes != 0 {
				t.Errorf("%v: tags in a plain frame with %d VLAN tags: %+v", form, vlans, got)
			}
			for _, reflect := range []*DelayTag{nil, {Code: 9}} {
				frame := f.Append(nil, plain, DelayTag{Code: 3}, reflect)
				got, ok := f.Find(frame)
				n := form.Bytes()
				if reflect != nil {
					n *= 2
				}
				if !ok || got.Bytes != n || got.Offset != 12+4*vlans || !got.HasForward || got.Forward.Code != 3 ||
					got.HasReflected != (reflect != nil) || reflect != nil && got.Reflected.Code != 9 {
					t.Errorf("%v: %+v, %v", form, got, ok)
				}
				for end := range got.Offset + got.Bytes + 2 {
					if cut, ok := f.Find(frame[:end]); ok && end < got.Offset+form.Bytes()+2 {
						t.Errorf("%v: %+v in the first %d bytes of %x", form, cut, end, frame)
					}
				}
				if left := got.Remove(frame); !bytes.Equal(left, plain) {
					t.Errorf("%v: %x is left of %x", form, left, plain)
				}
			}
		}
	}
}

func TestFindRefuses(t *testing.T) {
	f := DefaultDelayFormat(Compact)
	fwd, refl := DelayTag{Code: 1}, DelayTag{Code: 2, Reflected: true}
	for _, c := range []struct {
		name string
		tags []DelayTag
	}{
		{"two forward tags", []DelayTag{fwd, fwd}},
		{"two reflected tags", []DelayTag{refl, refl}},
		{"the reflected tag first", []DelayTag{refl, fwd}},
		{"three tags", []DelayTag{fwd, refl, fwd}},
	} {
		frame := plainFrame(0)[:12]
		for _, tag := range c.tags {
			var b [compactBytes]byte
			f.Put(b[:], tag)
			frame = append(frame, b[:]...)
		}
		frame = append(frame, 0x08, 0x00)
		if got, ok := f.Find(frame); ok {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	// A lone reflected tag is fine, one of another signal is none.
	frame := append(append(plainFrame(0)[:12], 0x88, 0xb6, 0xc0, 0x80), 0x08, 0x00)
	if got, ok := f.Find(frame); !ok || !got.HasReflected || got.HasForward {
		t.Errorf("a reflected tag: %+v, %v", got, ok)
	}
	frame[14] = SignalQueueDepth << 5
	if _, ok := f.Find(frame); ok {
		t.Error("a tag of queue depth is taken for delay")
	}
}

func TestRaise(t *testing.T) {
	for _, form := range forms {
		f := DefaultDelayFormat(form)
		frame := f.Append(nil, plainFrame(1), DelayTag{Code: 5}, &DelayTag{Code: 1})
		for _, step := range []struct{ code, want uint32 }{{4, 5}, {7, 7}, {6, 7}, {1 << 30, form.MaxCode()}} {
			if !f.Raise(frame, step.code, 0) {
				t.Fatal("no tag")
			}
			got, _ := f.Find(frame)
			if got.Forward.Code != step.want || got.Reflected.Code != 1 {
				t.Errorf("%v: raised to %d reads %+v, want %d", form, step.code, got, step.want)
			}
		}
		if f.Raise(plainFrame(0), 3, 0) {
			t.Error("a plain frame has a tag")
		}
		if form == Value {
			continue
		}
		frozen := f.Append(nil, plainFrame(0), DelayTag{Code: 5, Frozen: true}, nil)
		f.Raise(frozen, 9, 0)
		if got, _ := f.Find(frozen); got.Forward.Code != 5 {
			t.Errorf("%v: a frozen tag reads %d", form, got.Forward.Code)
		}
	}
}

func TestTheTagOfAPathIsThatOfItsLongestDelay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := anyFormat(t)
		frame := f.Append(nil, plainFrame(0), DelayTag{}, nil)
		var longest units.Time
		for _, d := range rapid.SliceOfN(rapid.Int64Range(0, int64(10*units.Millisecond)), 1, MaxHops).Draw(t, "delays") {
			f.Raise(frame, f.Quantise(units.Time(d)), 5)
			longest = max(longest, units.Time(d))
		}
		if got, _ := f.Find(frame); f.Delay(got.Forward.Code) != f.Quantised(longest) {
			t.Fatalf("read %v, want %v", f.Delay(got.Forward.Code), f.Quantised(longest))
		}
	})
}

func TestEINBits(t *testing.T) {
	bth := make([]byte, 12)
	bth[4] = 0x80
	SetEIN(bth, EIN)
	if EINBits(bth) != EIN || bth[4] != 0x80|EIN {
		t.Errorf("%#x", bth[4])
	}
	SetEIN(bth, 0xff)
	if EINBits(bth) != EIN|EINEcho || bth[4] != 0x80|EIN|EINEcho {
		t.Errorf("%#x", bth[4])
	}
	SetEIN(bth[:4], EIN)
	if EINBits(bth[:4]) != 0 {
		t.Error("bits of a BTH that is too short")
	}
}

func FuzzTags(f *testing.F) {
	for _, form := range forms {
		df := DefaultDelayFormat(form)
		f.Add(uint8(form), uint32(7), df.Append(nil, plainFrame(1), DelayTag{Code: 3}, &DelayTag{Code: 9}))
		f.Add(uint8(form), uint32(7), plainFrame(2))
		f.Add(uint8(form), uint32(7), plainFrame(0)[:13])
	}
	f.Fuzz(func(t *testing.T, form uint8, code uint32, frame []byte) {
		df := DefaultDelayFormat(DelayForm(form % 3))
		before := bytes.Clone(frame)
		raised := df.Raise(frame, code, 0)
		if len(frame) != len(before) || !raised && !bytes.Equal(frame, before) {
			t.Fatalf("%x became %x", before, frame)
		}
		tags, ok := df.Find(frame)
		if raised && ok && (!tags.HasForward || !tags.Forward.Frozen && tags.Forward.Code < min(code, df.Form.MaxCode())) {
			t.Fatalf("raised to %d: %+v", code, tags)
		}
		if !ok {
			return
		}
		left := tags.Remove(bytes.Clone(frame))
		if again, _ := df.Find(left); again.Offset != tags.Offset || again.Bytes != 0 || !tags.HasForward {
			return // what followed the tags was a VLAN tag, another tag, or nothing
		}
		var reflect *DelayTag
		if tags.HasReflected {
			reflect = &tags.Reflected
		}
		// Reserved bits are not kept.
		back, ok := df.Find(df.Append(nil, left, tags.Forward, reflect))
		if ok && back != tags {
			t.Fatalf("%+v came back as %+v", tags, back)
		}
	})
}
