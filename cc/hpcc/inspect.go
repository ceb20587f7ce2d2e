package hpcc

// Inspect implements cc.Inspector.
func (e *engine) Inspect(visit func(name string, value float64)) {
	visit("cwnd_bytes", e.s.cwnd)
	visit("reference_cwnd_bytes", e.s.reference)
	visit("inflight_bdp", e.s.inflight)
	visit("stage", float64(e.s.stage))
}
