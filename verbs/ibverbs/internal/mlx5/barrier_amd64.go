package mlx5

// acquire orders the loads behind it after those before: amd64 does so by itself, and the
// compiler moves no load over the atomic one before it.
func acquire() {}
