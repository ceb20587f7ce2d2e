package bounds

import (
	"github.com/sluice-rdma/sluice/internal/field"
	"github.com/sluice-rdma/sluice/units"
)

// Parameters are kept in ranges in which the model's arithmetic does not overflow within
// the longest run, 1000 s. They reach far beyond what hardware has.
const (
	MostCycles  = 1 << 20
	MostLatency = 100 * units.Millisecond
	LeastRate   = units.Mbps
	MostRate    = 100 * units.Tbps
	MostPhase   = 1_000_000 * units.Second
	MostEntries = 1 << 24 // of a cache
	MostSlots   = 1 << 16 // of what goes on at a time
	LeastBuffer = 16 << 10
	MostBuffer  = 1 << 30
)

// In checks a range; zero, unless empty, says what 0 means.
func In[T ~int | ~int64 | ~uint64](key string, v, low, high T, zero string) error {
	return field.Range("nic", key, v, low, high, zero)
}

// Bad returns the error of a parameter's value, with the range wanted.
func Bad(key string, v any, want string, args ...any) error {
	return field.Bad("nic", key, v, want, args...)
}
