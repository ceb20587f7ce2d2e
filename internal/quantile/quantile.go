// Package quantile is the one definition of a quantile in the tree: the value of rank
// q n + 1/2, rounded down, among n in order, and the first at least. It is always one of the values,
// and of an even number of them the median is the lower of the two in the middle. High dynamic range
// histograms and the C library's have the same.
//
// It must not know what the values are.
package quantile

// Rank returns which of n values in order, from 1 on, has a share q of them up to it; q is from
// 0 to 1, and n at least 1.
func Rank(q float64, n uint64) uint64 {
	return min(max(uint64(float64(q*float64(n))+0.5), 1), n)
}

// Of returns the quantile of values in order, the zero value if there are none.
func Of[T any](sorted []T, q float64) (v T) {
	if len(sorted) == 0 {
		return v
	}
	return sorted[Rank(q, uint64(len(sorted)))-1]
}
