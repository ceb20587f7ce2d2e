package telemetry

// Bits of BTH's fifth byte that carry Pulser's explicit incast notification (section 3). FECN
// (0x80) and BECN (0x40) share the byte; the ICRC takes all of it for ones.
const (
	EIN     = 0x20 // switch to receiver: an incast begins at a port of the path
	EINEcho = 0x10 // receiver to sender, on the acknowledgement, as TCP's ECE is
)

// bthFlags is the offset of that byte in the BTH.
const bthFlags = 4

// SetEIN sets bits of EIN and EINEcho in a BTH. A BTH cut short is left as it is.
func SetEIN(bth []byte, bits byte) {
	if len(bth) > bthFlags {
		bth[bthFlags] |= bits & (EIN | EINEcho)
	}
}

// EINBits returns which of EIN and EINEcho a BTH has.
func EINBits(bth []byte) byte {
	if len(bth) <= bthFlags {
		return 0
	}
	return bth[bthFlags] & (EIN | EINEcho)
}

// ProbeOpcode is the BTH's opcode of a probe: a tagged packet to a network card's
// UDP port 4791 that its host, not the card, answers. The last switch leaves its
// tags on. It is the first that IBA leaves to manufacturers (9.2.1).
const ProbeOpcode = 0xc0
