package nicmodel

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/sluice-rdma/sluice/units"
)

// How the parameters that have a form of their own are written in scenarios.

// parseClock reads a clock's rate such as "500MHz" or "1 GHz", with one of the units
// Hz, KHz, MHz and GHz, rounded to a whole number of cycles a second.
func parseClock(s string) (Clock, error) {
	text := strings.ToLower(s)
	if number, ok := strings.CutSuffix(text, "hz"); ok {
		// The decimal prefixes are those of rates.
		if r, err := units.ParseRate(number + "bps"); err == nil && r >= 0 {
			return Clock(r), nil
		}
	}
	return 0, fmt.Errorf("%q is no clock rate: write it with its unit, such as 500MHz", s)
}

// String returns the rate with its unit, exactly.
func (f Clock) String() string {
	return strings.TrimSuffix(units.Rate(f).String(), "bps") + "Hz"
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (f *Clock) UnmarshalText(b []byte) (err error) {
	*f, err = parseClock(string(b))
	return err
}

// MarshalText implements encoding.TextMarshaler.
func (f Clock) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

var headerNames = [...]string{PCIeBench: "pcie-bench", Kalia: "kalia", Flit: "flit"}

func (h PCIeHeaders) String() string {
	if int(h) < len(headerNames) {
		return headerNames[h]
	}
	return fmt.Sprintf("PCIeHeaders(%d)", uint8(h))
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *PCIeHeaders) UnmarshalText(b []byte) error {
	for i, name := range headerNames {
		if name == string(b) {
			*h = PCIeHeaders(i)
			return nil
		}
	}
	return fmt.Errorf("unknown value %q, expected %s", b, strings.Join(headerNames[:], ", "))
}

// MarshalText implements encoding.TextMarshaler.
func (h PCIeHeaders) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

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
