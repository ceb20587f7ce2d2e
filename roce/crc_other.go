//go:build !amd64

package roce

// crcUpdate moves the state s of a CRC on by b.
func crcUpdate(s uint32, b []byte) uint32 { return crcShort(s, b) }

// crcCopy copies src to dst, which is at least as long, and returns the state s of
// a CRC advanced over it. The result is the state of what is in dst, even if src
// changes meanwhile.
func crcCopy(s uint32, dst, src []byte) uint32 {
	dst = dst[:len(src)]
	copy(dst, src)
	return crcUpdate(s, dst)
}
