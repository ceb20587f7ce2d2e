//go:build !linux

package wiretag

import (
	"errors"

	"github.com/sluice-rdma/sluice/verbs"
)

// Device is a verbs.Device whose connections report telemetry, on Linux.
type Device struct{ verbs.Device }

// Wrap fails: the hooks are Linux's.
func Wrap(dev verbs.Device, _ string, _ Config) (*Device, error) {
	return nil, verbs.Errorf("wiretag", dev.Name(), verbs.ErrNotSupported, "eBPF at a network interface requires Linux")
}

// Available says why Wrap fails.
func Available(string) error {
	return errors.New("eBPF at a network interface requires Linux")
}

// Responder answers probes, on Linux.
type Responder struct{}

// NewResponder fails.
func NewResponder(netdev string, _ Config) (*Responder, error) {
	return nil, verbs.Errorf("wiretag", netdev, verbs.ErrNotSupported, "eBPF at a network interface requires Linux")
}

// Attached says nothing.
func (*Responder) Attached() string { return "" }

// Stats counts nothing.
func (*Responder) Stats() Stats { return Stats{} }

// Close does nothing.
func (*Responder) Close() error { return nil }
