package dcqcn

// Inspect implements cc.Inspector.
func (e *engine) Inspect(visit func(name string, value float64)) {
	visit("rate_bps", e.s.rate)
	visit("target_bps", e.s.target)
	visit("alpha", e.s.alpha)
	visit("timer_stage", float64(e.s.timed))
	visit("byte_stage", float64(e.s.counted))
}
