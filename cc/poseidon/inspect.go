package poseidon

// Inspect implements cc.Inspector.
func (e *engine) Inspect(visit func(name string, value float64)) {
	visit("cwnd_packets", e.Cwnd)
	visit("rtt_us", e.RTT.Microseconds())
	visit("retransmits", float64(e.Retransmits))
}
