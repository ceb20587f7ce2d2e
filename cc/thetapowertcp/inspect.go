package thetapowertcp

// Inspect implements cc.Inspector.
func (e *engine) Inspect(visit func(name string, value float64)) {
	visit("cwnd_bytes", e.Cwnd)
	visit("smoothed_power", e.smooth)
}
