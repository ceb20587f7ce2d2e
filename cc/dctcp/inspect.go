package dctcp

// Inspect implements cc.Inspector.
func (e *engine) Inspect(visit func(name string, value float64)) {
	if e.paces {
		visit("rate_bps", e.p.rate)
		visit("alpha", e.p.alpha)
		return
	}
	slowStart := 0.0
	if e.w.SlowStart() {
		slowStart = 1
	}
	visit("cwnd_bytes", e.w.Cwnd)
	visit("alpha", e.w.Alpha)
	visit("slow_start", slowStart)
}
