//go:build !amd64

package roce

// crcUpdate moves the state s of a CRC on by b.
func crcUpdate(s uint32, b []byte) uint32 { return crcShort(s, b) }

// crcCopy copies src to dst, which is as long or longer, and moves the state s of a
// CRC on by it. The state is of what is in dst, even if somebody changes src
// meanwhile.
func crcCopy(s uint32, dst, src []byte) uint32 {
	dst = dst[:len(src)]
	copy(dst, src)
	return crcUpdate(s, dst)
}
