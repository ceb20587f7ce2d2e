//go:build !linux

package verbstest

import (
	"fmt"
	"time"

	"github.com/sluice-rdma/sluice/verbs"
)

func readable(int, time.Duration) (bool, error) {
	return false, fmt.Errorf("polling a descriptor: %w on this system", verbs.ErrNotSupported)
}
