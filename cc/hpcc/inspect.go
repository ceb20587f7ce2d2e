package hpcc

// Inspect implements cc.Inspector.
func (e *engine) Inspect(visit func(name string, value float64)) {
	visit("cwnd_bytes", e.Cwnd)
	visit("reference_cwnd_bytes", e.reference)
	visit("inflight_bdp", e.inflight)
	visit("stage", float64(e.stage))
}
