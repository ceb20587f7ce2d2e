// Package spelling finds the name that a mistyped one was meant to be. It does not
// know what the names denote.
package spelling

import (
	"fmt"
	"strings"
)

// Nearest returns the name that is likely meant by a mistyped one, or "".
func Nearest(typed string, names []string) string {
	best, least := "", 1+len(typed)/3
	for _, name := range names {
		if n := distance(strings.ToLower(typed), strings.ToLower(name)); n <= least && n < max(len(typed), len(name)) {
			best, least = name, n-1
		}
	}
	return best
}

// Mend is how an error about a name that is not there ends: with the one that is
// likely meant, or with all that there are.
func Mend(typed string, names []string) string {
	if near := Nearest(typed, names); near != "" {
		return fmt.Sprintf("is %q meant?", near)
	}
	return "take one of " + strings.Join(names, ", ")
}

// distance counts insertions, deletions, replacements, and exchanges of neighbours, by
// bytes (the restricted Damerau-Levenshtein distance).
func distance(a, b string) int {
	before, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			cost := row[j]
			if a[i] != b[j] {
				cost++
			}
			next[j+1] = min(cost, next[j]+1, row[j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
