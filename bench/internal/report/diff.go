package report

import (
	"slices"
	"strings"
)

// diffLines is how long texts may be to be compared line by line: the time and
// space that takes grow with the product of their lengths.
const diffLines = 2000

// difference is a line that only one of two texts has.
type difference struct {
	Removed bool // it is in the first
	Line    string
}

// differences lists the lines in which two texts differ, by their longest common
// subsequence, in order. It reports false if the texts are too long for that.
func differences(a, b string) ([]difference, bool) {
	x, y := strings.Split(strings.TrimSuffix(a, "\n"), "\n"), strings.Split(strings.TrimSuffix(b, "\n"), "\n")
	for len(x) > 0 && len(y) > 0 && x[0] == y[0] {
		x, y = x[1:], y[1:]
	}
	for len(x) > 0 && len(y) > 0 && x[len(x)-1] == y[len(y)-1] {
		x, y = x[:len(x)-1], y[:len(y)-1]
	}
	if len(x) > diffLines || len(y) > diffLines {
		return nil, false
	}
	// common[i][j] is the length of what x[i:] and y[j:] have in common.
	common := make([][]int32, len(x)+1)
	for i := range common {
		common[i] = make([]int32, len(y)+1)
	}
	for i := range slices.Backward(x) {
		for j := range slices.Backward(y) {
			if x[i] == y[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var out []difference
	i, j := 0, 0
	for i < len(x) || j < len(y) {
		switch {
		case i < len(x) && j < len(y) && x[i] == y[j]:
			i, j = i+1, j+1
		case j == len(y) || i < len(x) && common[i+1][j] >= common[i][j+1]:
			out = append(out, difference{true, x[i]})
			i++
		default:
			out = append(out, difference{false, y[j]})
			j++
		}
	}
	return out, true
}
