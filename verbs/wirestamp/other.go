//go:build !linux

package wirestamp

import "github.com/sluice-rdma/sluice/verbs"

// Device is a verbs.Device whose completions have timestamps, on Linux.
type Device struct{ verbs.Device }

// Wrap fails: the hooks are Linux's.
func Wrap(dev verbs.Device, _ string) (*Device, error) {
	return nil, verbs.Errorf("wirestamp", dev.Name(), verbs.ErrNotSupported, "eBPF at a network interface requires Linux")
}
