package swift

// Inspect implements cc.Inspector.
func (e *engine) Inspect(visit func(name string, value float64)) {
	visit("cwnd_packets", e.Cwnd)
	visit("endpoint_cwnd_packets", e.endpoint.Cwnd)
	visit("held_us", e.held.Microseconds())
	visit("delay_us", e.delay.Microseconds())
	visit("target_us", e.p.targetDelay(e.Cwnd, e.hops)*1e-6)
	visit("rtt_us", e.RTT.Microseconds())
	visit("retransmits", float64(e.Retransmits))
}
