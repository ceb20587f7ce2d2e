package markdown_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/internal/markdown"
)

func ExampleTable() {
	var b strings.Builder
	t := markdown.NewTable(&b, "flag", "takes", "")
	t.Row(markdown.Code("--size"), "1|2|4", 3)
	t.Row("", "of two\nlines")
	fmt.Print(b.String())
	// Output:
	// | flag | takes |  |
	// |---|---|---|
	// | `--size` | 1\|2\|4 | 3 |
	// |  | of two lines |  |
}

func TestTooManyCells(t *testing.T) {
	defer func() {
		if said := fmt.Sprint(recover()); said != "markdown: 2 cells in a table of 1 columns" {
			t.Error(said)
		}
	}()
	markdown.NewTable(&strings.Builder{}, "a").Row(1, 2)
}
