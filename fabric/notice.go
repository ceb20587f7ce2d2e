package fabric

// notice sets EIN on the packets that leave a queue in an incast: from the one
// that leaves more than On behind to the one that leaves Off or less.
func (n *Network) notice(id uint32, c *class, p *Packet, queue int32) {
	cold, bit := &n.cold[id], uint8(1)<<(p.Priority&7)
	switch {
	case queue > c.einOn:
		cold.incast |= bit
	case queue <= c.einOff:
		cold.incast &^= bit
	}
	if cold.incast&bit != 0 {
		p.Flags |= EIN
		cold.notices++
	}
}
