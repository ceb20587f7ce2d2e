//go:build amd64 || arm64

package mlx5

// Supported is whether this architecture's barriers are known.
const Supported = true

// ring stores word, which is big-endian, to a doorbell record and value to a doorbell, and
// flushes it. The device sees them after all that was stored before, and in this order.
//
//go:noescape
func ring(record *uint32, word uint32, doorbell *uint64, value uint64)

// publish stores word, which is big-endian, to a doorbell record. The device sees it after
// all that was loaded and stored before.
//
//go:noescape
func publish(record *uint32, word uint32)
