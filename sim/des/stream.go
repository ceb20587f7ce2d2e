package des

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"

	"github.com/sluice-rdma/sluice/internal/detmath"
	"github.com/sluice-rdma/sluice/units"
)

// Stream is a random stream that belongs to one entity of a model. Streams of
// different names are independent: the draws of one do not depend on those of
// others. So adding an entity does not change the rest of a run. The same seed and
// name give the same draws on every platform.
type Stream struct {
	rng *rand.PCG
}

// NewStream returns the stream of that name for a run with that seed.
func NewStream(seed uint64, name string) Stream {
	sum := sha256.Sum256(append(binary.BigEndian.AppendUint64(nil, seed), name...))
	return Stream{rand.NewPCG(binary.BigEndian.Uint64(sum[:8]), binary.BigEndian.Uint64(sum[8:16]))}
}

// Uint64 draws 64 uniform bits.
func (s Stream) Uint64() uint64 { return s.rng.Uint64() }

// Float64 draws from [0, 1), a multiple of 2^-53.
func (s Stream) Float64() float64 { return float64(s.rng.Uint64()>>11) / (1 << 53) }

// IntN draws from [0, n). It panics if n is not positive.
func (s Stream) IntN(n int) int { return rand.New(s.rng).IntN(n) }

// Exp draws from the exponential distribution of that mean, rounded to a
// picosecond: the gaps of a Poisson process.
func (s Stream) Exp(mean units.Time) units.Time {
	u := 1 - s.Float64() // in (0, 1]
	return units.Time(float64(-detmath.Log(u) * float64(mean)))
}

// Shuffle puts n elements in a random order by calls of swap.
func (s Stream) Shuffle(n int, swap func(i, j int)) {
	for i := n - 1; i > 0; i-- {
		swap(i, s.IntN(i+1))
	}
}
