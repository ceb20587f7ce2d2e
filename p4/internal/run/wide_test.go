package run

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func drawWide(t *rapid.T, name string, width int) (*big.Int, []uint64) {
	w := make([]uint64, wordsOf(width))
	for i := range w {
		// Often all ones or zeros, for carries.
		switch rapid.IntRange(0, 3).Draw(t, name+"kind") {
		case 0:
		case 1:
			w[i] = ^uint64(0)
		default:
			w[i] = rapid.Uint64().Draw(t, name)
		}
	}
	trim(w, width)
	return fromWords(w), w
}

func signed(v *big.Int, width int) *big.Int {
	if v.Bit(width-1) != 0 {
		return new(big.Int).Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(width)))
	}
	return v
}

func wrap(v *big.Int, width int) *big.Int {
	mask := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(width)), big.NewInt(1))
	return new(big.Int).And(v, mask)
}

// Wide arithmetic is that of math/big modulo 2^width.
func TestWideIsBig(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.IntRange(65, 300).Draw(t, "width")
		x, a := drawWide(t, "a", width)
		y, b := drawWide(t, "b", width)
		d := make([]uint64, len(a))
		same := func(what string, want *big.Int) {
			if got := fromWords(d); got.Cmp(want) != 0 {
				t.Fatalf("%s on %d bits: %#x, %#x: got %#x, want %#x", what, width, x, y, got, want)
			}
		}
		wideAdd(d, a, b, width)
		same("+", wrap(new(big.Int).Add(x, y), width))
		wideSub(d, a, b, width)
		same("-", wrap(new(big.Int).Sub(x, y), width))
		wideMul(d, a, b, width)
		same("*", wrap(new(big.Int).Mul(x, y), width))
		n := rapid.Uint64Range(0, uint64(width)+70).Draw(t, "n")
		wideShl(d, a, n, width)
		same("<<", wrap(new(big.Int).Lsh(x, uint(n)), width))
		wideShr(d, a, n, 0)
		same(">>", new(big.Int).Rsh(x, uint(n)))
		copy(d, a)
		fill := uint64(0)
		if signBit(a, width) {
			fill = ^uint64(0)
		}
		extendSign(d, width)
		wideShr(d, d, n, fill)
		trim(d, width)
		same("signed >>", wrap(new(big.Int).Rsh(signed(x, width), uint(n)), width))
		if got, want := wideCmp(a, b), x.Cmp(y); got != want {
			t.Fatalf("compare: %d, want %d", got, want)
		}
		lo, hi := big.NewInt(0), new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(width)), big.NewInt(1))
		shi := new(big.Int).Rsh(hi, 1)
		slo := new(big.Int).Neg(new(big.Int).Add(shi, big.NewInt(1)))
		clamp := func(v, lo, hi *big.Int) *big.Int {
			if v.Cmp(lo) < 0 {
				v = lo
			}
			if v.Cmp(hi) > 0 {
				v = hi
			}
			return wrap(v, width)
		}
		sx, sy := signed(x, width), signed(y, width)
		wideSat(d, a, b, width, false, false)
		same("|+|", clamp(new(big.Int).Add(x, y), lo, hi))
		wideSat(d, a, b, width, false, true)
		same("|-|", clamp(new(big.Int).Sub(x, y), lo, hi))
		wideSat(d, a, b, width, true, false)
		same("signed |+|", clamp(new(big.Int).Add(sx, sy), slo, shi))
		wideSat(d, a, b, width, true, true)
		same("signed |-|", clamp(new(big.Int).Sub(sx, sy), slo, shi))
		low := rapid.IntRange(0, width-1).Draw(t, "low")
		w := rapid.IntRange(1, width-low).Draw(t, "w")
		s := make([]uint64, wordsOf(w))
		wideSlice(s, a, low, w)
		if got, want := fromWords(s), wrap(new(big.Int).Rsh(x, uint(low)), w); got.Cmp(want) != 0 {
			t.Fatalf("slice: got %#x, want %#x", got, want)
		}
		_, v := drawWide(t, "v", w)
		copy(d, a)
		putBits(d, v, low, w)
		mask := new(big.Int).Lsh(wrap(big.NewInt(-1), w), uint(low))
		same("put", new(big.Int).Or(new(big.Int).AndNot(x, mask), new(big.Int).Lsh(fromWords(v), uint(low))))
	})
}

func TestSatSigned(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := rapid.IntRange(1, 64).Draw(t, "w")
		a := sign64(rapid.Uint64().Draw(t, "a")&mask64(w), w)
		b := sign64(rapid.Uint64().Draw(t, "b")&mask64(w), w)
		hi := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(w-1)), big.NewInt(1))
		lo := new(big.Int).Neg(new(big.Int).Add(hi, big.NewInt(1)))
		for _, sub := range []bool{false, true} {
			v := new(big.Int).Add(big.NewInt(a), big.NewInt(b))
			if sub {
				v.Sub(big.NewInt(a), big.NewInt(b))
			}
			if v.Cmp(lo) < 0 {
				v = lo
			}
			if v.Cmp(hi) > 0 {
				v = hi
			}
			if got := satSigned(a, b, w, sub); got != wrap(v, w).Uint64() {
				t.Fatalf("%d bits, sub %v: %d, %d: %#x, want %#x", w, sub, a, b, got, wrap(v, w))
			}
		}
	})
}

// Bits of a packet, one at a time.
func slowRead(b []byte, off, n int) *big.Int {
	v := new(big.Int)
	for i := off; i < off+n; i++ {
		v.Lsh(v, 1)
		if b[i/8]>>(7-i%8)&1 != 0 {
			v.SetBit(v, 0, 1)
		}
	}
	return v
}

func TestPacketBits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := rapid.SliceOfN(rapid.Byte(), 1, 40).Draw(t, "b")
		off := rapid.IntRange(0, 8*len(b)).Draw(t, "off")
		n := rapid.IntRange(0, 8*len(b)-off).Draw(t, "n")
		d := make([]uint64, wordsOf(n))
		readWide(d, b, off, n)
		want := slowRead(b, off, n)
		if got := fromWords(d); got.Cmp(want) != 0 {
			t.Fatalf("read %d+%d of %x: %#x, want %#x", off, n, b, got, want)
		}
		if n <= 64 && off+n <= 8*len(b) && n > 0 {
			if got := readBits(b, off, n); got != want.Uint64() {
				t.Fatalf("readBits: %#x, want %#x", got, want)
			}
		}
		out := append([]byte(nil), rapid.SliceOfN(rapid.Byte(), len(b), len(b)).Draw(t, "out")...)
		before := append([]byte(nil), out...)
		writeWide(out, off, n, d)
		for i := range 8 * len(b) {
			from := before
			if i >= off && i < off+n {
				from = b
			}
			if (out[i/8]^from[i/8])>>(7-i%8)&1 != 0 {
				t.Fatalf("write %d+%d: bit %d of %x is wrong", off, n, i, out)
			}
		}
	})
}

// A header's fields come out as they went in, at any bit.
func TestFields(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var fs []field
		bits, words := 0, 1
		for range rapid.IntRange(1, 16).Draw(t, "fields") {
			w := rapid.SampledFrom([]int{1, 3, 4, 5, 8, 13, 16, 20, 24, 32, 48, 64, 65, 128}).Draw(t, "width")
			fs = append(fs, field{word: words, bit: bits, width: w, kind: kindOf(bits, w)})
			bits += w
			words += wordsOf(w)
		}
		off := rapid.IntRange(0, 9).Draw(t, "off")
		b := rapid.SliceOfN(rapid.Byte(), (off+bits+7)/8, (off+bits+7)/8).Draw(t, "b")
		w := make([]uint64, words)
		packed := pack(fs)
		readFields(w, packed, b, off)
		for _, f := range fs {
			if got, want := fromWords(w[f.word:f.word+wordsOf(f.width)]), slowRead(b, off+f.bit, f.width); got.Cmp(want) != 0 {
				t.Fatalf("field at %d, %d bits: %#x, want %#x", f.bit, f.width, got, want)
			}
		}
		out := make([]byte, len(b))
		writeFields(w, packed, out, off)
		if got, want := slowRead(out, off, bits), slowRead(b, off, bits); got.Cmp(want) != 0 {
			t.Fatalf("wrote %#x, want %#x", got, want)
		}
	})
}
