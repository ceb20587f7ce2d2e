package retcp

// Inspect implements cc.Inspector.
func (e *engine) Inspect(visit func(name string, value float64)) {
	jumped := 0.0
	if e.jumped {
		jumped = 1
	}
	visit("cwnd_bytes", e.w.Cwnd)
	visit("circuit", jumped)
}
