package mlx5

// acquire orders loads of what the device wrote after those before.
//
//go:noescape
func acquire()
