package homa

// Inspect implements cc.Inspector.
func (e *sender) Inspect(visit func(name string, value float64)) {
	visit("granted_bytes", float64(e.limit))
	visit("acked_bytes", float64(e.acked))
	visit("class", float64(e.Control().Class))
}
