package swift

// Inspect implements cc.Inspector.
func (e *engine) Inspect(visit func(name string, value float64)) {
	visit("cwnd_packets", e.s.cwnd)
	visit("delay_us", e.s.delay.Microseconds())
	visit("target_us", e.p.targetDelay(e.s.cwnd, e.s.hops)*1e-6)
	visit("rtt_us", e.s.rtt.Microseconds())
	visit("retransmits", float64(e.s.retransmits))
}
