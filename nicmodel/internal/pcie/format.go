package pcie

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-rdma/sluice/units"
)

var headerNames = [...]string{PCIeBench: "pcie-bench", Kalia: "kalia", Flit: "flit"}

func (h Headers) String() string {
	if int(h) < len(headerNames) {
		return headerNames[h]
	}
	return fmt.Sprintf("PCIeHeaders(%d)", uint8(h))
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *Headers) UnmarshalText(b []byte) error {
	for i, name := range headerNames {
		if name == string(b) {
			*h = Headers(i)
			return nil
		}
	}
	return fmt.Errorf("unknown value %q, expected %s", b, strings.Join(headerNames[:], ", "))
}

// MarshalText implements encoding.TextMarshaler.
func (h Headers) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// lanes is the rate of a lane by PCI Express generation, in transfers a second and after
// line coding: 8b/10b in the first two, 128b/130b in later ones (PCI Express Base
// Specification 5.0, 4.2). The sixth has flits of 256 bytes in place of coding, of which 236 carry transaction layer
// packets (6.0, 4.2.3, as recalled): 6 are the data link layer's, 8 a CRC, and 6 for error correction.
var lanes = [...]struct {
	transfers   int64
	bits, coded int64
}{
	1: {2_500_000_000, 8, 10},
	2: {5_000_000_000, 8, 10},
	3: {8_000_000_000, 128, 130},
	4: {16_000_000_000, 128, 130},
	5: {32_000_000_000, 128, 130},
	6: {64_000_000_000, flitTLPs, flitBytes},
}

// ParseLink reads a PCI Express link such as "gen3x8" and returns what its lanes carry
// in each direction after line coding, or of gen6 what its flits have for transaction layer packets. What of the others is left for transaction layer packets is
// less by the data link layer's own: 57.88 of 63.0 Gbps on a gen3x8, by pcie-bench's
// model (Neugebauer et al., SIGCOMM 2018).
func ParseLink(s string) (units.Rate, error) {
	generation, width, ok := strings.Cut(strings.TrimPrefix(s, "gen"), "x")
	g, err := strconv.Atoi(generation)
	if w, err2 := strconv.Atoi(width); ok && err == nil && err2 == nil && strings.HasPrefix(s, "gen") && g >= 1 && g < len(lanes) {
		switch w {
		case 1, 2, 4, 8, 12, 16, 32:
			l := lanes[g]
			return units.Rate(int64(w) * l.transfers * l.bits / l.coded), nil
		}
	}
	return 0, fmt.Errorf("%q is no PCIe link: write generation, 1 to %d, and lanes, 1, 2, 4, 8, 12, 16 or 32, such as gen3x8", s, len(lanes)-1)
}
