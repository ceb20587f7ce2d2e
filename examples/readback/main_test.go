package main

import (
	"strings"
	"testing"
)

func TestReadback(t *testing.T) {
	var first string
	for i, args := range [][]string{
		{"-client", "sim:a/h0", "-server", "sim:a/h1"},
		{"-client", "sim:b/h0", "-server", "sim:b/h1"},
		{"-client", "sim:c/h0", "-server", "sim:c/h7", "-bytes", "1", "-cc", "none"},
		{"-client", "sim:c/h1", "-server", "sim:c/h2", "-bytes", "3000001", "-cc", "timely"},
	} {
		var out strings.Builder
		if err := run(args, &out); err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		if !strings.Contains(out.String(), "the bytes are the same") {
			t.Errorf("%v printed %q", args, out.String())
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

func TestBadArguments(t *testing.T) {
	for _, args := range [][]string{
		{"-client", "sim:lab/h99"}, {"-client", "mlx5_0"}, {"-bytes", "0"}, {"-cc", "warp"}, {"-nosuch"},
	} {
		if err := run(args, &strings.Builder{}); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}
