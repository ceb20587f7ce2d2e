package fast

// Inspect implements cc.Inspector.
func (e *engine) Inspect(visit func(name string, value float64)) {
	base := e.p.base
	if base == 0 {
		base = e.s.base.now
		if before := e.s.base.before; before > 0 {
			base = min(base, before)
		}
	}
	visit("rtt_us", e.s.rtt.Microseconds())
	visit("base_rtt_us", base.Microseconds())
	// What queues hold of the flow's rate: alpha in balance.
	queued := 0.0
	if e.s.rtt > 0 {
		queued = e.s.rate * (1 - float64(base)/float64(e.s.rtt))
	}
	visit("queued_bps", queued)
}
