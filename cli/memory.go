package cli

import (
	"fmt"
	"math"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/prometheus/procfs"

	"github.com/sluice-rdma/sluice/units"
)

// memoryLimit returns the limit that --memory sets on a run, 0 for no limit. An empty
// text stands for the machine's available memory, swap included, or, if that is less, the
// limit of the cgroup; where neither is known there is no limit.
func memoryLimit(text string) (units.Bytes, error) {
	switch text {
	case "":
		return availableMemory(), nil
	case "none":
		return 0, nil
	}
	n, err := units.ParseBytes(text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("--memory: %w", units.SuggestUnit(err, "GiB"))
	case n <= 0:
		return 0, fmt.Errorf("--memory %s: give a size above 0, such as 64GiB, or none for no limit", text)
	}
	return n, nil
}

func availableMemory() units.Bytes {
	least := uint64(math.MaxUint64)
	if proc, err := procfs.NewDefaultFS(); err == nil {
		if m, err := proc.Meminfo(); err == nil && m.MemAvailableBytes != nil {
			least = *m.MemAvailableBytes
			if m.SwapFreeBytes != nil {
				least += *m.SwapFreeBytes
			}
		}
	}
	if limit, err := memlimit.FromCgroup(); err == nil && limit > 0 {
		least = min(least, limit)
	}
	if least > math.MaxInt64 {
		return 0
	}
	return units.Bytes(least)
}
