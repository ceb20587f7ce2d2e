//go:build !linux

package wiretag

import "github.com/sluice-rdma/sluice/verbs"

// Device is a verbs.Device whose connections report telemetry, on Linux.
type Device struct{ verbs.Device }

// Wrap fails: the hooks are Linux's.
func Wrap(dev verbs.Device, _ string, _ Config) (*Device, error) {
	return nil, verbs.Errorf("wiretag", dev.Name(), verbs.ErrNotSupported, "eBPF at the hooks of a network interface is there on Linux only")
}
