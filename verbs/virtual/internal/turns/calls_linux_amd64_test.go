package turns

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestCalls compares the table of system calls in docs/virtual-nic.md with the one that the library has.
func TestCalls(t *testing.T) {
	source, err := os.ReadFile("../../preload/calls.h")
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string][]string{} // by what they are
	numbers := map[int]bool{}
	for _, m := range regexp.MustCompile(`(?m)^(VIRTUAL|PASSED|REFUSED)\((\d+), (\w+)`).FindAllStringSubmatch(string(source), -1) {
		number, err := strconv.Atoi(m[2])
		if err != nil || numbers[number] {
			t.Errorf("call %s twice, %v", m[2], err)
		}
		numbers[number] = true
		calls[m[1]] = append(calls[m[1]], fmt.Sprintf("%s %s", m[2], m[3]))
	}
	// The kernel left out 335 to 423, for all architectures to have the same numbers from there on.
	const last, gapBegins, gapEnds = 469, 335, 423
	for number := range last + 1 {
		if numbers[number] != (number < gapBegins || number > gapEnds) {
			t.Errorf("call %d: in the table: %v", number, numbers[number])
		}
	}
	docs, err := os.ReadFile("../../../../docs/virtual-nic.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, class := range slices.Sorted(maps.Keys(calls)) {
		row := fmt.Sprintf("| %s | %s |\n", strings.ToLower(class), strings.Join(calls[class], ", "))
		if !strings.Contains(string(docs), row) {
			t.Errorf("docs/virtual-nic.md lacks this row:\n%s", row)
		}
	}
}
