package powertcp

// Inspect implements cc.Inspector.
func (e *engine) Inspect(visit func(name string, value float64)) {
	visit("cwnd_bytes", e.s.cwnd)
	visit("smoothed_power", e.s.smooth)
}
