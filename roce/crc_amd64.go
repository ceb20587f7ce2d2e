package roce

// The CRC of long runs of bytes by carry-less multiplication, as in Gopal et al.,
// "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction" (Intel,
// 2009), over 64 bytes at a time with AVX-512, else over 32 (VPCLMULQDQ). It can copy in
// the same pass, which is then almost free.

const (
	foldBytes = 128 // of a step
	wideBytes = 256 // of a step with AVX-512, which pays from two steps on
)

// crcFold returns 16 bytes, low half first. Their CRC from the state 0 is that of the
// n bytes at src from the state s. n is a multiple of foldBytes, not 0.
//
//go:noescape
func crcFold(src *byte, n int, s uint32) (lo, hi uint64)

// crcFoldCopy is crcFold that copies to dst too.
//
//go:noescape
func crcFoldCopy(dst, src *byte, n int, s uint32) (lo, hi uint64)

// crcFoldWide is crcFold with AVX-512; n is a multiple of wideBytes, not 0.
//
//go:noescape
func crcFoldWide(src *byte, n int, s uint32) (lo, hi uint64)

// crcFoldCopyWide is crcFoldWide that copies to dst too.
//
//go:noescape
func crcFoldCopyWide(dst, src *byte, n int, s uint32) (lo, hi uint64)

func cpuid(leaf, subleaf uint32) (ax, bx, cx, dx uint32)

func xgetbv() (ax uint32)

// hasFold and hasWide are whether the processor has the instructions, and the system
// keeps their registers.
var hasFold, hasWide = detectFold()

func detectFold() (fold, wide bool) {
	const (
		pclmul, osxsave, avx = 1 << 1, 1 << 27, 1 << 28 // leaf 1, CX
		avx2, avx512f        = 1 << 5, 1 << 16          // leaf 7, BX
		vpclmul              = 1 << 10                  // leaf 7, CX
		xmmYMM               = 1<<1 | 1<<2              // XCR0
		zmm                  = 1<<5 | 1<<6 | 1<<7 | xmmYMM
	)
	if most, _, _, _ := cpuid(0, 0); most < 7 {
		return false, false
	}
	if _, _, cx, _ := cpuid(1, 0); cx&(pclmul|osxsave|avx) != pclmul|osxsave|avx || xgetbv()&xmmYMM != xmmYMM {
		return false, false
	}
	_, bx, cx, _ := cpuid(7, 0)
	fold = bx&avx2 != 0 && cx&vpclmul != 0
	return fold, fold && bx&avx512f != 0 && xgetbv()&zmm == zmm
}

// crcUpdate moves the state s of a CRC on by b.
func crcUpdate(s uint32, b []byte) uint32 {
	if hasWide && len(b) >= 2*wideBytes {
		n := len(b) &^ (wideBytes - 1)
		lo, hi := crcFoldWide(&b[0], n, s)
		s, b = word(word(0, lo), hi), b[n:]
	}
	if hasFold && len(b) >= foldBytes {
		n := len(b) &^ (foldBytes - 1)
		lo, hi := crcFold(&b[0], n, s)
		s, b = word(word(0, lo), hi), b[n:]
	}
	return crcShort(s, b)
}

// crcCopy copies src to dst, which is at least as long, and returns the state s of a CRC
// advanced over it, in one pass. The result is the state of what is in dst, even if src
// changes meanwhile.
func crcCopy(s uint32, dst, src []byte) uint32 {
	dst = dst[:len(src)]
	if hasWide && len(src) >= 2*wideBytes {
		n := len(src) &^ (wideBytes - 1)
		lo, hi := crcFoldCopyWide(&dst[0], &src[0], n, s)
		s, dst, src = word(word(0, lo), hi), dst[n:], src[n:]
	}
	if hasFold && len(src) >= foldBytes {
		n := len(src) &^ (foldBytes - 1)
		lo, hi := crcFoldCopy(&dst[0], &src[0], n, s)
		s, dst, src = word(word(0, lo), hi), dst[n:], src[n:]
	}
	copy(dst, src)
	return crcShort(s, dst)
}
