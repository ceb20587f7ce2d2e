//go:build !linux

package cli

import (
	"context"

	"github.com/sluice-rdma/sluice/bench"
)

// hostPrograms runs no programs: they need Linux.
func hostPrograms(context.Context) bench.RunHostPrograms { return nil }
