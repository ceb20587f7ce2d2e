package softroce

import (
	"os"
	"strings"
	"testing"
)

// The error that lists the options has all of them, and so have the package's comment and the page.
func TestOptionsAreDescribed(t *testing.T) {
	_, err := parseOptions("speed=1")
	if err == nil {
		t.Fatal("an unknown option is taken")
	}
	_, list, _ := strings.Cut(err.Error(), "expected ")
	var text string
	for _, file := range []string{"doc.go", "../../docs/softroce.md"} {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text += string(b)
	}
	keys := strings.Split(list, ", ")
	if len(keys) < 18 {
		t.Errorf("%d options, want 18 or more: %s", len(keys), list)
	}
	for _, key := range keys {
		if !strings.Contains(text, "//\t"+key+" ") && !strings.Contains(text, key+"=") {
			t.Errorf("%s is not described", key)
		}
	}
}
