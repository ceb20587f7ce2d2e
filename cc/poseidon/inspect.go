package poseidon

// Inspect implements cc.Inspector.
func (e *engine) Inspect(visit func(name string, value float64)) {
	visit("cwnd_packets", e.s.cwnd)
	visit("rtt_us", e.s.rtt.Microseconds())
	visit("retransmits", float64(e.s.retransmits))
}
