//go:build ibverbs

package cli

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sluice-rdma/sluice/internal/fakeverbs"
)

// TestIBVerbsScripts runs the command over a libibverbs that the test builds.
func TestIBVerbsScripts(t *testing.T) {
	dir := fakeverbs.Build(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/ibverbs",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("LD_LIBRARY_PATH", dir)
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
	})
}
