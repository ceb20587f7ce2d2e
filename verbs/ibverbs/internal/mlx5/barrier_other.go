//go:build !amd64 && !arm64

package mlx5

// Supported is whether this architecture's barriers are known. Without them nothing of this
// package may be used.
const Supported = false

const unsupported = "mlx5: no barriers for this architecture"

func ring(*uint32, uint32, *uint64, uint64) { panic(unsupported) }

func publish(*uint32, uint32) { panic(unsupported) }

func acquire() { panic(unsupported) }
