package telemetry

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/units"
	"pgregory.net/rapid"
)

var forms = func() (all []DelayForm) {
	for i := range delayLayouts {
		all = append(all, DelayForm(i))
	}
	return all
}()

func TestDelayTagBytes(t *testing.T) {
	for _, c := range []struct {
		form DelayForm
		tag  DelayTag
		want string
	}{
		// EtherType; lm 15, d; t 4, s 20, r 8.
		{Wide, DelayTag{Code: 0x12345, Signal: SignalDelay}, "88b50000 21234500"},
		{Wide, DelayTag{Code: 1, Signal: SignalReflected, Reflected: true}, "88b50000 60000100"},
		{Wide, DelayTag{Code: 0xfffff, Signal: SignalDelay, Frozen: true, Locator: 0x7fff}, "88b5ffff 2fffff00"},
		// EtherType; t 3, r 1, s 5, lm 6, d 1.
		{Compact, DelayTag{Code: 31, Signal: SignalDelay}, "88b64f80"},
		{Compact, DelayTag{Code: 1, Signal: SignalReflected, Reflected: true}, "88b6c080"},
		{Compact, DelayTag{Signal: SignalDelay, Frozen: true, Locator: 0x3f}, "88b6407f"},
		// EtherType; reflected 1, value 15.
		{Value, DelayTag{Code: 0x1234, Signal: SignalDelay}, "88b61234"},
		{Value, DelayTag{Code: 0x7fff, Signal: SignalReflected, Reflected: true}, "88b6ffff"},
	} {
		f := DefaultDelayFormat(c.form)
		want, err := hex.DecodeString(strings.ReplaceAll(c.want, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, c.form.Bytes())
		if n := f.Put(b, c.tag); n != len(want) || !bytes.Equal(b, want) {
			t.Errorf("%v: %+v is %x, want %x", c.form, c.tag, b, want)
		}
		if got, ok := f.Parse(want); !ok || got != c.tag {
			t.Errorf("%v: %x reads as %+v, want %+v", c.form, want, got, c.tag)
		}
		if _, ok := f.Parse(want[:len(want)-1]); ok {
			t.Errorf("%v: a tag cut short is read", c.form)
		}
	}
}

func TestSizesAreThoseThatTheModelsCharge(t *testing.T) {
	if MaxDelayBytes != WideBytes || Wide.Bytes() != WideBytes || Compact.Bytes() != compactBytes || Value.Bytes() != valueBytes {
		t.Errorf("tags of %d, %d and %d bytes", Wide.Bytes(), Compact.Bytes(), Value.Bytes())
	}
}

func TestQuantise(t *testing.T) {
	const ns, us = units.Nanosecond, units.Microsecond
	coarse := DefaultDelayFormat(Wide)
	coarse.Base, coarse.Step = 1024*ns, 256*ns
	wide, compact, value := DefaultDelayFormat(Wide), DefaultDelayFormat(Compact), DefaultDelayFormat(Value)
	for _, c := range []struct {
		name  string
		f     *DelayFormat
		delay units.Time
		code  uint32
		back  units.Time
	}{
		{"wide", &wide, 1999, 1, ns},
		{"wide", &wide, 42 * us, 42000, 42 * us},
		{"wide, too long", &wide, units.Second, 0xfffff, 1048575 * ns},
		{"wide, negative", &wide, -5 * ns, 0, 0},
		{"wide with a base, below it", &coarse, 1023 * ns, 0, 0},
		{"wide with a base, first step", &coarse, 1279 * ns, 0, 0},
		{"wide with a base, second step", &coarse, 1280 * ns, 1, 1280 * ns},
		{"compact", &compact, 511 * ns, 0, 0},
		{"compact", &compact, 512 * ns, 1, 512 * ns},
		{"compact, last", &compact, units.Second, 31, 262144 * ns},
		{"compact, negative", &compact, -1, 0, 0},
		{"poseidon", &value, 255 * ns, 0, 0},
		{"poseidon", &value, 2 * us, 7, 1792 * ns},
		{"poseidon, too long", &value, units.Second, 0x7fff, 32767 * 256 * ns},
	} {
		if got := c.f.Quantise(c.delay); got != c.code {
			t.Errorf("%s: %v is written as %d, want %d", c.name, c.delay, got, c.code)
		}
		if got := c.f.Quantised(c.delay); got != c.back {
			t.Errorf("%s: %v is read as %v, want %v", c.name, c.delay, got, c.back)
		}
	}
}

func anyFormat(t *rapid.T) *DelayFormat {
	f := DefaultDelayFormat(rapid.SampledFrom(forms).Draw(t, "form"))
	f.Step = units.Nanosecond << rapid.IntRange(0, 20).Draw(t, "step")
	if rapid.Bool().Draw(t, "has a base") {
		f.Base = units.Nanosecond << rapid.IntRange(0, 20).Draw(t, "base")
	}
	if err := f.Validate(); err != nil {
		t.Fatal(err)
	}
	return &f
}

func TestQuantiseRoundsDownAndKeepsTheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := anyFormat(t)
		delay := rapid.Custom(func(t *rapid.T) units.Time {
			return units.Time(rapid.Int64Range(0, int64(2*units.Second)).Draw(t, "delay"))
		})
		a, b := delay.Draw(t, "a"), delay.Draw(t, "b")
		if a > b {
			a, b = b, a
		}
		if f.Quantise(a) > f.Quantise(b) || f.Quantise(b) > f.Form.MaxCode() {
			t.Fatalf("%v is %d and %v is %d", a, f.Quantise(a), b, f.Quantise(b))
		}
		q := f.Quantised(a)
		if q > a || f.Quantise(q) != f.Quantise(a) {
			t.Fatalf("%v is read as %v, which is written as %d, not %d", a, q, f.Quantise(q), f.Quantise(a))
		}
	})
}

func TestValidateDelayFormat(t *testing.T) {
	for _, c := range []struct {
		name string
		form DelayForm
		edit func(*DelayFormat)
		want string
	}{
		{"form", DelayForm(len(delayLayouts)), func(*DelayFormat) {}, "unknown form"},
		{"length", Wide, func(f *DelayFormat) { f.EtherType = 0x5ff }, "be a length"},
		{"IPv4", Wide, func(f *DelayFormat) { f.EtherType = 0x0800 }, "IPv4"},
		{"VLAN", Value, func(f *DelayFormat) { f.EtherType = 0x8100 }, "VLAN"},
		{"step", Wide, func(f *DelayFormat) { f.Step = 3 * units.Nanosecond }, "step"},
		{"step of 0", Wide, func(f *DelayFormat) { f.Step = 0 }, "step"},
		{"step below 1 ns", Wide, func(f *DelayFormat) { f.Step = 512 }, "step"},
		{"base", Wide, func(f *DelayFormat) { f.Base = -units.Nanosecond }, "base"},
		{"first bucket", Compact, func(f *DelayFormat) { f.Buckets[0] = 1 }, "first bucket"},
		{"order of buckets", Compact, func(f *DelayFormat) { f.Buckets[7] = f.Buckets[6] }, "bucket 7"},
	} {
		f := DefaultDelayFormat(c.form)
		c.edit(&f)
		if err := f.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	for _, form := range forms {
		f := DefaultDelayFormat(form)
		if err := f.Validate(); err != nil {
			t.Errorf("%v: %v", form, err)
		}
	}
}

func TestFormNames(t *testing.T) {
	for _, form := range forms {
		b, err := form.MarshalText()
		var got DelayForm
		if err != nil || got.UnmarshalText(b) != nil || got != form {
			t.Errorf("%v is written as %q (%v) and read as %v", form, b, err, got)
		}
	}
	var f DelayForm
	if f.UnmarshalText([]byte("csig")) == nil {
		t.Error("csig is no form, there are two of them")
	}
	if _, err := DelayForm(9).MarshalText(); err == nil || DelayForm(9).String() != "form 9" {
		t.Error("there is no form 9")
	}
}
