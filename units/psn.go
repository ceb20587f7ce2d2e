package units

// PSN is a packet sequence number: 24 bits that wrap around (IBA volume 1,
// 9.7.2). Values outside 24 bits do not occur; every method masks.
type PSN uint32

const psnMask = 1<<24 - 1

// MakePSN returns the low 24 bits of v.
func MakePSN(v uint32) PSN { return PSN(v & psnMask) }

// Add returns the PSN n packets after p; n may be negative.
func (p PSN) Add(n int32) PSN { return PSN((uint32(p) + uint32(n)) & psnMask) }

// Sub returns how many packets p lies after q, from -2^23 to 2^23-1.
func (p PSN) Sub(q PSN) int32 { return int32((uint32(p)-uint32(q))<<8) >> 8 }

// Before reports whether p lies before q, within half the space.
func (p PSN) Before(q PSN) bool { return p.Sub(q) < 0 }
