package swift

import "math"

// target is the target delay of section 3.5, in picoseconds.
type target struct {
	base        float64
	hop         float64 // for each hop
	fsRange     float64
	alpha, beta float64 // of flow scaling, alpha/sqrt(cwnd) + beta
}

// newTarget takes alpha and beta from the two windows between which flow scaling
// is to go from fsRange to nothing:
//
//	alpha = fs_range / (1/sqrt(fs_min_cwnd) - 1/sqrt(fs_max_cwnd))
//	beta  = -alpha / sqrt(fs_max_cwnd)
func newTarget(base, hop, fsRange, fsMinCwnd, fsMaxCwnd float64) target {
	atMax := 1 / math.Sqrt(fsMaxCwnd)
	alpha := fsRange / (1/math.Sqrt(fsMinCwnd) - atMax)
	return target{base: base, hop: hop, fsRange: fsRange, alpha: alpha, beta: -float64(alpha * atMax)}
}

// targetDelay is TARGETDELAY, section 3.5's sum of the base, topology scaling and
// flow scaling:
//
//	base_target + hops hop_scale + max(0, min(alpha/sqrt(cwnd) + beta, fs_range))
func (t *target) targetDelay(cwnd float64, hops int) float64 {
	flows := max(0, min(float64(t.alpha/math.Sqrt(cwnd))+t.beta, t.fsRange))
	return t.base + float64(float64(hops)*t.hop) + flows
}
