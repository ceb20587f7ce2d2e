package run

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/units"
)

// bits of bytes as coefficients of a polynomial, the highest first; reversed takes each byte from its last bit on.
func coefficients(b []byte, reversed bool) []uint {
	var out []uint
	for _, x := range b {
		for i := range 8 {
			if reversed {
				out = append(out, uint(x>>i&1))
			} else {
				out = append(out, uint(x>>(7-i)&1))
			}
		}
	}
	return out
}

// remainder is the definition of a CRC in the Rocksoft model: the message's first bits are changed by the initial value, the
// message times x^width is divided by the polynomial, one bit after the other.
func remainder(c crc, b []byte) uint64 {
	msg := append(coefficients(b, c.reversed), make([]uint, c.width)...)
	for i := range c.width {
		if i < len(msg) {
			msg[i] ^= uint(c.init >> uint(c.width-1-i) & 1)
		}
	}
	for i := 0; i+c.width < len(msg); i++ {
		if msg[i] == 0 {
			continue
		}
		for j := range c.width {
			msg[i+1+j] ^= uint(c.poly >> uint(c.width-1-j) & 1)
		}
	}
	var v uint64
	for i := range c.width {
		bit := uint64(msg[len(msg)-c.width+i])
		if c.out {
			v |= bit << uint(i)
		} else {
			v = v<<1 | bit
		}
	}
	return v ^ c.xor
}

// Every CRC is the remainder of a division, whatever its width, polynomial and reflections.
func TestRandomCRCs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := crc{width: rapid.IntRange(1, 64).Draw(t, "width"), reversed: rapid.Bool().Draw(t, "reversed"), out: rapid.Bool().Draw(t, "out")}
		word := func(name string) uint64 { return rapid.Uint64().Draw(t, name) & mask64(c.width) }
		c.poly, c.init, c.xor = word("poly"), word("init"), word("xor")
		b := rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "bytes")
		if got, want := newCRC(c).sum(b), remainder(c, b); got != want {
			t.Fatalf("%+v of % x is %#x, expected %#x", c, b, got, want)
		}
	})
}

// A message followed by its CRC has the remainder 0 if nothing is reflected or added at the end.
func TestRandomCRCsOfThemselves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "bytes of the CRC")
		c := crc{width: 8 * n}
		c.poly, c.init = rapid.Uint64().Draw(t, "poly")&mask64(c.width)|1, rapid.Uint64().Draw(t, "init")&mask64(c.width)
		b := rapid.SliceOfN(rapid.Byte(), 1, 12).Draw(t, "bytes")
		p := newCRC(c)
		v := p.sum(b)
		for i := n - 1; i >= 0; i-- {
			b = append(b, byte(v>>uint(8*i)))
		}
		if got := p.sum(b); got != 0 {
			t.Fatalf("%+v of % x is %#x, expected 0", c, b, got)
		}
	})
}

// The Internet checksum (RFC 1071): the sum of all words and it is all ones, its order of words does not count, and a change of a word
// is a change of the sum (RFC 1624).
func TestRandomChecksums(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.Uint16(), 1, 20).Draw(t, "words")
		bytes := func(ws []uint16) (b []byte) {
			for _, w := range ws {
				b = append(b, byte(w>>8), byte(w))
			}
			return b
		}
		sum := csum16(bytes(words))
		total := new(big.Int)
		for _, w := range words {
			total.Add(total, big.NewInt(int64(w)))
		}
		// Modulo 2^16-1, of which all ones and zero are the same.
		const m = 0xffff
		if want := (m - new(big.Int).Mod(total, big.NewInt(m)).Uint64()) % m; sum%m != want {
			t.Fatalf("csum16 of %x is %#x, expected %#x modulo %#x", words, sum, want, m)
		}
		if got := fold(onesSum(sum, bytes(words))); got != m {
			t.Fatalf("the sum of %x and of its checksum %#x is %#x", words, sum, got)
		}
		shuffled := rapid.Permutation(words).Draw(t, "shuffled")
		if got := csum16(bytes(shuffled)); got != sum {
			t.Fatalf("csum16 of %x is %#x, in another order %#x", words, sum, got)
		}
		i, w := rapid.IntRange(0, len(words)-1).Draw(t, "at"), rapid.Uint16().Draw(t, "word")
		old := uint64(words[i])
		words[i] = w
		changed := ^fold((^sum&m)+(^old&m)+uint64(w)) & m
		if got := csum16(bytes(words)); got%m != changed%m {
			t.Fatalf("with word %d of %#x in place of %#x csum16 is %#x, expected %#x", i, w, old, got, changed)
		}
		if got, want := csum16(append(bytes(words), 0)), csum16(bytes(words)); got != want {
			t.Fatalf("a byte of 0 behind makes %#x of %#x", got, want)
		}
		var xor uint16
		for _, w := range words {
			xor ^= w
		}
		if got := xor16(bytes(words)); got != uint64(xor) {
			t.Fatalf("xor16 of %x is %#x, expected %#x", words, got, xor)
		}
	})
}

// A meter is RFC 2698's, color-blind, in exact numbers: rates of a token or more a microsecond give whole tokens at whole microseconds.
func TestRandomMeters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := func(name string, most int64) int64 { return rapid.Int64Range(0, most).Draw(t, name) }
		cir, pir := n("committed", 5), n("peak", 9)
		cbs, pbs := n("committed burst", 100), n("peak burst", 100)
		r := &Rate{Committed: float64(cir) * 1e6, Peak: float64(pir) * 1e6, CommittedBurst: float64(cbs), PeakBurst: float64(pbs)}
		var s meterState
		tc, tp, last, now := cbs, pbs, int64(0), int64(0)
		s.execute(r, 0, 0)
		for range 30 {
			now += n("later", 20) - 2 // a packet may bear an earlier time: it gets no tokens
			if now > last {
				tc, tp, last = min(cbs, tc+cir*(now-last)), min(pbs, tp+pir*(now-last)), now
			}
			bytes := n("bytes", 60)
			want := uint64(green)
			switch {
			case tp < bytes:
				want = red
			case tc < bytes:
				want = yellow
				tp -= bytes
			default:
				tp, tc = tp-bytes, tc-bytes
			}
			if got := s.execute(r, units.Time(now)*units.Microsecond, float64(bytes)); got != want {
				t.Fatalf("%+v: at %d us %d bytes are of color %d, expected %d; there are %d and %d tokens", *r, now, bytes, got, want, tc, tp)
			}
		}
	})
}

// A number from lo to hi is within them, whatever they are, and the ends come.
func TestRandomBetween(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r prng
		r.seed(rapid.Uint64().Draw(t, "seed"))
		lo := rapid.Uint64().Draw(t, "lo")
		span := rapid.OneOf(rapid.Uint64Range(0, 3), rapid.Uint64()).Draw(t, "span")
		hi := lo + span
		if hi < lo {
			hi = ^uint64(0)
		}
		first, last := false, false
		for range 200 {
			v := r.between(lo, hi)
			if v < lo || v > hi {
				t.Fatalf("%d is not from %d to %d", v, lo, hi)
			}
			first, last = first || v == lo, last || v == hi
		}
		if hi-lo <= 3 && !(first && last) { // one of 200 draws misses an end once in 10^25
			t.Fatalf("from %d to %d one of the ends did not come", lo, hi)
		}
	})
}

// A low-pass filter's average is between what it was and the value that comes, the nearer to that the more time has passed; a sum
// grows by what comes; and what is scaled down is divided.
func TestRandomFilters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		constant := units.Time(rapid.Int64Range(1, 1000).Draw(t, "constant")) * units.Microsecond
		now := units.Time(0)
		var a, b, slow average
		var sum average
		for range 20 {
			now += units.Time(rapid.Int64Range(0, 500).Draw(t, "later")) * units.Microsecond
			x := float64(rapid.Int64Range(0, 1<<30).Draw(t, "value"))
			before, total := a.v, sum.v
			v := a.sample(now, constant, constant, x)
			if lo, hi := min(before, x), max(before, x); v < lo-1e-6*hi || v > hi+1e-6*hi {
				t.Fatalf("the average went from %v to %v by the value %v", before, v, x)
			}
			slow.v, slow.last = b.v, b.last
			if f, s := b.sample(now, constant, constant, x), slow.sample(now, 2*constant, 2*constant, x); abs(s-x) < abs(f-x)-1e-6*x {
				t.Fatalf("with twice the time constant %v is nearer to %v than %v", s, x, f)
			}
			if w := sum.sum(now, constant, x); w < x || w > total+x+1e-6*(total+x) {
				t.Fatalf("the sum went from %v to %v by the value %v", total, w, x)
			}
		}
		x := rapid.Uint64Range(0, 1<<50).Draw(t, "value")
		scale := rapid.IntRange(0, 31).Draw(t, "scale")
		var fresh average
		if got := (&LowPass{ScaleDown: scale}).execute(&fresh, now, x); got != x>>scale {
			t.Fatalf("%d scaled down by 2^%d is %d", x, scale, got)
		}
	})
}

func abs(x float64) float64 { return max(x, -x) }

// Bits that are written anywhere are read from there, and nothing beside them changes.
func TestRandomBits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := rapid.SliceOfN(rapid.Byte(), 40, 40).Draw(t, "bytes")
		n := rapid.IntRange(0, 200).Draw(t, "bits")
		at := rapid.IntRange(0, 8*len(before)-n).Draw(t, "at")
		number := new(big.Int).SetBytes(before)
		shift := uint(8*len(before) - at - n)
		ones := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), uint(n)), big.NewInt(1))
		words := make([]uint64, wordsOf(max(n, 1)))
		v := new(big.Int).And(new(big.Int).SetBytes(rapid.SliceOfN(rapid.Byte(), 25, 25).Draw(t, "value")), ones)
		setWords(words, v)
		want := new(big.Int).AndNot(number, new(big.Int).Lsh(ones, shift))
		want.Or(want, new(big.Int).Lsh(v, shift))
		b := append([]byte(nil), before...)
		if n <= 64 {
			if got, w := readBits(b, at, n), new(big.Int).And(new(big.Int).Rsh(number, shift), ones).Uint64(); got != w {
				t.Fatalf("%d bits from %d of % x are %#x, expected %#x", n, at, before, got, w)
			}
			writeBits(b, at, n, words[0])
		} else {
			writeWide(b, at, n, words)
		}
		if new(big.Int).SetBytes(b).Cmp(want) != 0 {
			t.Fatalf("%#x in %d bits from %d of % x makes % x", v, n, at, before, b)
		}
	})
}
