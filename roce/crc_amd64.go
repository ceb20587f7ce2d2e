package roce

// The CRC of long runs of bytes by carry-less multiplication, as in Gopal et al.,
// "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ Instruction" (Intel,
// 2009), over 32 bytes at a time (VPCLMULQDQ), where hash/crc32 takes 16 or needs
// AVX-512. It can copy in the same pass, which is then almost free.

const foldBytes = 128 // of a step

// crcFold returns 16 bytes, low half first. Their CRC from the state 0 is that of the
// n bytes at src from the state s. n is a multiple of foldBytes, not 0.
//
//go:noescape
func crcFold(src *byte, n int, s uint32) (lo, hi uint64)

// crcFoldCopy is crcFold that copies to dst too.
//
//go:noescape
func crcFoldCopy(dst, src *byte, n int, s uint32) (lo, hi uint64)

func cpuid(leaf, subleaf uint32) (ax, bx, cx, dx uint32)

func xgetbv() (ax uint32)

// hasFold is whether the processor has the instructions, and the system keeps
// their registers.
var hasFold = detectFold()

func detectFold() bool {
	const (
		pclmul, osxsave, avx = 1 << 1, 1 << 27, 1 << 28 // leaf 1, CX
		avx2                 = 1 << 5                   // leaf 7, BX
		vpclmul              = 1 << 10                  // leaf 7, CX
		xmmYMM               = 1<<1 | 1<<2              // XCR0
	)
	if most, _, _, _ := cpuid(0, 0); most < 7 {
		return false
	}
	if _, _, cx, _ := cpuid(1, 0); cx&(pclmul|osxsave|avx) != pclmul|osxsave|avx || xgetbv()&xmmYMM != xmmYMM {
		return false
	}
	_, bx, cx, _ := cpuid(7, 0)
	return bx&avx2 != 0 && cx&vpclmul != 0
}

// crcUpdate moves the state s of a CRC on by b.
func crcUpdate(s uint32, b []byte) uint32 {
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
	if hasFold && len(src) >= foldBytes {
		n := len(src) &^ (foldBytes - 1)
		lo, hi := crcFoldCopy(&dst[0], &src[0], n, s)
		s, dst, src = word(word(0, lo), hi), dst[n:], src[n:]
	}
	copy(dst, src)
	return crcShort(s, dst)
}
