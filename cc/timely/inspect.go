package timely

// Inspect implements cc.Inspector.
func (e *engine) Inspect(visit func(name string, value float64)) {
	visit("gradient", e.s.rttDiff/e.p.minRTT)
	visit("previous_rtt_us", e.s.prevRTT.Microseconds())
	visit("negative_gradients", float64(e.s.falling))
}
