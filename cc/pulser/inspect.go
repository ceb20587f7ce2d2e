package pulser

// Inspect implements cc.Inspector.
func (e *engine) Inspect(visit func(name string, value float64)) {
	incast := 0.0
	if e.incast {
		incast = 1
	}
	visit("cwnd_bytes", e.window())
	visit("saved_cwnd_bytes", e.w.Cwnd)
	visit("alpha", e.w.Alpha)
	visit("incast", incast)
}
