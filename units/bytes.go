package units

import "strconv"

// Bytes is a size or a count of bytes.
type Bytes int64

// Sizes, binary and decimal.
const (
	Byte Bytes = 1
	KiB        = 1024 * Byte
	MiB        = 1024 * KiB
	GiB        = 1024 * MiB
	TiB        = 1024 * GiB
	KB         = 1000 * Byte
	MB         = 1000 * KB
	GB         = 1000 * MB
	TB         = 1000 * GB
)

var byteUnits = []struct {
	name string
	unit Bytes
}{
	{"TiB", TiB}, {"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB},
	{"TB", TB}, {"GB", GB}, {"MB", MB}, {"KB", KB}, {"B", Byte},
}

// String prints n exactly, in the largest unit of which it is a whole multiple:
// "16KiB", "1500B".
func (n Bytes) String() string {
	if n == 0 {
		return "0B"
	}
	best := byteUnits[len(byteUnits)-1]
	for _, u := range byteUnits {
		if n%u.unit == 0 && u.unit > best.unit {
			best = u
		}
	}
	return strconv.FormatInt(int64(n/best.unit), 10) + best.name
}

// ParseBytes reads a size such as "9KiB", "1.5MB" or "1500B". KiB, MiB, GiB and
// TiB are binary; KB, MB, GB and TB are decimal.
func ParseBytes(s string) (Bytes, error) {
	v, err := parse(s, "size", "KiB", func(suffix string) (float64, bool) {
		if suffix == "kB" {
			suffix = "KB"
		}
		for _, u := range byteUnits {
			if suffix == u.name {
				return float64(u.unit), true
			}
		}
		return 0, false
	})
	return Bytes(v), err
}

// UnmarshalText implements encoding.TextUnmarshaler by ParseBytes.
func (n *Bytes) UnmarshalText(b []byte) (err error) {
	*n, err = ParseBytes(string(b))
	return err
}

// MarshalText implements encoding.TextMarshaler by String.
func (n Bytes) MarshalText() ([]byte, error) { return []byte(n.String()), nil }
