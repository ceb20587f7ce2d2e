package main

import (
	"strings"
	"testing"
)

func TestReadback(t *testing.T) {
	var first string
	for i, c := range [][2]string{{"sim:a/h0", "sim:a/h1"}, {"sim:b/h0", "sim:b/h1"}, {"sim:c/h0", "sim:c/h7"}, {"soft:127.0.3.1", "soft:127.0.3.2"}} {
		var out strings.Builder
		if err := run(t.Context(), c[0], c[1], &out); err != nil {
			t.Fatalf("%v: %v", c, err)
		}
		if !strings.HasPrefix(out.String(), "1200000 bytes written in ") || !strings.Contains(out.String(), "are the same: true\n") {
			t.Errorf("%v printed %q", c, out.String())
		}
		switch i {
		case 0:
			first = out.String()
		case 1:
			if out.String() != first {
				t.Errorf("the same run twice gave\n%s\n%s", first, out.String())
			}
		}
	}
}

func TestBadDevices(t *testing.T) {
	for _, c := range [][2]string{{"sim:lab/h99", "sim:lab/h1"}, {"sim:lab/h0", "mlx5_0"}} {
		if err := run(t.Context(), c[0], c[1], &strings.Builder{}); err == nil {
			t.Errorf("%v: no error", c)
		}
	}
}
