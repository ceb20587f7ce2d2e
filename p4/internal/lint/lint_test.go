package lint_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluice-rdma/sluice/p4/internal/ast"
	"github.com/sluice-rdma/sluice/p4/internal/check"
	"github.com/sluice-rdma/sluice/p4/internal/include"
	"github.com/sluice-rdma/sluice/p4/internal/lint"
	"github.com/sluice-rdma/sluice/p4/internal/parse"
)

func tree(t *testing.T, name string, target lint.Target) *ast.Program {
	t.Helper()
	src, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := parse.Program(name, src, parse.Options{ReadFile: os.ReadFile, Builtin: include.Builtin})
	if err != nil {
		t.Fatal(err)
	}
	if err := check.Program(tree, check.Options{}); err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestX(t *testing.T) {
	for _, p := range []string{"testdata/before/*.p4", "../../*_tna.p4"} {
		files, _ := filepath.Glob(p)
		for _, f := range files {
			t.Log(strings.ToUpper(f))
			for _, w := range lint.Check(tree(t, f, 1), 1) {
				t.Log(w.At, w.Text)
			}
		}
	}
}
