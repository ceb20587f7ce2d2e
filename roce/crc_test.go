package roce

import (
	"bytes"
	"hash/crc32"
	"testing"

	"pgregory.net/rapid"
)

// The CRC from any state over any bytes at any alignment is the standard
// library's, and a copy is a copy and nothing more.
func TestCRC(t *testing.T) { checkCRC(t) }

func checkCRC(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.IntRange(0, 300), rapid.IntRange(0, 9000)).Draw(t, "n")
		at := rapid.IntRange(0, 64).Draw(t, "at")
		to := rapid.IntRange(0, 64).Draw(t, "to")
		s := rapid.Uint32().Draw(t, "state")
		seed := rapid.SliceOfN(rapid.Byte(), 1, 300).Draw(t, "bytes")
		src := bytes.Repeat(seed, (at+n)/len(seed)+1)[at : at+n]
		want := ^crc32.Update(^s, crc32.IEEETable, src)
		if got := crcUpdate(s, src); got != want {
			t.Fatalf("%#x, want %#x", got, want)
		}
		const guard = 0xa5
		dst := bytes.Repeat([]byte{guard}, to+n+100)
		if got := crcCopy(s, dst[to:], src); got != want {
			t.Fatalf("copying: %#x, want %#x", got, want)
		}
		if !bytes.Equal(dst[to:to+n], src) {
			t.Fatal("the copy differs")
		}
		for i, v := range dst {
			if (i < to || i >= to+n) && v != guard {
				t.Fatalf("byte %d outside of %d to %d changed", i, to, to+n)
			}
		}
	})
}

// BenchmarkCRC is of a packet's payload at MTU 4096: reading it, copying it too,
// and what the standard library takes for both.
func BenchmarkCRC(b *testing.B) {
	src, dst := make([]byte, 4096), make([]byte, 4096)
	var sum uint32
	run := func(name string, f func()) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(src)))
			b.ReportAllocs()
			for b.Loop() {
				f()
			}
		})
	}
	run("update", func() { sum += crcUpdate(sum, src) })
	run("copy", func() { sum += crcCopy(sum, dst, src) })
	run("standard library", func() { sum += crc32.Update(sum, crc32.IEEETable, src) })
	run("standard library, copy", func() { copy(dst, src); sum += crc32.Update(sum, crc32.IEEETable, dst) })
}
