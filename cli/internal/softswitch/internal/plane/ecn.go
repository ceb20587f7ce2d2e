package plane

import "github.com/sluice-rdma/sluice/roce"

// markCE sets the ECN code point "congestion experienced" of an IP packet that is
// ECN-capable (RFC 3168), and reports whether it did.
func markCE(frame []byte) bool {
	ip := ipHeader(frame)
	switch {
	case len(ip) >= roce.IPv4Bytes && ip[0]>>4 == 4:
		h := roce.IPv4(ip)
		tos := h.TOS()
		if !capable(tos) || h.HeaderBytes() != roce.IPv4Bytes { // options are rare enough
			return false
		}
		h.SetTOS(tos | roce.ECNCE)
		return true
	case len(ip) >= roce.IPv6Bytes && ip[0]>>4 == 6:
		h := roce.IPv6(ip)
		tc := h.TrafficClass()
		if !capable(tc) {
			return false
		}
		h.SetTrafficClass(tc | roce.ECNCE)
		return true
	}
	return false
}

// capable reports whether a traffic class is ECT(0) or ECT(1).
func capable(tos uint8) bool { return tos&roce.ECNCE != 0 && tos&roce.ECNCE != roce.ECNCE }

// ipHeader returns the IP header behind the Ethernet header and VLAN tags, nil if there
// is none.
func ipHeader(frame []byte) []byte {
	if len(frame) < roce.EthernetBytes {
		return nil
	}
	kind, at, _ := roce.Ethernet(frame).Payload()
	if kind != roce.EtherTypeIPv4 && kind != roce.EtherTypeIPv6 {
		return nil
	}
	return frame[at:]
}
